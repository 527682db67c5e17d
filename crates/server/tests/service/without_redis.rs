//! Without Redis, each limit does what its `on_store_error` says; recovery is automatic.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate_testbed::{Journal, Redis};

use crate::grpc_client;
use crate::house::House;
use crate::http_client::Client;
use crate::journal::until_logged;
use crate::over_redis::{at, metric};
use crate::redis_client::{RedisClient, integers, with_redis};
use crate::stopping::health;

/// How long it may take to notice that Redis is available.
const TIMEOUT: Duration = Duration::from_secs(20);
const UP: &str = r#"tollgate_store_up{store="default"}"#;

const INSTANCES: &str = r#"tollgate_store_instances{store="default"}"#;

const RULES: &str = "
domain: d
on_store_error: allow
descriptors:
  - key: torn
    rate_limit: {window: 1d, requests_per_unit: 9, on_store_error: error, algorithm: sliding_log}
  - key: open
    rate_limit: {window: 1d, requests_per_unit: 1, algorithm: sliding_log}
  - key: shut
    rate_limit: {window: 1d, requests_per_unit: 9, on_store_error: deny, algorithm: sliding_log}
  - key: near
    rate_limit: {window: 1d, requests_per_unit: 4, on_store_error: local, instances: 2,
      algorithm: sliding_log}
";

/// The statuses of five requests in a row.
async fn statuses(house: &House, key: &str, value: &str) -> Vec<u16> {
    let mut client = Client::to(house.http()).await;
    let question = format!(r#"{{"domain":"d","descriptors":[{{"{key}":"{value}"}}]}}"#);
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(client.post("/v1/check", &question).await.status);
    }
    statuses
}

/// Waits until a metric has a value.
async fn until(house: &House, name: &str, value: u64) {
    let latest = Instant::now() + TIMEOUT;
    while metric(house, name).await != value {
        assert!(Instant::now() < latest, "{name} is not {value}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn each_limit_does_what_it_says_until_redis_comes() {
    let redis = Redis::start();
    redis.kill();
    let house = House::with(RULES, |config| config.store = at(&redis)).await;
    // It is live and ready, and a metric says that Redis is unavailable.
    let mut client = Client::to(house.http()).await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(client.get(path).await.status, 200, "{path}");
    }
    assert_eq!(metric(&house, UP).await, 0);
    assert_eq!(statuses(&house, "open", "v").await, [200; 5]);
    assert_eq!(statuses(&house, "shut", "v").await, [429; 5]);
    // Two of the four units, since there are two instances.
    assert_eq!(
        statuses(&house, "near", "v").await,
        [200, 200, 429, 429, 429]
    );
    let question = r#"{"domain":"d","descriptors":[{"shut":"v"}]}"#;
    let denied = client.post("/v1/check", question).await;
    assert_eq!(denied.header("retry-after"), Some("1"), "{denied:?}");
    says_unavailable(&house).await;
    let grpc = grpc_client::Client::to(house.grpc()).await;
    assert_eq!(health(&grpc, "ratelimit").await, 1, "serving");
    let question = r#"{"domain":"d","descriptors":[{"entries":[{"key":"open","value":"v"}]}]}"#;
    grpc.ask(question).await.unwrap();

    for (choice, expected) in [("allow", 6), ("deny", 10), ("error", 3), ("local", 5)] {
        let name =
            format!("tollgate_store_fallbacks_total{{store=\"default\",choice=\"{choice}\"}}");
        assert_eq!(metric(&house, &name).await, expected, "{choice}");
    }

    redis.restart();
    until(&house, UP, 1).await;
    assert_eq!(
        statuses(&house, "open", "v").await,
        [200, 429, 429, 429, 429]
    );
    assert_eq!(statuses(&house, "shut", "v").await, [200; 5]);
    assert_eq!(
        statuses(&house, "near", "v").await,
        [200, 200, 200, 200, 429]
    );

    redis.kill();
    until(&house, UP, 0).await;
    assert_eq!(statuses(&house, "open", "other").await, [200; 5]);
    assert_eq!(statuses(&house, "shut", "other").await, [429; 5]);
    // Denials that Redis has made are still in the denial cache.
    assert_eq!(statuses(&house, "open", "v").await, [429; 5]);
}

#[tokio::test]
async fn an_explanation_says_that_the_store_does_not_answer() {
    let redis = Redis::start();
    redis.kill();
    let house = House::with(RULES, |config| config.store = at(&redis)).await;
    assert_eq!(statuses(&house, "near", "v").await[..3], [200, 200, 429]);
    assert_eq!(statuses(&house, "shut", "v").await[0], 429);
    let mut admin = Client::to(house.admin()).await;
    let mut explain = async |query: &str| {
        let path = format!("/v1/explain?{query}");
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/plain\r\n\r\n");
        admin.send(head.as_bytes()).await;
        let text = admin.reply().await.unwrap().body;
        let json: serde_json::Value = serde_json::from_str(&admin.get(&path).await.body).unwrap();
        (text, json)
    };
    let (text, json) = explain("domain=d&descriptor=near=v").await;
    let expected = "the store does not answer: this instance decides on its share, 2 per 1d";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("remaining 0 of 2\n"), "{text}");
    assert_eq!(
        (&json["storeAnswers"], &json["storeUnavailable"]),
        (&false.into(), &false.into())
    );
    assert_eq!(json["descriptors"][0]["share"], "2 per 1d sliding_log");
    let (text, json) = explain("domain=d&descriptor=open=v").await;
    let expected = "the store does not answer: `on_store_error` is `allow`";
    assert!(text.contains(expected), "{text}");
    assert_eq!(
        (&json["storeAnswers"], &json["allowed"]),
        (&false.into(), &true.into())
    );

    let question = r#"{"domain":"d","descriptors":[{"KEY":"v"}]}"#;
    let mut client = Client::to(house.http()).await;
    let mut ids = Vec::new();
    for key in ["near", "shut"] {
        let denied = client
            .post("/v1/check", &question.replace("KEY", key))
            .await;
        ids.push(denied.header("x-request-id").unwrap().to_owned());
    }
    redis.restart();
    until(&house, UP, 1).await;
    for (id, key) in ids.iter().zip(["near", "shut"]) {
        let (text, json) = explain(&format!("request_id={id}")).await;
        assert!(
            text.contains(&format!("by {key}, whose store did not answer, for ")),
            "{text}"
        );
        assert!(text.contains("would be allowed now"), "{text}");
        assert!(!text.contains("fallback"), "{text}");
        assert_eq!(json["denial"]["storeAnswered"], false);
        assert_eq!(json["storeAnswers"], true);
    }
}

