//! Several instances share a limit over Redis.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate_backends::SharedConfig;
use tollgate_core::{Mode, Span};
use tollgate_redis::Config as RedisConfig;
use tollgate_server::{OtherStore, Outcome, Place, ServeError};
use tollgate_testbed::Redis;

use crate::crowd::Crowd;
use crate::eventually::eventually;
use crate::house::House;
use crate::http_client::Client;

const COUNT: usize = 1000;
const CROWD: Crowd = Crowd {
    clients: 16,
    asked_by_each: 50,
};
const ASKED: usize = CROWD.clients * CROWD.asked_by_each;

const _: () = assert!(2 * ASKED > COUNT && ASKED < COUNT);

/// How long may pass until an instance sees the units that another has returned.
const TIMEOUT: Duration = Duration::from_secs(20);

const ANN: &str = r#"{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}"#;

/// `COUNT` in a day that begins with the first request, not at midnight.
fn rules() -> String {
    format!(
        "domain: d\ndescriptors:\n- key: user\n  rate_limit: {{window: 1d, \
         requests_per_unit: {COUNT}, algorithm: fixed_window, anchor: first_request}}\n"
    )
}

/// A store in `redis` whose timeout is long enough for a busy machine.
pub(crate) fn at(redis: &Redis) -> Place {
    Place::Shared(SharedConfig::new(config_at(redis)))
}

/// The settings of [`at`].
pub(crate) fn config_at(redis: &Redis) -> RedisConfig {
    RedisConfig {
        timeout: Span::from_secs(10),
        ..RedisConfig::single(redis.address())
    }
}

/// The same, with one connection to it: what is queued together is not spread over several.
pub(crate) fn through_one_connection(redis: &Redis) -> Place {
    Place::Shared(SharedConfig::new(RedisConfig {
        connections: 1,
        ..config_at(redis)
    }))
}

/// How often the default store has called Redis for decisions.
pub(crate) async fn calls(house: &House) -> u64 {
    metric(house, "tollgate_store_calls_total{store=\"default\"}").await
}

