//! How each listener reports a decision.

use serde_json::{Value, json};
use tollgate_core::Span;
use tollgate_rls::RateLimitResponse;
use tollgate_rls::rate_limit_response::Code;

use crate::grpc_client;
use crate::house::House;
use crate::http_client::Client;

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {name: per-user, unit: minute, requests_per_unit: 2}
    metadata: {tier: free}
  - key: bucket
    rate_limit: {window: 10s, requests_per_unit: 10, algorithm: token_bucket, burst: 4}
  - key: queue
    rate_limit: {unit: second, requests_per_unit: 2, algorithm: leaky_bucket, queue: 10}
  - key: dark
    rate_limit: 0/day
    shadow_mode: true
  - key: free
    rate_limit: {unlimited: true}
  - {key: small, quota_mode: true, rate_limit: 0/day}
  - {key: large, quota_mode: true, rate_limit: 1/day}
";

#[tokio::test]
async fn a_check_reports_every_limit_and_its_headers() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.http()).await;
    let question = r#"{"domain":"shop","descriptors":[
        {"user":"ann"},{"dark":"x"},{"free":"x"},{"nobody":"x"}]}"#;
    let reply = client.post("/v1/check", question).await;
    let expected = json!({
        "allowed": true,
        "domain": "shop", "matched": true,
        "limits": [
            {"outcome": "allowed", "rule": "user", "name": "per-user", "limit": 2, "window": "1m",
             "algorithm": "fixed_window", "remaining": 1, "reset": "60s"},
            {"outcome": "shadow_denied", "rule": "dark", "limit": 0, "window": "1d",
             "algorithm": "fixed_window", "remaining": 0, "reset": "43200s", "wait": "never"},
            {"outcome": "unlimited", "rule": "free"},
            {"outcome": "no_limit"},
        ],
    });
    assert_eq!((reply.status, reply.json()), (200, expected));
    assert_eq!(reply.header("ratelimit"), Some("\"per-user\";r=1;t=60"));
    assert_eq!(
        reply.header("ratelimit-policy"),
        Some("\"per-user\";q=2;w=60")
    );
    assert_eq!(reply.header("retry-after"), None);
}

#[tokio::test]
async fn a_denial_is_a_problem_and_says_when_to_retry() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.http()).await;
    let question = r#"{"domain":"shop","descriptors":[{"bucket":"b"}],"cost":4}"#;
    assert_eq!(client.post("/v1/check", question).await.status, 200);
    house.clock.advance(Span::from_millis(500));
    let reply = client.post("/v1/check", question).await;
    let detail = reply.problem(429);
    assert_eq!(
        detail,
        "limit \"bucket\" is exceeded; the same request is allowed in 4 s"
    );
    let json = reply.json();
    assert_eq!(json["violated-policies"], json!(["bucket"]));
    assert_eq!(json["deniedBy"], "bucket");
    assert_eq!(json["retryAfter"], "3.500s");
    assert_eq!(json["limits"][0]["wait"], "3.500s");
    assert_eq!(reply.header("retry-after"), Some("4"));
    let policy = "\"bucket\";q=10;w=10;tollgate-burst=4";
    assert_eq!(reply.header("ratelimit-policy"), Some(policy));
    // The request is allowed after the wait, and not before.
    house.clock.advance(Span::from_nanos(3_499_999_999));
    assert_eq!(client.post("/v1/check", question).await.status, 429);
    house.clock.advance(Span::NANOSECOND);
    assert_eq!(client.post("/v1/check", question).await.status, 200);
}

#[tokio::test]
async fn a_quota_that_is_over_does_not_deny_while_another_is_not() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.http()).await;
    let question = r#"{"domain":"shop","descriptors":[{"small":"x"},{"large":"x"}]}"#;
    let reply = client.post("/v1/check", question).await;
    let outcome = |json: &Value, index: usize| json["limits"][index]["outcome"].clone();
    let json = reply.json();
    assert_eq!(reply.status, 200);
    assert_eq!(
        [outcome(&json, 0), outcome(&json, 1)],
        ["quota_over", "allowed"]
    );
    let reply = client.post("/v1/check", question).await;
    let json = reply.json();
    assert_eq!(reply.status, 429);
    assert_eq!([outcome(&json, 0), outcome(&json, 1)], ["denied"; 2]);
}

#[tokio::test]
async fn what_never_fits_has_no_retry_time() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.http()).await;
    let question = r#"{"domain":"shop","descriptors":[{"bucket":"b"}],"cost":5}"#;
    let reply = client.post("/v1/check", question).await;
    assert!(reply.problem(429).contains("never allows"));
    assert_eq!(reply.header("retry-after"), None);
    assert_eq!(reply.json()["retryAfter"], "never");
}

