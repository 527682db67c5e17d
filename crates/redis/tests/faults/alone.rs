//! Faults of a single Redis, and of the network to it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_core::{Charge, Cost, KeyHasher, StoreError};
use tollgate_redis::{Config, Redis, Secret};
use tollgate_testbed as testbed;

use crate::record::Outcome;
use crate::traffic::Traffic;
use crate::{named, narrow, over, patient, wide};

/// How long the first successful decision may take after Redis is back.
const FOUND_WITHIN: Duration = Duration::from_secs(3);
/// How long it may take after Redis was started.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// A server, with or without TLS.
struct Way {
    redis: testbed::Redis,
    certificates: Option<testbed::Certificates>,
}

// === impl Way ===

impl Way {
    fn plain() -> Way {
        Way {
            redis: testbed::Redis::start(),
            certificates: None,
        }
    }

    fn encrypted() -> Way {
        let certificates = testbed::Certificates::new();
        Way {
            redis: certificates.start("tg:"),
            certificates: Some(certificates),
        }
    }

    /// The configuration for this server at `address`, which may be that of a proxy.
    fn config(&self, address: String) -> Config {
        let config = Config::single(address);
        if self.certificates.is_none() {
            return config;
        }
        Config {
            username: Some(testbed::USER.to_owned()),
            password: Some(Secret::new(testbed::PASSWORD)),
            ..over(config, self.certificates.as_ref())
        }
    }