/// The value of a metric, with its labels if it has any.
pub(crate) async fn metric(house: &House, name: &str) -> u64 {
    let text = Client::to(house.admin()).await.get("/metrics").await.body;
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = value.unwrap_or_else(|| panic!("no {name} in {text}"));
    value.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_instances_allow_exactly_one_limit_by_http_and_grpc() {
    let redis = Redis::start();
    let one = House::with(&rules(), |config| config.store = at(&redis)).await;
    let other = House::with(&rules(), |config| config.store = at(&redis)).await;
    let (by_http, by_grpc) = tokio::join!(
        CROWD.allowed_by_http(&one, "/json", ANN),
        CROWD.allowed_by_grpc(&other, ANN)
    );
    assert_eq!(by_http + by_grpc, COUNT, "{by_http} and {by_grpc}");
}

/// One instance consumes most of a limit in a mode and stops; another gets exactly the rest.
async fn handed_over(mode: Mode, decided_here: &str) {
    let redis = Redis::start();
    let settings = |config: &mut tollgate_server::Config| {
        config.store = at(&redis);
        config.sharing.mode = mode;
    };
    // The rules set no mode, so that of the settings applies. A unit is refilled every nine hours.
    let rules = format!(
        "domain: d\ndescriptors:\n- key: user\n  rate_limit: {{window: 365d, \
         requests_per_unit: {COUNT}, algorithm: token_bucket}}\n"
    );
    let first = House::with(&rules, settings).await;
    let second = House::with(&rules, settings).await;
    let mut allowed = CROWD.allowed_by_grpc(&first, ANN).await;
    let name = format!("tollgate_store_{decided_here}_total{{store=\"default\"}}");
    assert!(metric(&first, &name).await > 0);
    first.running.stop().await;
    let mut client = Client::to(second.http()).await;
    let latest = Instant::now() + TIMEOUT;
    while allowed < COUNT {
        match client.post("/json", ANN).await.status {
            200 => allowed += 1,
            _ => sleep(Duration::from_millis(20)).await,
        }
        assert!(Instant::now() < latest, "{allowed} of {COUNT}");
    }
    assert_eq!(client.post("/json", ANN).await.status, 429);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_that_an_instance_has_leased_are_returned_at_its_end() {
    handed_over(Mode::Leased, "lease_decisions").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_that_an_instance_has_counted_are_reported_at_its_end() {
    handed_over(Mode::WriteBack, "write_back_decisions").await;
}

#[tokio::test]
async fn a_domain_may_have_a_redis_of_its_own_or_none() {
    let [all, own] = [Redis::start(), Redis::start()];
    let rule = "descriptors: [{key: k, rate_limit: 1/day}]\n";
    let rules = ["d", "e", "f"].map(|domain| format!("domain: {domain}\n{rule}"));
    let house = House::with(&rules.join("---\n"), |config| {
        config.store = at(&all);
        let other = |name: &str, domain: &str, place| OtherStore {
            name: name.to_owned(),
            domains: vec![domain.to_owned()],
            place,
        };
        config.stores = vec![
            other("own", "e", at(&own)),
            other("near", "f", Place::Memory),
        ];
    })
    .await;
    let mut client = Client::to(house.http()).await;
    // All keys but the one that counts instances.
    let count = "return #redis.call('KEYS', '*') - redis.call('EXISTS', 'tg:{nodes}')";
    let keys = || [&all, &own].map(|redis| redis.ask(&["EVAL", count, "0"]));
    for (domain, expected) in [("d", ["1", "0"]), ("e", ["1", "1"]), ("f", ["1", "1"])] {
        let question = format!(r#"{{"domain":"{domain}","descriptors":[{{"k":"v"}}]}}"#);
        for status in [200, 429] {
            assert_eq!(client.post("/v1/check", &question).await.status, status);
        }
        assert_eq!(keys(), expected, "{domain}");
    }
    assert_eq!(metric(&house, "tollgate_keys").await, 1);
    for store in ["default", "own"] {
        let name = format!("tollgate_store_calls_total{{store=\"{store}\"}}");
        assert_eq!(metric(&house, &name).await, 2, "{store}");
    }
}

#[tokio::test]
async fn metrics_count_what_a_store_does() {
    let redis = Redis::start();
    let rule = "domain: d\ndescriptors: [{key: k, rate_limit: 2/day}]\n";
    let house = House::with(rule, |config| config.store = at(&redis)).await;
    // A new connection empties the cache of denials, as it may lead to another server.
    let name = "tollgate_store_connections_total{store=\"default\"}";
    eventually(async || metric(&house, name).await >= 2).await;
    let mut client = Client::to(house.http()).await;
    let question = r#"{"domain":"d","descriptors":[{"k":"v"}]}"#;
    for status in [200, 200, 429, 429] {
        assert_eq!(client.post("/v1/check", question).await.status, status);
    }
    let text = Client::to(house.admin()).await.get("/metrics").await.body;
    let expected = [
        ("store_up", "", 1),
        ("store_script_requests_total", "", 3),
        ("store_calls_total", "", 3),
        ("store_connections_total", "", 2),
        ("store_local_denials_total", "", 1),
        ("store_outcome_unknown_total", "", 0),
        ("store_breaker_openings_total", "", 0),
        ("store_redirections_total", "", 0),
        ("store_units_leased_total", "", 0),
        ("store_call_requests_bucket", ",le=\"1.0\"", 3),
        ("store_call_requests_bucket", ",le=\"+Inf\"", 3),
        ("store_call_requests_count", "", 3),
        ("store_call_seconds_bucket", ",le=\"+Inf\"", 3),
        ("store_call_seconds_count", "", 3),
    ];
    let page = include_str!("../../../../docs/operating.md");
    let names = text.lines().filter_map(|line| {
        let name = line.strip_prefix("# TYPE tollgate_")?.split(' ').next()?;
        // The page has OpenMetrics' names of counters; Prometheus's text format adds `_total`.
        Some(name.strip_suffix("_total").unwrap_or(name))
    });
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
    for (name, labels, value) in expected {
        // Labels are in the order in which they were added; a bucket's bound is first.
        let series = format!("tollgate_{name}{{store=\"default\"{labels}}} {value}");
        let other = match labels.strip_prefix(',') {
            Some(le) => format!("tollgate_{name}{{{le},store=\"default\"}} {value}"),
            None => series.clone(),
        };
        assert!(
            text.lines().any(|line| line == series || line == other),
            "{series}\n{text}"
        );
    }
    assert!(
        text.contains("tollgate_store_call_requests_sum{store=\"default\"} 3.0\n"),
        "{text}"
    );
}

#[tokio::test]
async fn a_limit_that_redis_cannot_keep_is_an_error_at_its_line() {
    let redis = Redis::start();
    let rules = |count: u32| {
        format!(
            "domain: d\ndescriptors: [{{key: k, rate_limit: {{unit: second, \
             requests_per_unit: {count}, algorithm: token_bucket}}}}]\n"
        )
    };
    let start_error = |text: String| {
        let place = at(&redis);
        async move {
            let directory = tempfile::TempDir::new().unwrap();
            let path = directory.path().join("rules.yaml");
            std::fs::write(&path, text).unwrap();
            let house = House::at(directory, path, |config| config.store = place).await;
            house.err().unwrap()
        }
    };
    let error = start_error(rules(700_000)).await;
    assert!(matches!(error, ServeError::NoRules(_)));
    let text = error.to_string();
    for words in [
        "unfit-limit",
        "rules.yaml:2:",
        "500000 per 1s",
        "from memory",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let house = House::with(&rules(500_000), |config| config.store = at(&redis)).await;
    std::fs::write(house.path("rules.yaml"), rules(700_000)).unwrap();
    assert_eq!(house.running.reload().await, Outcome::Failed);
    let mut admin = Client::to(house.admin()).await;
    let shown = admin.get("/v1/rules").await.json();
    assert_eq!(shown["rules"][0]["limit"], 500_000);
    // In memory it is valid.
    House::on(&rules(700_000)).await;
}

#[tokio::test]
async fn a_store_that_cannot_be_used_stops_the_start() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("rules.yaml");
    std::fs::write(&path, rules()).unwrap();
    let house = House::at(directory, path, |config| {
        let mut redis = RedisConfig::single("127.0.0.1:1");
        redis.tls = Some(tollgate_redis::Tls {
            server_name: Some("no name".to_owned()),
            ..tollgate_redis::Tls::default()
        });
        config.stores.push(OtherStore {
            name: "pay".to_owned(),
            domains: vec!["d".to_owned()],
            place: Place::Shared(SharedConfig::new(redis)),
        });
    });
    let error = house.await.err().unwrap();
    assert_eq!(error.to_string(), "the store `pay` cannot be used");
    let reason = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(reason, "\"no name\" is not a valid server name");
}
