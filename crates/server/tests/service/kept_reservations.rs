//! Reservations over Redis: any instance settles them, once.

use serde_json::{Value, json};
use tollgate_backends::SharedConfig;
use tollgate_core::Span;
use tollgate_redis::Config as RedisConfig;
use tollgate_server::{Config, OtherStore, Place};
use tollgate_testbed::{Cluster, Redis};

use crate::house::{House, replace};
use crate::http_client::{Client, Reply};
use crate::over_redis::{at, config_at};

const RULES: &str = "
domain: llm
on_store_error: local
descriptors:
  - key: user
    rate_limit: {name: tokens, window: 1d, requests_per_unit: 1000, anchor: first_request}
  - key: model
    rate_limit: {window: 1d, requests_per_unit: 5000, algorithm: sliding_log}
  - key: lazy
    rate_limit: {window: 1d, requests_per_unit: 100, algorithm: token_bucket, mode: write_back}
";

async fn reserve(house: &House, descriptors: Value, units: u32) -> Reply {
    let body = json!({
        "domain": "llm", "descriptors": descriptors, "cost": units, "reserve": true,
    });
    let mut client = Client::to(house.http()).await;
    client.post("/v1/check", &body.to_string()).await
}

/// The id of a new reservation of ann's units.
async fn id(house: &House, units: u32) -> Value {
    let reply = reserve(house, json!([{"user": "ann"}]), units).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["reservation"]["id"].clone()
}

async fn settle(house: &House, id: &Value, units: u32) -> Reply {
    let body = json!({"reservation": id, "cost": units}).to_string();
    Client::to(house.http())
        .await
        .post("/v1/settle", &body)
        .await
}

async fn remaining(house: &House) -> Value {
    let body = r#"{"domain":"llm","descriptors":[{"user":"ann"}],"peek":true}"#;
    let reply = Client::to(house.http()).await.post("/v1/check", body).await;
    reply.json()["limits"][0]["remaining"].clone()
}

async fn on(store: Place) -> House {
    House::with(RULES, |config: &mut Config| config.store = store).await
}

#[tokio::test]
async fn another_instance_settles_once() {
    let redis = Redis::start();
    let (one, other) = (on(at(&redis)).await, on(at(&redis)).await);
    let reply = reserve(&one, json!([{"user": "ann"}, {"user": "ann"}]), 300).await;
    let reservation = &reply.json()["reservation"];
    assert_eq!(reservation["expiresIn"], "3600s", "{reply:?}");
    let reply = settle(&other, &reservation["id"], 100).await;
    let expected = json!([{
        "outcome": "settled", "rule": "user", "name": "tokens",
        "reserved": 600, "charged": 200, "remaining": 800,
    }]);
    assert_eq!(reply.json()["limits"], expected, "{reply:?}");
    for house in [&one, &other] {
        settle(house, &reservation["id"], 0).await.problem(404);
        assert_eq!(remaining(house).await, 800);
    }
    let excess = settle(&other, &id(&one, 100).await, 5_000).await.json();
    assert_eq!(excess["limits"][0]["charged"], 800);
    assert_eq!(reserve(&one, json!([{"user": "ann"}]), 1).await.status, 429);
    // Of an instance that has ended.
    let reply = reserve(&one, json!([{"user": "bob"}]), 10).await.json();
    one.running.stop().await;
    let reply = settle(&other, &reply["reservation"]["id"], 4).await;
    assert_eq!(reply.json()["limits"][0]["remaining"], 996, "{reply:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_instances_that_settle_at_once_one_does() {
    let redis = Redis::start();
    let (one, other) = (on(at(&redis)).await, on(at(&redis)).await);
    for _ in 0..30 {
        let id = id(&one, 600).await;
        let replies = tokio::join!(
            settle(&one, &id, 0),
            settle(&other, &id, 0),
            settle(&other, &id, 0)
        );
        let mut statuses = [replies.0.status, replies.1.status, replies.2.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 404, 404]);
        assert_eq!(remaining(&one).await, 1_000);
    }
}

