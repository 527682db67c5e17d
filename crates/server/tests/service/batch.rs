//! A list of checks in one request of `/v1/check`.

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tollgate_redis::Config as RedisConfig;
use tollgate_testbed::Redis;

use crate::house::House;
use crate::http_client::{Client, Reply};
use crate::over_redis::{at, calls, metric};

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {name: per-user, window: 1d, requests_per_unit: 3, algorithm: fixed_window}
  - key: bucket
    rate_limit: {window: 1d, requests_per_unit: 5, algorithm: token_bucket}
  - key: log
    rate_limit: {window: 1d, requests_per_unit: 4, algorithm: sliding_log}
  - key: queue
    rate_limit: {unit: day, requests_per_unit: 2, algorithm: leaky_bucket, queue: 10}
  - {key: dark, rate_limit: 1/day, shadow_mode: true}
  - key: free
    rate_limit: {unlimited: true}
---
domain: other
descriptors:
  - {key: user, rate_limit: 2/day}
";

/// Checks that use the same keys again, in another order each time.
fn checks(count: usize) -> Vec<Value> {
    let descriptor = |number: usize| match number % 7 {
        0 => json!({"user": "ann"}),
        1 => json!({"bucket": "b"}),
        2 => json!({"log": "l"}),
        3 => json!({"dark": "d"}),
        4 => json!({"free": "f"}),
        5 => json!({"user": format!("u{}", number % 3)}),
        _ => json!({"unknown": "x"}),
    };
    let check = |number: usize| {
        let mut descriptors = vec![descriptor(number)];
        if number.is_multiple_of(3) {
            descriptors.push(descriptor(number / 3));
        }
        let domain = ["shop", "shop", "other", "none"][number * 5 / 3 % 4];
        json!({
            "domain": domain,
            "descriptors": descriptors,
            "cost": number % 3,
            "peek": number.is_multiple_of(5),
        })
    };
    (0..count).map(check).collect()
}

/// The answer to a check by itself, as an element of a list has it.
fn element(reply: &Reply) -> Value {
    let mut json = reply.json();
    json["status"] = json!(reply.status);
    if let Some(id) = reply.header("x-request-id") {
        json["requestId"] = json!(id);
    }
    json
}

/// Sends the checks to one service by themselves and to the other in lists.
async fn compare(alone: &House, together: &House) {
    let (mut alone, mut together) = (
        Client::to(alone.http()).await,
        Client::to(together.http()).await,
    );
    let checks = checks(240);
    let mut expected = Vec::new();
    for check in &checks {
        expected.push(element(&alone.post("/v1/check", &check.to_string()).await));
    }
    let statuses = expected.iter().map(|one| one["status"].as_u64().unwrap());
    let denied = statuses.filter(|status| *status == 429).count();
    assert!((20..200).contains(&denied), "{denied}");
    let mut found: Vec<Value> = Vec::new();
    for list in checks.chunks(47) {
        let reply = together.post("/v1/check", &json!(list).to_string()).await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("content-type"), Some("application/json"));
        found.extend(reply.json().as_array().unwrap().iter().cloned());
    }
    // Ids are new, in both.
    for one in expected.iter_mut().chain(&mut found) {
        let is_denied = one["status"] == 429;
        let has_id = one.as_object_mut().unwrap().remove("requestId").is_some();
        assert_eq!(is_denied, has_id, "{one}");
        // Redis counts by its own clock, which runs, and a denial that is remembered says what
        // remained when Redis made it.
        for limit in one["limits"].as_array_mut().unwrap() {
            let is_denied = limit["outcome"] == "denied";
            let limit = limit.as_object_mut().unwrap();
            limit.retain(|name, _| match &**name {
                "reset" | "wait" => false,
                "remaining" => !is_denied,
                _ => true,
            });
        }
        for member in ["retryAfter", "detail"] {
            one.as_object_mut().unwrap().remove(member);
        }
    }
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found, expected, "{index}: {}", checks[index]);
    }
    assert_eq!(found.len(), expected.len());
}

