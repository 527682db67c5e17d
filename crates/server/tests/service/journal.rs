//! What the service logs, and that the log has no password.

use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use tollgate_backends::SharedConfig;
use tollgate_redis::{Config as RedisConfig, Secret};
use tollgate_server::{Config, Place};
use tollgate_testbed::{Certificates, Journal, PASSWORD, Redis, USER};

use crate::house::House;
use crate::http_client::Client;
use crate::over_redis::{at, config_at};

/// How long a line may take: stores are checked in real time.
const TIMEOUT: Duration = Duration::from_secs(20);
const RULES: &str = "domain: d\ndescriptors: [{key: k, rate_limit: 5/day}]\n";
const GOOD: &str = r#"{"domain":"d","descriptors":[{"k":"v"}]}"#;

/// Waits for a line.
pub(crate) async fn until_logged(journal: &Journal, words: &str) {
    let latest = Instant::now() + TIMEOUT;
    while journal.count(words) == 0 {
        let text = journal.text();
        assert!(Instant::now() < latest, "no {words:?} in {text}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn each_outage_of_a_store_is_logged_once_and_so_is_its_end() {
    let (journal, _guard) = Journal::begin();
    let redis = Redis::start();
    let house = House::with(RULES, |config| config.store = at(&redis)).await;
    until_logged(&journal, "Redis is connected").await;
    redis.kill();
    let mut client = Client::to(house.http()).await;
    for _ in 0..50 {
        client.post("/v1/check", GOOD).await;
    }
    until_logged(&journal, "Redis is unavailable").await;
    until_logged(&journal, "store=\"default\"").await;
    redis.restart();
    until_logged(&journal, "Redis is available again").await;
    house.running.stop().await;
    let text = journal.text();
    for words in [
        "Redis is connected",
        "Redis is unavailable",
        "Redis is available again",
        "leases returned",
    ] {
        assert_eq!(journal.count(words), 1, "{words}: {text}");
    }
    // No line for a single decision.
    assert!(text.lines().count() < 20, "{text}");
}

#[tokio::test]
async fn a_full_redis_is_not_said_to_be_silent() {
    let (journal, _guard) = Journal::begin();
    let redis = Redis::start();
    let house = House::with(RULES, |config| config.store = at(&redis)).await;
    until_logged(&journal, "Redis is connected").await;
    redis.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let mut client = Client::to(house.http()).await;
    let latest = Instant::now() + TIMEOUT;
    while journal.count("Redis is unavailable") == 0 {
        client.post("/v1/check", GOOD).await;
        assert!(Instant::now() < latest, "{}", journal.text());
    }
    let text = journal.text();
    assert!(text.contains("code=\"OOM\""), "{text}");
    assert!(text.contains(": it replies with OOM\""), "{text}");
    house.running.stop().await;
}

#[tokio::test]
async fn a_wrong_password_is_logged_with_the_reason_and_without_the_password() {
    let (journal, _guard) = Journal::begin();
    let redis = Redis::start();
    redis.ask(&["CONFIG", "SET", "requirepass", "right"]);
    let house = House::with(RULES, |config| {
        config.store = Place::Shared(SharedConfig::new(RedisConfig {
            password: Some(Secret::new("hunter2")),
            ..config_at(&redis)
        }));
    })
    .await;
    until_logged(&journal, "WRONGPASS").await;
    assert_eq!(journal.count("hunter2"), 0, "{}", journal.text());
    house.running.stop().await;
}

#[tokio::test]
async fn secrets_are_in_no_log_no_metric_and_no_answer() {
    let (journal, _guard) = Journal::begin();
    let certificates = Certificates::new();
    let redis = certificates.start("tg:");
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("rules.yaml"), RULES).unwrap();
    std::fs::write(path("password"), format!("{PASSWORD}\n")).unwrap();
    let settings = format!(
        "rules: rules.yaml\n\
         listen: {{http: '127.0.0.1:0', grpc: '127.0.0.1:0', admin: '127.0.0.1:0'}}\n\
         store:\n  redis:\n    url: rediss://localhost:{}\n    tls: {{ca: {}}}\n    \
         username: {USER}\n    password_file: password\n    timeout: 10s\n",
        redis.port(),
        certificates.authority(),
    );
    std::fs::write(path("tollgate.yaml"), settings).unwrap();
    let config = Config::read(&path("tollgate.yaml")).unwrap();
    let clock = tollgate_memory::SystemClock::new();
    let running = tollgate_server::start(&config, clock).await.unwrap();
    let mut http = Client::to(
        running
            .address(tollgate_server::ListenerKind::Http)
            .unwrap(),
    )
    .await;
    let mut seen = format!("{config:?} {running:?}");
    for status in [200, 200, 200, 200, 200, 429] {
        let reply = http.post("/v1/check", GOOD).await;
        assert_eq!(reply.status, status);
        seen.push_str(&reply.body);
    }
    until_logged(&journal, "Redis is connected").await;
    let mut admin = Client::to(
        running
            .address(tollgate_server::ListenerKind::Admin)
            .unwrap(),
    )
    .await;
    for path in ["/metrics", "/v1/rules"] {
        seen.push_str(&admin.get(path).await.body);
    }
    running.stop().await;
    seen.push_str(&journal.text());
    assert!(!seen.contains(PASSWORD), "{seen}");
}

#[tokio::test]
async fn rules_and_stores_that_do_not_fit_together_are_logged() {
    let (journal, _guard) = Journal::begin();
    let rules = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, \
        requests_per_unit: 5, mode: leased}}]\n";
    let house = House::with(rules, |config| {
        config.sharing.on_store_error = tollgate_core::OnStoreError::Allow;
        config.stores.push(tollgate_server::OtherStore {
            name: "near".to_owned(),
            domains: vec!["typo".to_owned()],
            place: Place::Memory,
        });
    })
    .await;
    house.running.stop().await;
    let text = journal.text();
    for words in [
        "`mode: leased` of `k` in `d` has no effect: its store, `default`, is in memory",
        "name a domain that has no rules domain=\"typo\" store=\"near\"",
        "`store.on_store_error` has no effect: no store is in Redis",
    ] {
        assert_eq!(journal.count(words), 1, "{words}: {text}");
    }
}

