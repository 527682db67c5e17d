//! Limits with more while there is headroom, and who reports it.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use tollgate_core::Span;
use tollgate_server::HeadroomConfig;
use tollgate_testbed::Redis;

use crate::house::{House, replace};
use crate::http_client::{Client, Reply};
use crate::over_redis::at;
use crate::redis_client::{RedisClient, with_redis};

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit:
      requests_per_unit: 4
      unit: day
      elastic: {share: 50%, while: [reported]}
---
domain: hard
descriptors: [{key: user, rate_limit: 4/day}]
";

/// How many of ten requests of a user are allowed.
async fn spend(house: &House, user: &str) -> usize {
    let mut client = Client::to(house.http()).await;
    let body = json!({"domain": "shop", "descriptors": [{"user": user}]}).to_string();
    let mut allowed = 0;
    for _ in 0..10 {
        let reply = client.post("/v1/check", &body).await;
        allowed += usize::from(reply.status == 200);
    }
    allowed
}

async fn report(house: &House, headroom: bool, expires_in: &str) -> Reply {
    let body = json!({"domain": "shop", "headroom": headroom, "expires_in": expires_in});
    let mut admin = Client::to(house.admin()).await;
    admin.put("/v1/headroom", &body.to_string()).await
}

async fn has_metrics(house: &House, headroom: u32, limit: u32) {
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    for line in [
        format!("tollgate_headroom{{source=\"reported\",domain=\"shop\"}} {headroom}"),
        format!("tollgate_elastic_limit{{domain=\"shop\",rule=\"user\"}} {limit}"),
    ] {
        assert!(
            metrics.lines().any(|found| found == line),
            "{line}\n{metrics}"
        );
    }
}

async fn explained(house: &House) -> String {
    let path = "/v1/explain?domain=shop&descriptor=user%3Dnew";
    let mut admin = Client::to(house.admin()).await;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/plain\r\n\r\n");
    admin.send(request.as_bytes()).await;
    admin.reply().await.unwrap().body
}