#[tokio::test]
async fn a_list_is_answered_as_its_checks_one_after_the_other() {
    compare(&House::on(RULES).await, &House::on(RULES).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_lists_at_once_exactly_as_many_checks_as_the_limit_are_allowed() {
    let house = House::on(&RULES.replace("requests_per_unit: 3,", "requests_per_unit: 500,")).await;
    let address = house.http();
    let check = json!({"domain": "shop", "descriptors": [{"user": "ann"}]});
    let list = json!(vec![check; 20]).to_string();
    let mut clients = JoinSet::new();
    for _ in 0..32 {
        let list = list.clone();
        clients.spawn(async move {
            let reply = Client::to(address).await.post("/v1/check", &list).await;
            let answers = reply.json().as_array().unwrap().clone();
            let statuses = answers
                .iter()
                .map(|answer| answer["status"].as_u64().unwrap());
            statuses.collect::<Vec<_>>()
        });
    }
    let statuses = clients.join_all().await.concat();
    let count = |expected| {
        statuses
            .iter()
            .filter(|status| **status == expected)
            .count()
    };
    assert_eq!((count(200), count(429)), (500, 140));
}

#[tokio::test]
async fn a_list_is_answered_the_same_over_redis_in_few_calls() {
    let redis = Redis::start();
    let with_prefix = |prefix: &str| RedisConfig {
        prefix: prefix.to_owned(),
        ..crate::over_redis::config_at(&redis)
    };
    let place = |prefix| {
        let shared = tollgate_backends::SharedConfig::new(with_prefix(prefix));
        tollgate_server::Place::Shared(shared)
    };
    let alone = House::with(RULES, |config| config.store = place("alone:")).await;
    let together = House::with(RULES, |config| config.store = place("together:")).await;
    compare(&alone, &together).await;

    let users: Vec<Value> = (0..200)
        .map(|user| json!({"domain": "shop", "descriptors": [{"user": format!("new{user}")}]}))
        .collect();
    let before = calls(&together).await;
    let mut client = Client::to(together.http()).await;
    let reply = client.post("/v1/check", &json!(users).to_string()).await;
    let answers = reply.json();
    let allowed = answers.as_array().unwrap().iter();
    assert_eq!(allowed.filter(|one| one["allowed"] == true).count(), 200);
    // A call decides up to 64 requests, and the keys are spread over two connections.
    let took = calls(&together).await - before;
    assert!((4..=5).contains(&took), "{took} calls");
}

#[tokio::test]
async fn the_store_that_fails_is_an_error_of_the_checks_it_has() {
    let rules = RULES.replace("domain: shop", "domain: shop\non_store_error: error");
    let redis = Redis::start();
    let store = at(&redis);
    let house = House::with(&rules, |config| {
        config.store = store;
        config.stores = vec![tollgate_server::OtherStore {
            name: "here".to_owned(),
            domains: vec!["other".to_owned()],
            place: tollgate_server::Place::Memory,
        }];
    })
    .await;
    drop(redis);
    let mut client = Client::to(house.http()).await;
    let list = json!([
        {"domain": "shop", "descriptors": [{"user": "ann"}]},
        {"domain": "other", "descriptors": [{"user": "ann"}]},
        {"domain": "shop", "descriptors": [{"unknown": "ann"}]},
    ]);
    let reply = client.post("/v1/check", &list.to_string()).await;
    let statuses: Vec<Value> = reply.json().as_array().unwrap().to_vec();
    let statuses: Vec<&Value> = statuses.iter().map(|one| &one["status"]).collect();
    assert_eq!(
        (reply.status, statuses),
        (200, vec![&json!(503), &json!(200), &json!(200)])
    );
    let name = "tollgate_request_errors_total{listener=\"http\",kind=\"store_unreachable\"}";
    assert_eq!(metric(&house, name).await, 1);
}

#[tokio::test]
async fn an_invalid_check_is_named_and_nothing_is_decided() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.http()).await;
    let good = r#"{"domain":"shop","descriptors":[{"user":"ann"}]}"#;
    let cases = [
        (
            r#"{"domain":"shop","descriptors":[{}]}"#,
            "checks[1].descriptors[0] has no entries",
        ),
        (
            r#"{"domain":"shop","descriptors":[{"a":"b"},{"a":null}]}"#,
            "checks[1].descriptors[1]: the value of `a` must be text",
        ),
        (
            r#"{"domain":"","descriptors":[{"a":"b"}]}"#,
            "checks[1]: rate limit domain",
        ),
        (
            r#"{"descriptors":[{"a":"b"}]}"#,
            "checks[1]: missing field `domain`",
        ),
        (
            r#"["shop",[{"a":"b"}],1,false,false]"#,
            "checks[1]: invalid type: sequence",
        ),
        (
            r#"{"domain":"shop","descriptors":[{"a":"b"}],"reserve":true}"#,
            "checks[1]: `reserve`",
        ),
        (
            r#"{"domain":"shop","descriptors":[{"a":"b"}],"cost":-1}"#,
            "checks[1]: a refund",
        ),
        (
            r#"{"domain":"shop","descriptors":[{"a":"b"}],"cost":4294967296}"#,
            "checks[1]: a cost",
        ),
        ("7", "checks[1]: invalid type: integer"),
        ("", "checks[1]: trailing comma"),
    ];
    for (bad, expected) in cases {
        let reply = client.post("/v1/check", &format!("[{good},{bad}]")).await;
        let detail = reply.problem(400);
        assert!(detail.contains(expected), "{bad}: {detail}");
    }
    let reply = client.post("/v1/check", &format!("[{good}] x")).await;
    assert!(reply.problem(400).contains("trailing characters"));
    let reply = client.post("/v1/check", &format!("[{good}]")).await;
    assert_eq!(
        reply.json()[0]["limits"][0]["remaining"],
        2,
        "nothing was charged"
    );
    assert_eq!(client.post("/v1/check", " [ ] ").await.json(), json!([]));
}