#[tokio::test]
async fn a_reservation_expires_in_redis_and_its_rules_may_change() {
    let redis = Redis::start();
    let (one, other) = (on(at(&redis)).await, on(at(&redis)).await);
    let id = id(&one, 600).await;
    let keys = redis.ask(&["KEYS", "*"]);
    let lives = keys.split_whitespace().filter(|key| key.starts_with("tg:"));
    let lives: Vec<i64> = lives
        .filter(|key| redis.ask(&["GETRANGE", key, "0", "0"]) == "R")
        .map(|key| redis.ask(&["PTTL", key]).parse().unwrap())
        .collect();
    assert!(matches!(lives[..], [1..=3_600_000]), "{lives:?} of {keys}");
    let larger = RULES.replace("1000", "2000");
    replace(&other.path("rules.yaml"), &larger);
    other.running.reload().await;
    let reply = settle(&other, &id, 100).await.json();
    assert_eq!(reply["limits"][0]["charged"], 100);
    assert_eq!(reply["limits"][0]["remaining"], 1_900);
    let both = reserve(&other, json!([{"user": "ann"}, {"model": "m"}]), 100).await;
    replace(
        &other.path("rules.yaml"),
        &larger.replace("key: user", "key: nobody"),
    );
    other.running.reload().await;
    let reply = settle(&other, &both.json()["reservation"]["id"], 10).await;
    let reply = reply.json();
    assert_eq!(reply["limits"][0]["outcome"], "no_limit", "{reply}");
    assert_eq!(reply["limits"][1]["remaining"], 4_990, "{reply}");
}

#[tokio::test]
async fn a_cluster_keeps_reservations_whose_limits_share_a_slot() {
    let cluster = Cluster::start();
    let config = RedisConfig {
        timeout: Span::from_secs(10),
        ..RedisConfig::cluster(cluster.addresses())
    };
    let place = || Place::Shared(SharedConfig::new(config.clone()));
    let (one, other) = (on(place()).await, on(place()).await);
    for user in 0..20 {
        let name = format!("user-{user}");
        // The same value is in the same slot, whichever the rule.
        let both = json!([{"user": name}, {"model": name}]);
        let reply = reserve(&one, both, 600).await;
        let reply = settle(&other, &reply.json()["reservation"]["id"], 1).await;
        let limits = &reply.json()["limits"];
        assert_eq!(limits[0]["remaining"], 999, "{reply:?}");
        assert_eq!(limits[1]["remaining"], 4_999, "{reply:?}");
    }
    let apart = reserve(&one, json!([{"user": "ann"}, {"model": "m"}]), 600).await;
    let detail = apart.problem(501);
    assert!(detail.contains("one slot"), "{detail}");
    assert_eq!(remaining(&one).await, 1_000);
}

#[tokio::test]
async fn without_redis_there_are_no_reservations_and_a_settlement_can_be_retried() {
    let redis = Redis::start();
    let config = RedisConfig {
        timeout: Span::from_secs(2),
        ..config_at(&redis)
    };
    let house = on(Place::Shared(SharedConfig::new(config))).await;
    let detail = reserve(&house, json!([{"lazy": "x"}]), 1)
        .await
        .problem(501);
    assert!(detail.contains("write_back"), "{detail}");
    let id = id(&house, 600).await;
    redis.pause();
    let detail = settle(&house, &id, 100).await.problem(503);
    assert!(detail.contains("unavailable"), "{detail}");
    // `on_store_error: local` decides, but nothing can be settled later.
    let reply = reserve(&house, json!([{"user": "bob"}]), 10).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.json()["reservation"], Value::Null);
    redis.go_on();
    let mut reply = settle(&house, &id, 100).await;
    while reply.status == 503 {
        reply = settle(&house, &id, 100).await;
    }
    assert_eq!(reply.json()["limits"][0]["charged"], 100, "{reply:?}");
}

/// An id does not say which store keeps its reservation, so all are asked.
#[tokio::test]
async fn of_several_stores_the_one_that_keeps_a_reservation_is_found() {
    let (away, own) = (Redis::start(), Redis::start());
    let two = format!("{RULES}---\n{}", RULES.replace("llm", "other"));
    let house = House::with(&two, |config| {
        let within = |redis| RedisConfig {
            timeout: Span::from_secs(1),
            ..config_at(redis)
        };
        config.store = Place::Shared(SharedConfig::new(within(&away)));
        config.stores = vec![OtherStore {
            name: "own".to_owned(),
            domains: vec!["llm".to_owned()],
            place: at(&own),
        }];
    })
    .await;
    let unknown = json!("0123456789abcdef0123456789abcdef");
    settle(&house, &unknown, 1).await.problem(404);
    let id = id(&house, 600).await;
    away.kill();
    let reply = settle(&house, &id, 100).await;
    assert_eq!(reply.json()["limits"][0]["remaining"], 900, "{reply:?}");
    // The store that is away may keep it.
    settle(&house, &unknown, 1).await.problem(503);
}
