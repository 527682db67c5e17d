//! The denial cache: what another instance or an operator gives back is soon seen.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate_core::{Charge, Cost, InspectStore, Key, KeyHasher, Limit, Mode, Sharing, Span};
use tollgate_redis::{Config, Redis};
use tollgate_testbed as testbed;

/// A denial is cached for a second, and the retry time is up to a day.
const SEEN_WITHIN: Duration = Duration::from_secs(10);
/// A server's role is checked once a second. Less than the timeout of a decision here.
const DEMOTED_WITHIN: Duration = Duration::from_secs(5);
/// Far more than the unit that is asked for.
const CAPACITY: u32 = 1_000;

fn instance(redis: &testbed::Redis) -> Redis {
    let config = Config {
        timeout: Span::from_secs(10),
        ..Config::single(redis.address())
    };
    Redis::connect(&config).unwrap()
}

fn limits() -> [Limit; 2] {
    [
        Limit::fixed_window(CAPACITY, Span::HOUR.times(testbed::window_hours())).unwrap(),
        Limit::token_bucket(CAPACITY, Span::DAY).unwrap(),
    ]
}

fn key(store: &Redis, limit: &Limit) -> Key {
    store.key([&b"denials"[..], limit.to_string().as_bytes()].into_iter())
}

async fn is_allowed(store: &Redis, limit: &Limit, cost: Cost) -> bool {
    let charge = Charge::new(key(store, limit), limit, cost);
    store.decide(&[charge]).await.unwrap().is_allowed()
}

/// Uses what is left, and has the denial of one more unit cached.
async fn exhaust(store: &Redis, limit: &Limit) {
    let peek = Charge::new(key(store, limit), limit, Cost::Peek(1));
    let state = store.inspect(&peek).await.unwrap();
    assert!(is_allowed(store, limit, Cost::Take(state.decision.remaining().into())).await);
    let before = store.counts().local_denials;
    for _ in 0..3 {
        assert!(!is_allowed(store, limit, Cost::ONE).await);
    }
    assert!(store.counts().local_denials > before, "it is not cached");
}

async fn is_soon_allowed(store: &Redis, limit: &Limit, after: &str) {
    let latest = Instant::now() + SEEN_WITHIN;
    while !is_allowed(store, limit, Cost::ONE).await {
        assert!(Instant::now() < latest, "{limit}: denied after {after}");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_back_elsewhere_ends_a_cached_denial() {
    let redis = testbed::Redis::start();
    let (store, other) = (instance(&redis), instance(&redis));
    for limit in &limits() {
        exhaust(&store, limit).await;
        redis.ask(&["FLUSHALL"]);
        is_soon_allowed(&store, limit, "FLUSHALL").await;

        exhaust(&store, limit).await;
        assert!(is_allowed(&other, limit, Cost::Refund(10)).await);
        is_soon_allowed(&store, limit, "a refund").await;

        exhaust(&store, limit).await;
        assert!(other.reset(key(&other, limit)).await.unwrap());
        is_soon_allowed(&store, limit, "a reset").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn returned_leases_end_a_cached_denial() {
    let redis = testbed::Redis::start();
    let store = instance(&redis);
    for limit in &limits() {
        let holder = instance(&redis);
        let charge = Charge::new(key(&holder, limit), limit, Cost::ONE);
        let charge = charge.shared(Sharing::in_mode(Mode::Leased));
        while holder.counts().lease_decisions == 0 {
            assert!(holder.decide(&[charge]).await.unwrap().is_allowed());
        }
        exhaust(&store, limit).await;
        holder.close().await;
        is_soon_allowed(&store, limit, "a lease was returned").await;
    }
}

/// A denial writes nothing, so a replica does not reject it: the check of the server's role ends
/// it, once a second, however long a decision may take.
#[tokio::test]
async fn a_demoted_primary_soon_denies_no_more() {
    let redis = testbed::Redis::start();
    let (store, other) = (instance(&redis), instance(&redis));
    let limit = limits()[0];
    assert!(is_allowed(&other, &limit, Cost::ONE).await);
    exhaust(&store, &limit).await;
    redis.ask(&["REPLICAOF", "127.0.0.1", "1"]);
    let charge = Charge::new(key(&other, &limit), &limit, Cost::ONE);
    let latest = Instant::now() + DEMOTED_WITHIN;
    while let Ok(verdict) = other.decide(&[charge]).await {
        assert!(!verdict.is_allowed());
        assert!(Instant::now() < latest, "a replica still decides");
        sleep(Duration::from_millis(5)).await;
    }
}