#[tokio::test]
async fn a_memory_that_is_too_small_for_a_rule_is_logged() {
    const WORDS: &str = "the memory has room for fewer keys of this rule";
    let rules = "domain: d\ndescriptors:\n  - {key: small, rate_limit: 5/day}\n  - key: large\n    \
        rate_limit: {unit: day, requests_per_unit: 1000, \
        algorithm: sliding_window, segments: 60}\n";
    for (max_bytes, lines) in [(None, 0), (Some(1 << 20), 1)] {
        let (journal, _guard) = Journal::begin();
        let house = House::with(rules, |config| config.memory.max_bytes = max_bytes).await;
        house.running.stop().await;
        let text = journal.text();
        assert_eq!(journal.count(WORDS), lines, "{text}");
        if let Some(line) = text.lines().find(|line| line.contains(WORDS)) {
            let named = "domain=\"d\" rule=\"large\"";
            assert!(line.contains(named), "{line}");
            let needed = line.split("max_bytes: ").nth(1).unwrap();
            let needed = needed.split('}').next().unwrap().parse::<usize>().unwrap();
            assert!(needed > 1 << 20, "what it would take: {line}");
        }
    }
}

/// Other domains are served. That this one is not limited has to be said.
#[tokio::test]
async fn a_start_with_errors_in_a_domain_says_that_its_requests_meet_no_limit() {
    const GATEWAY: &str = "`gateway` asks for the domain `api`, which has no rules";
    const NO_LIMIT: &str = "because of errors: its requests meet no limit domain=\"api\"";
    let good = "domain: other\ndescriptors: [{key: k, rate_limit: 5/day}]\n---\n\
        domain: api\ndescriptors: [{key: k, rate_limit: 3/day}]\n";
    let bad = good.replace("3/day", "3/min");
    let (journal, _guard) = Journal::begin();
    let house = with_gateway(&bad).await;
    assert_eq!(
        [NO_LIMIT, GATEWAY].map(|words| journal.count(words)),
        [1, 1],
        "{}",
        journal.text()
    );
    let path = house.directory.path().join("rules.yaml");
    for rules in [good, &bad] {
        std::fs::write(&path, rules).unwrap();
        house.running.reload().await;
    }
    // The previous rules stay in effect.
    assert_eq!(
        [NO_LIMIT, GATEWAY].map(|words| journal.count(words)),
        [1, 1],
        "{}",
        journal.text()
    );
    house.running.stop().await;
}

async fn with_gateway(rules: &str) -> House {
    House::with(rules, |config| {
        let text = "rules: r\nlisten: {gateway: 127.0.0.1:0}\ngateway:\n  domain: api\n  \
            upstreams: {u: {addresses: ['127.0.0.1:1']}}\n";
        let source = tollgate_rules::Source::new("tollgate.yaml", text);
        let parsed = Config::parse(&source, std::path::Path::new("/")).unwrap();
        config.gateway = parsed.gateway;
        config.listen.extend(
            parsed
                .listen
                .into_iter()
                .filter(|one| one.kind.name() == "gateway"),
        );
    })
    .await
}