/// Sends requests to a limit with `deny` and to one with `error`, at every listener.
async fn says_unavailable(house: &House) {
    let mut client = Client::to(house.http()).await;
    let grpc = grpc_client::Client::to(house.grpc()).await;
    let asked = |key: &str| {
        format!(r#"{{"domain":"d","descriptors":[{{"entries":[{{"key":"{key}","value":"v"}}]}}]}}"#)
    };
    for path in ["/v1/check", "/json"] {
        let denied = client.post(path, &asked("shut")).await;
        assert_eq!(denied.status, 429, "{path}");
        assert_eq!(
            denied.header("x-tollgate-store"),
            Some("unavailable"),
            "{path}"
        );
        assert_eq!(denied.header("ratelimit"), None, "{path}");
        let failed = client.post(path, &asked("torn")).await;
        assert_eq!(failed.status, 503, "{path}");
        let text = failed.body;
        assert!(
            text.contains("the rate limit store is unavailable"),
            "{path}: {text}"
        );
        assert!(!text.contains("127.0.0.1"), "{path}: {text}");
    }
    let denied = client.post("/v1/check", &asked("shut")).await;
    let text = denied.body;
    assert!(text.contains("temporary-reduced-capacity"), "{text}");
    assert!(text.contains(r#""outcome":"store_unavailable""#), "{text}");
    assert!(!text.contains("exceeded"), "{text}");

    let denied = grpc.ask(&asked("shut")).await.unwrap();
    let header = &denied.response_headers_to_add[0];
    assert_eq!(
        (&*header.key, &*header.value),
        ("x-tollgate-store", "unavailable")
    );
    let body = String::from_utf8(denied.raw_body.to_vec()).unwrap();
    assert!(
        body.contains("the rate limit store is unavailable"),
        "{body}"
    );
    let failed = grpc.ask(&asked("torn")).await.unwrap_err();
    assert_eq!(failed.code(), tonic::Code::Unavailable);
    assert!(
        failed
            .message()
            .contains("the rate limit store is unavailable"),
        "{failed}"
    );

    let count = |rule: &str, outcome: &str| {
        format!(r#"tollgate_decisions_total{{domain="d",rule="{rule}",outcome="{outcome}"}}"#)
    };
    assert_eq!(metric(house, &count("shut", "store_unavailable")).await, 10);
    let text = Client::to(house.admin()).await.get("/metrics").await.body;
    assert!(!text.contains(&count("shut", "denied")), "{text}");
}

#[tokio::test]
async fn the_redis_protocol_tells_a_fallback_denial_from_an_exceeded_limit() {
    let redis = Redis::start();
    redis.kill();
    let house = House::with(RULES, |config| {
        with_redis(config);
        config.store = at(&redis);
    })
    .await;
    let mut client = RedisClient::to(&house).await;
    let reply = |numbers: &[i64; 6], rule: &str| {
        let numbers = integers(numbers).replacen("*6", "*7", 1);
        format!("{numbers}${}\r\n{rule}\r\n", rule.len())
    };
    // What remains is unknown, so that the limit may not be exceeded.
    let shut = reply(&[1, 9, -1, 1, 1, 0], "shut");
    for command in ["TG.CHECK", "TG.PEEK"] {
        let line = format!("{command} d 1 shut v");
        client.expect(&line, &shut).await;
    }
    // Of an instance's share, it is known what remains: two units.
    client
        .expect("TG.CHECK d 5 near v", &reply(&[1, 4, 2, -1, 0, 0], "near"))
        .await;
    let failed = "-UNAVAILABLE no decision: ";
    client.send("TG.CHECK d 1 torn v\r\n").await;
    let read = client.read(failed.len()).await;
    assert_eq!(String::from_utf8_lossy(&read), failed);
}

#[tokio::test]
async fn rules_without_on_store_error_have_that_of_the_settings() {
    let redis = Redis::start();
    redis.kill();
    let rules = "domain: d\ndescriptors: [{key: k, rate_limit: 1/day}]\n";
    for (on_store_error, expected) in [
        (tollgate_core::OnStoreError::Deny, [429; 5]),
        (tollgate_core::OnStoreError::Allow, [200; 5]),
        (
            tollgate_core::OnStoreError::Local,
            [200, 429, 429, 429, 429],
        ),
    ] {
        let house = House::with(rules, |config| {
            config.store = at(&redis);
            config.sharing.on_store_error = on_store_error;
        })
        .await;
        assert_eq!(
            statuses(&house, "k", "v").await,
            expected,
            "{on_store_error}"
        );
    }
}

#[tokio::test]
async fn services_count_each_other_for_their_shares() {
    let redis = Redis::start();
    let rules = "domain: d\non_store_error: local\ndescriptors:\n- key: k\n  rate_limit: \
        {window: 1d, requests_per_unit: 4, algorithm: sliding_log}\n";
    let one = House::with(rules, |config| config.store = at(&redis)).await;
    let other = House::with(rules, |config| config.store = at(&redis)).await;
    until(&one, INSTANCES, 2).await;
    until(&other, INSTANCES, 2).await;
    redis.kill();
    for house in [&one, &other] {
        until(house, UP, 0).await;
        assert_eq!(statuses(house, "k", "v").await, [200, 200, 429, 429, 429]);
    }
    redis.restart();
    until(&one, UP, 1).await;
    other.running.stop().await;
    until(&one, INSTANCES, 1).await;
}

#[tokio::test]
async fn error_replies_are_in_the_log_and_in_the_metrics() {
    let (journal, _guard) = Journal::begin();
    let redis = Redis::start();
    let rules = "domain: d\ndescriptors: [{key: k, rate_limit: 5/year}]\n";
    let house = House::with(rules, |config| {
        config.store = at(&redis);
        config.sharing.on_store_error = tollgate_core::OnStoreError::Deny;
    })
    .await;
    until(&house, UP, 1).await;
    redis.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let latest = Instant::now() + TIMEOUT;
    while metric(&house, UP).await == 1 {
        assert!(Instant::now() < latest, "it is still up");
        for value in ["a", "b", "c", "d", "e", "f"] {
            assert_eq!(statuses(&house, "k", value).await, [429; 5]);
        }
    }
    until_logged(&journal, "Redis has replied with errors").await;
    let node = redis.address();
    let text = journal.text();
    assert!(text.contains("OOM") && text.contains(&node), "{text}");
    assert_eq!(journal.count("Redis has replied with errors"), 1, "{text}");
    let labels = format!(r#"{{store="default",node="{node}",code="OOM"}}"#);
    assert!(metric(&house, &format!("tollgate_store_errors_total{labels}")).await > 0);
    redis.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    // The store notices by itself, without a request, that Redis works again.
    until(&house, UP, 1).await;
    assert_eq!(statuses(&house, "k", "v").await, [200; 5]);
    house.running.stop().await;
}