#[tokio::test]
async fn a_peek_charges_nothing_and_a_refund_needs_permission() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.http()).await;
    let ask = |rest: &str| format!(r#"{{"domain":"shop","descriptors":[{{"user":"a"}}]{rest}}}"#);
    for rest in [
        r#","peek":true"#,
        r#","cost":0"#,
        r#","cost":2,"peek":true"#,
    ] {
        let reply = client.post("/v1/check", &ask(rest)).await;
        assert_eq!(reply.json()["limits"][0]["remaining"], 2, "{rest}");
    }
    let reply = client.post("/v1/check", &ask(r#","cost":-1"#)).await;
    assert!(reply.problem(400).contains("allow_refund"));
    let envoys = r#"{"domain":"shop","descriptors":[
        {"entries":[{"key":"user","value":"a"}],"isNegativeHits":true}]}"#;
    let reply = client.post("/json", envoys).await;
    assert!(reply.problem(400).contains("allow_refund"));
}

#[tokio::test]
async fn a_refund_that_is_permitted_is_applied() {
    let house = House::with(RULES, |config| config.allow_refund = true).await;
    let mut client = Client::to(house.http()).await;
    let ask =
        |cost: i32| format!(r#"{{"domain":"shop","descriptors":[{{"user":"a"}}],"cost":{cost}}}"#);
    assert_eq!(client.post("/v1/check", &ask(2)).await.status, 200);
    assert_eq!(client.post("/v1/check", &ask(1)).await.status, 429);
    let reply = client.post("/v1/check", &ask(-1)).await;
    assert_eq!(reply.json()["limits"][0]["remaining"], 1);
    let grpc = grpc_client::Client::to(house.grpc()).await;
    let give = r#"{"domain":"shop","descriptors":[
        {"entries":[{"key":"user","value":"a"}],"hitsAddend":9,"isNegativeHits":true}]}"#;
    let response = grpc.ask(give).await.unwrap();
    assert_eq!(response.statuses[0].limit_remaining, 2);
}

#[tokio::test]
async fn a_delay_is_reported_and_no_response_is_delayed() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.http()).await;
    let question = r#"{"domain":"shop","descriptors":[{"queue":"q"}]}"#;
    let mut delays = Vec::new();
    for _ in 0..10 {
        let reply = client.post("/v1/check", question).await;
        assert_eq!(reply.status, 200);
        let delay = reply.header("x-tollgate-delay-ms").unwrap_or("0");
        delays.push(delay.parse::<u32>().unwrap());
    }
    assert_eq!(
        delays,
        [0, 500, 1000, 1500, 2000, 2500, 3000, 3500, 4000, 4500]
    );
    let reply = client.post("/v1/check", question).await;
    assert_eq!(
        reply.problem(429),
        "limit \"queue\" is exceeded; the same request is allowed in 1 s"
    );
    assert_eq!(reply.json()["retryAfter"], "0.500s");
    house.clock.advance(Span::from_millis(999));
    // Envoy's protocol has no field for a delay, so a header has it.
    let question = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"queue","value":"q"}]}]}"#;
    let reply = client.post("/json", question).await;
    assert_eq!(reply.header("x-tollgate-delay-ms"), Some("4001"));
    let free = question.replace("queue", "free");
    let reply = client.post("/json", &free).await;
    assert_eq!(reply.header("x-tollgate-delay-ms"), None);
    house.clock.advance(Span::from_millis(1000));
    let grpc = grpc_client::Client::to(house.grpc()).await;
    let response = grpc.ask(question).await.unwrap();
    let header = &response.response_headers_to_add[0];
    let header = (header.key.as_str(), header.value.as_str());
    assert_eq!(header, ("x-tollgate-delay-ms", "3501"));
    let response = grpc.ask(&free).await.unwrap();
    assert!(response.response_headers_to_add.is_empty());
}

#[tokio::test]
async fn envoys_json_is_its_service_in_json() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.http()).await;
    let question = r#"{"domain":"shop","hits_addend":2,
        "descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}"#;
    let reply = client.post("/json", question).await;
    let limit = json!({"requestsPerUnit": 2, "unit": "MINUTE", "name": "per-user"});
    let expected = json!({"overallCode": "OK", "statuses": [
        {"code": "OK", "currentLimit": limit, "limitRemaining": 0, "durationUntilReset": "60s"}]});
    assert_eq!((reply.status, reply.json()), (200, expected));
    let reply = client.post("/json", question).await;
    let expected = json!({"overallCode": "OVER_LIMIT", "statuses": [
        {"code": "OVER_LIMIT", "currentLimit": limit, "limitRemaining": 0,
         "durationUntilReset": "60s"}]});
    assert_eq!((reply.status, reply.json()), (429, expected));
    let unknown = question.replace("shop", "nobody");
    let reply = client.post("/json", &unknown).await;
    let expected = json!({"overallCode": "OK", "statuses": [{"code": "OK"}]});
    assert_eq!((reply.status, reply.json()), (200, expected));
}

