//! Limits that are enforced for a share of their keys.

use std::collections::BTreeSet;

use serde_json::json;
use tollgate_testbed::Redis;

use crate::house::House;
use crate::http_client::Client;
use crate::over_redis::at;

const RULES: &str = "domain: d\ndescriptors: [{key: user, enforce: 50%, rate_limit: 1/day}]\n";

/// The users whose second request is denied.
async fn denied_users(house: &House) -> BTreeSet<u32> {
    let mut client = Client::to(house.http()).await;
    let mut denied = BTreeSet::new();
    for user in 0..40 {
        let body = json!({"domain": "d", "descriptors": [{"user": format!("user-{user}")}]});
        let body = body.to_string();
        assert_eq!(client.post("/v1/check", &body).await.status, 200);
        let second = client.post("/v1/check", &body).await;
        if second.status == 429 {
            denied.insert(user);
        } else {
            // As for a shadow limit, clients see nothing of it.
            assert_eq!(second.status, 200);
            assert_eq!(second.header("ratelimit"), None);
        }
    }
    denied
}

#[tokio::test]
async fn the_same_keys_are_enforced_over_every_store_and_after_a_restart() {
    let house = House::on(RULES).await;
    let denied = denied_users(&house).await;
    assert!((8..=32).contains(&denied.len()), "{denied:?}");
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    for (outcome, count) in [
        ("allowed", 40),
        ("denied", denied.len()),
        ("shadow_denied", 40 - denied.len()),
    ] {
        let expected = format!(
            "tollgate_decisions_total{{domain=\"d\",rule=\"user\",outcome=\"{outcome}\"}} {count}"
        );
        assert!(metrics.contains(&expected), "{expected}\n{metrics}");
    }
    let rules = Client::to(house.admin()).await.get("/v1/rules").await;
    assert_eq!(rules.json()["rules"][0]["enforce"], "50%");
    assert_eq!(denied_users(&House::on(RULES).await).await, denied);
    let redis = Redis::start();
    let house = House::with(RULES, |config| config.store = at(&redis)).await;
    assert_eq!(denied_users(&house).await, denied);
}