#[tokio::test]
async fn a_list_is_bounded() {
    let house = House::with(RULES, |config| config.limits.body_bytes = 1 << 20).await;
    let mut client = Client::to(house.http()).await;
    let list = |count: usize, check: &str| format!("[{}]", vec![check; count].join(","));
    let free = r#"{"domain":"shop","descriptors":[{"free":"f"}]}"#;
    let reply = client.post("/v1/check", &list(1000, free)).await;
    assert_eq!(reply.json().as_array().unwrap().len(), 1000);
    let detail = client
        .post("/v1/check", &list(1001, free))
        .await
        .problem(400);
    assert!(detail.contains("more than 1000 checks"), "{detail}");
    let wide = format!(
        r#"{{"domain":"shop","descriptors":{}}}"#,
        list(128, r#"{"free":"f"}"#)
    );
    let reply = client.post("/v1/check", &list(31, &wide)).await;
    assert_eq!(reply.json()[30]["limits"].as_array().unwrap().len(), 128);
    let detail = client
        .post("/v1/check", &list(32, &wide))
        .await
        .problem(400);
    assert!(
        detail.contains("4096 descriptors in all checks; 4000 is the most"),
        "{detail}"
    );
    let detail = client
        .post("/v1/check", &list(1 << 15, free))
        .await
        .problem(413);
    assert!(detail.contains("1048576 bytes"), "{detail}");
}

#[tokio::test]
async fn a_permitted_refund_is_applied_in_its_turn() {
    let house = House::with(RULES, |config| config.allow_refund = true).await;
    let mut client = Client::to(house.http()).await;
    let check = |cost: i64| json!({"domain": "shop", "descriptors": [{"user": "a"}], "cost": cost});
    let list = json!([check(3), check(1), check(-1), check(1), check(1)]);
    let answers = client.post("/v1/check", &list.to_string()).await.json();
    let allowed: Vec<bool> = (0..5).map(|at| answers[at]["allowed"] == true).collect();
    assert_eq!(allowed, [true, false, true, true, false]);
}

#[tokio::test]
async fn a_denied_check_is_explained_by_the_id_in_its_answer() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.http()).await;
    let check = json!({"domain": "shop", "descriptors": [{"user": "ann"}], "cost": 3});
    let answers = client
        .post("/v1/check", &json!([check, check]).to_string())
        .await
        .json();
    assert_eq!(answers[0].get("requestId"), None);
    let id = answers[1]["requestId"].as_str().unwrap();
    let mut admin = Client::to(house.admin()).await;
    let reply = admin.get(&format!("/v1/explain?request_id={id}")).await;
    assert_eq!(reply.status, 200, "{reply:?}");
}