    fn named(&self, fault: &str) -> String {
        named(fault, self.certificates.as_ref())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_scripts_and_data_are_no_fault() {
    let redis = testbed::Redis::start();
    lose(&redis, Config::single(redis.address()), "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_scripts_and_data_are_no_fault_over_tls() {
    let certificates = testbed::Certificates::new();
    let (setup, tls_port) = certificates.beside(&testbed::Setup::default());
    let redis = testbed::Redis::start_with(&setup);
    let config = Config::single(format!("127.0.0.1:{tls_port}"));
    lose(&redis, over(config, Some(&certificates)), " over TLS").await;
}

async fn lose(redis: &testbed::Redis, alone: Config, how: &str) {
    for config in [patient(alone.clone()), alone] {
        let traffic = Traffic::start(&config, wide());
        traffic.settle().await;
        let fault = Instant::now();
        for _ in 0..3 {
            redis.ask(&["SCRIPT", "FLUSH"]);
            redis.ask(&["FLUSHALL"]);
            traffic.settle().await;
        }
        let record = traffic.end().await;
        let what = "SCRIPT FLUSH and FLUSHALL, 3 times, within";
        record.tell(&format!("{what} {}{how}", config.timeout), fault);
        assert!(record.store().counts().scripts_loaded >= 3);
        // With the default timeout, a busy machine may delay replies beyond it; with the long one,
        // no decision may fail.
        if config.timeout > tollgate_redis::TIMEOUT {
            assert_eq!(record.failed(), 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_within_replies_allows_nothing_too_much() {
    cut(&Way::plain()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_within_replies_over_tls_allows_nothing_too_much() {
    cut(&Way::encrypted()).await;
}

async fn cut(way: &Way) {
    let proxy = testbed::Proxy::to(&way.redis.address());
    let config = way.config(proxy.address());
    let traffic = Traffic::start(&config, narrow());
    traffic.settle().await;
    let fault = Instant::now();
    for bytes in [1, 100, 1_003, 2_017, 5_051] {
        proxy.set(testbed::Faults {
            cut_after: Some(bytes),
            ..testbed::Faults::default()
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        proxy.set(testbed::Faults::default());
        traffic.settle().await;
    }
    let record = traffic.end().await;
    record.tell(&way.named("connection cut within replies, 5 times"), fault);
    assert!(record.store().counts().connections >= 5);
    record.is_exact().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_stands_still_delays_nobody() {
    stand_still(&Way::plain()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_stands_still_delays_nobody_over_tls() {
    stand_still(&Way::encrypted()).await;
}

async fn stand_still(way: &Way) {
    let redis = &way.redis;
    let traffic = Traffic::start(&way.config(redis.address()), narrow());
    traffic.settle().await;
    let fault = Instant::now();
    redis.pause();
    tokio::time::sleep(Duration::from_secs(5)).await;
    redis.go_on();
    let back = Instant::now();
    let away = traffic.settle().await;
    assert!(away < FOUND_WITHIN, "{away:?}");
    let record = traffic.end().await;
    record.tell(&way.named("Redis stands still for 5 s"), fault);
    record.is_exact().await;
    println!(
        "  service again {:.1?} after it went on",
        record.outage(back)
    );
    assert!(record.store().counts().breaker_openings >= 1);
    // Only requests from before the circuit breaker opened may wait for their whole budget.
    let within = |snapshot: &&crate::record::Snapshot| snapshot.at > fault && snapshot.at < back;
    let stood = record.snapshot.iter().filter(within);
    let waited = stood.filter(|snapshot| snapshot.took > Duration::from_millis(5));
    assert!(waited.count() < 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_comes_back_is_found() {
    come_back(&Way::plain()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_comes_back_is_found_over_tls() {
    come_back(&Way::encrypted()).await;
}

async fn come_back(way: &Way) {
    let redis = &way.redis;
    let traffic = Traffic::start(&way.config(redis.address()), wide());
    traffic.settle().await;
    let fault = Instant::now();
    redis.kill();
    tokio::time::sleep(Duration::from_secs(1)).await;
    redis.restart();
    let back = Instant::now();
    let away = traffic.settle().await;
    assert!(away < FOUND_WITHIN, "{away:?}");
    let record = traffic.end().await;
    record.tell(&way.named("Redis killed, back after 1 s"), fault);
    println!(
        "  service again {:.1?} after it was back",
        record.outage(back)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_waits_for_a_redis_that_is_not_there_yet() {
    wait_for(&Way::plain()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_waits_over_tls_for_a_redis_that_is_not_there_yet() {
    wait_for(&Way::encrypted()).await;
}

async fn wait_for(way: &Way) {
    way.redis.kill();
    let proxy = testbed::Proxy::to(&way.redis.address());
    let traffic = Traffic::start(&way.config(proxy.address()), wide());
    let start = Instant::now();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!traffic.store.is_up());
    let record = traffic.end().await;
    let what = "Redis is not there when the service starts";
    record.tell(&way.named(what), start);
    assert_eq!(record.count(Outcome::Unreachable), record.snapshot.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_redis_rejects_what_it_cannot_remember() {
    let redis = testbed::Redis::start_with(&full());
    fill(&redis, Config::single(redis.address()), "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_redis_rejects_over_tls_what_it_cannot_remember() {
    let certificates = testbed::Certificates::new();
    let (setup, tls_port) = certificates.beside(&full());
    let redis = testbed::Redis::start_with(&setup);
    let config = Config::single(format!("127.0.0.1:{tls_port}"));
    fill(&redis, over(config, Some(&certificates)), " over TLS").await;
}

/// A server that rejects writes when it is full.
fn full() -> testbed::Setup {
    testbed::Setup::with(&["--maxmemory-policy", "noeviction"])
}

async fn fill(redis: &testbed::Redis, config: Config, how: &str) {
    let traffic = Traffic::start(&config, narrow());
    traffic.settle().await;
    let fault = Instant::now();
    redis.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let store = Redis::connect(&patient(config)).unwrap();
    let limit = wide();
    let key = store.key([&b"full"[..]].into_iter());
    let ask = |cost| {
        let (store, limit) = (&store, &limit);
        async move { store.decide(&[Charge::new(key, limit, cost)]).await }
    };
    let taken = ask(Cost::ONE).await;
    assert!(
        matches!(taken, Err(StoreError::Rejected { .. })),
        "{taken:?}"
    );
    assert!(ask(Cost::Peek(1)).await.unwrap().is_allowed());
    redis.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    let away = traffic.settle().await;
    assert!(away < FOUND_WITHIN, "{away:?}");
    // Its circuit breaker is another than that of the traffic, and closes at its own next trial.
    let room = Instant::now();
    while !store.is_up() {
        assert!(room.elapsed() < FOUND_WITHIN);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(ask(Cost::ONE).await.unwrap().is_allowed());
    let record = traffic.end().await;
    record.tell(&format!("Redis is full for 1 s{how}"), fault);
    assert!(record.count(Outcome::Unreachable) > 0);
    record.is_exact().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_redis_answers_peeks_whatever_is_asked_beside_them() {
    let redis = testbed::Redis::start_with(&full());
    let store = Redis::connect(&patient(Config::single(redis.address()))).unwrap();
    let (store, limit) = (Arc::new(store), wide());
    let key = store.key([&b"full"[..]].into_iter());
    let charge = Charge::new(key, &limit, Cost::ONE);
    let latest = Instant::now() + STARTS_WITHIN;
    while let Err(error) = store.decide(&[charge]).await {
        assert!(Instant::now() < latest, "Redis does not decide: {error}");
        tokio::task::yield_now().await;
    }
    redis.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let (mut peeks, mut takes) = (JoinSet::new(), JoinSet::new());
    for _ in 0..300 {
        for (asked, cost) in [(&mut takes, Cost::ONE), (&mut peeks, Cost::Peek(1))] {
            let store = Arc::clone(&store);
            asked.spawn(async move { store.decide(&[Charge::new(key, &limit, cost)]).await });
        }
    }
    assert!(takes.join_all().await.iter().all(Result::is_err));
    let answered = peeks.join_all().await;
    assert!(answered.iter().all(Result::is_ok), "{answered:?}");
}