fn codes(response: &RateLimitResponse) -> Vec<Code> {
    let statuses = response.statuses.iter();
    statuses.map(|status| status.code()).collect()
}

#[tokio::test]
async fn grpc_reports_limit_remaining_and_reset_and_never_unknown() {
    let house = House::on(RULES).await;
    let client = grpc_client::Client::to(house.grpc()).await;
    let question = r#"{"domain":"shop","descriptors":[
        {"entries":[{"key":"user","value":"ann"}]},
        {"entries":[{"key":"dark","value":"x"}]},
        {"entries":[{"key":"free","value":"x"}]},
        {"entries":[{"key":"none","value":"x"}]}]}"#;
    let response = client.ask(question).await.unwrap();
    assert_eq!(response.overall_code(), Code::Ok);
    assert_eq!(codes(&response), [Code::Ok; 4]);
    let remaining: Vec<u32> = response
        .statuses
        .iter()
        .map(|of| of.limit_remaining)
        .collect();
    assert_eq!(remaining, [1, 0, u32::MAX, 0]);
    assert_eq!(
        response.statuses[0].duration_until_reset.unwrap().seconds,
        60
    );
    assert!(response.dynamic_metadata.is_none());
    assert!(response.response_headers_to_add.is_empty());
    client.ask(question).await.unwrap();
    let response = client.ask(question).await.unwrap();
    assert_eq!(response.overall_code(), Code::OverLimit);
    assert_eq!(
        codes(&response),
        [Code::OverLimit, Code::Ok, Code::Ok, Code::Ok]
    );
}

#[tokio::test]
async fn metadata_is_sent_if_the_settings_turn_it_on() {
    let house = House::with(RULES, |config| config.dynamic_metadata = true).await;
    let client = grpc_client::Client::to(house.grpc()).await;
    let question =
        r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}"#;
    let response = client.ask(question).await.unwrap();
    let metadata = serde_json::to_value(response.dynamic_metadata).unwrap();
    let expected = json!({
        "domain": "shop",
        "descriptors": [{"entries": ["user=ann"]}],
        "hitsAddend": 1.0,
        "metadata": {"tier": "free"},
    });
    assert_eq!(metadata, expected);
}

#[tokio::test]
async fn a_limit_in_the_request_replaces_that_of_the_rules() {
    let house = House::on(RULES).await;
    let client = grpc_client::Client::to(house.grpc()).await;
    let question = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ann"}],
        "limit":{"requestsPerUnit":1,"unit":"HOUR"}}]}"#;
    assert_eq!(client.ask(question).await.unwrap().overall_code(), Code::Ok);
    let response = client.ask(question).await.unwrap();
    assert_eq!(response.overall_code(), Code::OverLimit);
    let limit = response.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!(limit.requests_per_unit, 1);
}

#[tokio::test]
async fn members_match_rules_in_any_order_of_nesting() {
    let rules = "domain: d\ndescriptors:\n- key: ip\n  descriptors:\n  - key: path\n    \
                 rate_limit: 1/day\n";
    let house = House::on(rules).await;
    let mut client = Client::to(house.http()).await;
    for (descriptor, status) in [
        (r#"{"ip":"1","path":"/"}"#, 200),
        (r#"{"path":"/","ip":"1"}"#, 429),
        (r#"{"path":"1","ip":"/"}"#, 200),
    ] {
        let body = format!(r#"{{"domain":"d","descriptors":[{descriptor}]}}"#);
        let reply = client.post("/v1/check", &body).await;
        assert_eq!(reply.status, status, "{descriptor}: {reply:?}");
        assert_eq!(reply.json()["matched"], true, "{descriptor}: {reply:?}");
    }
    let body = r#"{"domain":"d","descriptors":[{"ip":"1","path":"/","user":"a"},{"ip":"1"}]}"#;
    let reply = client.post("/v1/check", body).await;
    assert_eq!(
        (reply.status, &reply.json()["matched"]),
        (200, &false.into())
    );
    let ordered = r#"{"domain":"d","descriptors":[{"entries":[
        {"key":"path","value":"/"},{"key":"ip","value":"1"}]}]}"#;
    let reply = client.post("/v1/check", ordered).await;
    assert_eq!(
        (reply.status, &reply.json()["matched"]),
        (200, &false.into())
    );
}