#[tokio::test]
async fn rules_with_one_name_have_a_series_each_and_those_with_one_path_have_one() {
    let elastic = |key: &str, count: u32| {
        let elastic = "elastic: {share: 50%, while: [reported]}";
        let limit = format!("name: api, unit: day, requests_per_unit: {count}, {elastic}");
        format!("- {{{key}, rate_limit: {{{limit}}}}}\n")
    };
    let rules = [
        elastic("key: user", 4),
        elastic("key: a_b", 30),
        elastic("key: a, value: b", 20),
    ];
    let house = House::on(&format!("domain: d\ndescriptors:\n{}", rules.concat())).await;
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    let series = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("tollgate_elastic_limit{"));
    let expected = [
        "domain=\"d\",rule=\"a_b\"} 20",
        "domain=\"d\",rule=\"user\"} 4",
    ];
    assert_eq!(series.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn more_is_allowed_until_the_report_expires() {
    let house = House::with(RULES, with_redis).await;
    let mut redis = RedisClient::to(&house).await;
    redis.send("TG.PEEK shop 1 user zoe\r\n").await;
    assert_eq!(redis.lines(4).await, ["*7", ":0", ":4", ":4"]);
    assert_eq!(spend(&house, "ann").await, 4);
    has_metrics(&house, 0, 4).await;
    let text = explained(&house).await;
    assert!(text.contains("headroom  no, so the limit is 4\n"), "{text}");
    assert!(text.contains("sources   reported: no\n"), "{text}");
    assert!(text.contains("remaining 4 of 4\n"), "{text}");

    let reply = report(&house, true, "30s").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let expected = json!({
        "reports": [{"domain": "shop", "headroom": true, "expiresIn": "30s"}],
        "rules": [{
            "domain": "shop", "rule": "user", "headroom": true, "available": 6,
            "text": "4 per 1d fixed_window elastic 50% while reported",
            "sources": {"reported": true},
        }],
    });
    assert_eq!(reply.json(), expected);
    // What was used stays used.
    assert_eq!(spend(&house, "ann").await, 2);
    assert_eq!(spend(&house, "bob").await, 6);
    has_metrics(&house, 1, 6).await;
    let text = explained(&house).await;
    assert!(
        text.contains("headroom  yes, so the limit is 6\n"),
        "{text}"
    );
    assert!(text.contains("remaining 6 of 6\n"), "{text}");

    house.clock.advance(Span::from_secs(30) - Span::NANOSECOND);
    assert_eq!(spend(&house, "cid").await, 6);
    house.clock.advance(Span::NANOSECOND);
    assert_eq!(spend(&house, "dan").await, 4);
    has_metrics(&house, 0, 4).await;
    let mut admin = Client::to(house.admin()).await;
    let shown = admin.get("/v1/headroom").await.json();
    assert_eq!(shown["reports"], json!([]));
    assert_eq!(shown["rules"][0]["available"], 4);
}

#[tokio::test]
async fn the_latest_report_counts() {
    let house = House::on(RULES).await;
    report(&house, true, "1h").await;
    report(&house, false, "10s").await;
    assert_eq!(spend(&house, "ann").await, 4);
    house.clock.advance(Span::from_secs(11));
    // The earlier report is gone, although it would not have expired.
    assert_eq!(spend(&house, "ann").await, 0);
    report(&house, true, "10s").await;
    assert_eq!(spend(&house, "ann").await, 2);
}

#[tokio::test]
async fn what_is_no_report_is_rejected() {
    let house = House::on(RULES).await;
    let mut admin = Client::to(house.admin()).await;
    for (body, status, expected) in [
        ("", 400, "EOF"),
        ("[]", 400, "is a list"),
        (
            r#"{"domain": "shop", "headroom": true}"#,
            400,
            "missing field `expires_in`",
        ),
        (
            r#"{"domain": "shop", "headroom": 1, "expires_in": "1s"}"#,
            400,
            "boolean",
        ),
        (
            r#"{"domain": "shop", "headroom": true, "expires_in": 30}"#,
            400,
            "string",
        ),
        (
            r#"{"domain": "shop", "headroom": true, "expires_in": "30"}"#,
            400,
            "`expires_in`",
        ),
        (
            r#"{"domain": "shop", "headroom": true, "expires_in": "0s"}"#,
            400,
            "at most 1h",
        ),
        (
            r#"{"domain": "shop", "headroom": true, "expires_in": "61m"}"#,
            400,
            "at most 1h",
        ),
        (
            r#"{"domain": "shop", "headroom": true, "expires_in": "9999999999w"}"#,
            400,
            "`expires_in`",
        ),
        (
            r#"{"domain": "shop", "headroom": true, "expires_in": "1s", "x": 1}"#,
            400,
            "unknown field `x`",
        ),
        (
            r#"{"domain": "none", "headroom": true, "expires_in": "1s"}"#,
            404,
            "no rules",
        ),
        (
            r#"{"domain": "hard", "headroom": true, "expires_in": "1s"}"#,
            409,
            "`elastic`",
        ),
    ] {
        let detail = admin.put("/v1/headroom", body).await.problem(status);
        assert!(detail.contains(expected), "{body}: {detail}");
    }
    let detail = admin.post("/v1/headroom", "{}").await.problem(405);
    assert!(detail.contains("POST"), "{detail}");
    let head = "PUT /v1/headroom HTTP/1.1\r\nhost: localhost\r\ncontent-type: image/png\r\n";
    admin
        .send(format!("{head}content-length: 2\r\n\r\n{{}}").as_bytes())
        .await;
    admin.reply().await.unwrap().problem(415);
    assert_eq!(spend(&house, "ann").await, 4);
}

#[tokio::test]
async fn a_reload_keeps_a_report() {
    let house = House::on(RULES).await;
    report(&house, true, "1m").await;
    assert_eq!(spend(&house, "ann").await, 6);
    replace(
        &house.path("rules.yaml"),
        &RULES.replace("share: 50%", "share: 100%"),
    );
    house.running.reload().await;
    assert_eq!(spend(&house, "ann").await, 2);
    // Without the key, a report has nothing to change any more.
    let part = "\n      elastic: {share: 50%, while: [reported]}";
    replace(&house.path("rules.yaml"), &RULES.replace(part, ""));
    house.running.reload().await;
    assert_eq!(spend(&house, "bob").await, 4);
    report(&house, true, "1m").await.problem(409);
}

#[tokio::test]
async fn over_redis_each_instance_goes_by_its_own_reports() {
    let redis = Redis::start();
    let one = House::with(RULES, |config| config.store = at(&redis)).await;
    let other = House::with(RULES, |config| config.store = at(&redis)).await;
    report(&one, true, "1m").await;
    assert_eq!(spend(&other, "ann").await, 4);
    assert_eq!(spend(&one, "ann").await, 2);
    assert_eq!(spend(&other, "ann").await, 0);
    assert_eq!(spend(&one, "bob").await, 6);
    assert_eq!(spend(&other, "bob").await, 0);
}

/// The files from which a service reads the load of its host.
struct Linux(TempDir);

impl Linux {
    fn new() -> Linux {
        let linux = Linux(TempDir::new().unwrap());
        fs::create_dir(linux.0.path().join("proc")).unwrap();
        linux.use_cpu(0, 0);
        linux
    }

    fn use_cpu(&self, busy: u32, idle: u32) {
        let line = format!("cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\n");
        replace(&self.0.path().join("proc/stat"), &line);
    }

    fn use_no_memory(&self) {
        let text = "MemTotal: 100 kB\nMemAvailable: 100 kB\n";
        replace(&self.0.path().join("proc/meminfo"), text);
    }
}

/// How often a metric is read that is to stay so.
const READS: usize = 20;
/// How long it may take until it is so.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Lets time pass, of which this part of a hundred is work, until a metric of the service is so and
/// stays so.
///
/// The service may take its sample at any moment. If it reads the time before it is advanced and
/// the file after it is written, its next sample has a new time and no new ticks, and so shows no
/// use.
async fn pass_until(house: &House, linux: &Linux, cpu: u32, is_it: impl Fn(&str) -> bool) {
    let latest = Instant::now() + TIMEOUT;
    'passes: for second in 1.. {
        assert!(Instant::now() < latest, "after {second} s of the clock");
        linux.use_cpu(second * cpu, second * (100 - cpu));
        house.clock.advance(Span::SECOND);
        for _ in 0..READS {
            let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
            if !metrics.lines().any(&is_it) {
                continue 'passes;
            }
        }
        return;
    }
}

#[tokio::test]
async fn more_is_allowed_while_the_host_has_headroom() {
    let linux = Linux::new();
    let house = House::with(&RULES.replace("[reported]", "[host]"), |config| {
        config.headroom = HeadroomConfig {
            interval: Span::from_millis(1),
            hold: Span::ZERO,
            root: linux.0.path().to_owned(),
            ..HeadroomConfig::default()
        };
    })
    .await;
    let headroom = |line: &str, value: &str| {
        let metric = "tollgate_headroom{source=\"host\",domain=\"shop\"} ";
        line.strip_prefix(metric) == Some(value)
    };
    // The use of the memory is not known.
    let errors = "tollgate_host_use_errors_total{resource=\"memory\"} ";
    let has_failed = |line: &str| line.strip_prefix(errors).is_some_and(|count| count != "0");
    pass_until(&house, &linux, 10, has_failed).await;
    pass_until(&house, &linux, 10, |line| headroom(line, "0")).await;
    assert_eq!(spend(&house, "ann").await, 4);
    report(&house, true, "1h").await.problem(409);

    linux.use_no_memory();
    pass_until(&house, &linux, 10, |line| headroom(line, "1")).await;
    assert_eq!(spend(&house, "ann").await, 2);
    let text = explained(&house).await;
    assert!(text.contains("sources   host: yes\n"), "{text}");
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    let used = "tollgate_host_use{resource=\"memory\"} 0.0\n";
    assert!(metrics.contains(used), "{metrics}");

    pass_until(&house, &linux, 90, |line| headroom(line, "0")).await;
    assert_eq!(spend(&house, "bob").await, 4);
    house.running.stop().await;
}
