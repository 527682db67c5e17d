//! Keys expire no sooner than their units are refilled, and at most a second later.
//! `src/behaviour/expiry.rs` tests all modes in virtual time; here the clock is Redis's own.
#![allow(clippy::unwrap_used)]

use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_core::{Algorithm, Charge, Cost, KeyHasher, Limit, Mode, Sharing, Span};
use tollgate_redis::{Config, LEASE_LASTS, Redis};
use tollgate_testbed as testbed;

/// Every algorithm, with this many units. No window or segment of the clock's ends while a test
/// runs: in the last second of a segment no units are leased.
fn limits(units: u32) -> Vec<Limit> {
    let first = Algorithm::FixedWindow(tollgate_core::Anchor::FirstRequest);
    let window = Span::HOUR.times(testbed::window_hours());
    vec![
        Limit::fixed_window(units, window).unwrap(),
        Limit::new(first, units, Span::HOUR).unwrap(),
        Limit::sliding_log(units, Span::HOUR).unwrap(),
        Limit::sliding_window(units, window, 1).unwrap(),
        Limit::sliding_window(units, window, 10).unwrap(),
        Limit::token_bucket(units, Span::HOUR).unwrap(),
        Limit::leaky_bucket(units, Span::HOUR).unwrap(),
        Limit::token_bucket(1, Span::DAY.times(300)).unwrap(),
    ]
}

fn store(redis: &testbed::Redis) -> Redis {
    let config = Config {
        timeout: Span::from_secs(20),
        ..Config::single(redis.address())
    };
    Redis::connect(&config).unwrap()
}

#[expect(
    clippy::disallowed_methods,
    reason = "compared with the clock of a real Redis"
)]
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

#[tokio::test]
async fn a_key_lives_as_long_as_it_matters() {
    let redis = testbed::Redis::start();
    let store = store(&redis);
    for (number, limit) in limits(5).iter().enumerate() {
        redis.ask(&["FLUSHALL"]);
        let parts = [&b"rule"[..], b"", &[u8::try_from(number).unwrap()]];
        let charge = Charge::new(store.key(parts.into_iter()), limit, Cost::ONE);
        // Twice: the first request creates the key, the second changes it.
        for _ in 0..=u32::from(limit.capacity() > 1) {
            let before = now_ms();
            let verdict = store.decide(&[charge]).await.unwrap();
            let after = now_ms();
            assert!(verdict.is_allowed());
            let key = redis.ask(&["RANDOMKEY"]);
            let expires: u64 = redis.ask(&["PEXPIRETIME", &key]).parse().unwrap();
            // A fixed window expires at its end, every other state once all units are refilled.
            let reset = verdict.decisions[0].reset().as_nanos().div_ceil(1_000_000);
            assert!(
                expires >= before + reset,
                "{limit:?}: {expires} {before} {reset}"
            );
            assert!(
                expires <= after + reset + 1_000,
                "{limit:?}: {expires} {after} {reset}"
            );
        }
    }
}

/// Leased units that are not reported are charged as of the lease's end, and refilled from then on.
#[tokio::test]
async fn a_key_lives_until_its_leases_have_recovered() {
    let redis = testbed::Redis::start();
    let watcher = store(&redis);
    let leased = [24, 1_000].into_iter().flat_map(limits);
    let leased = leased.filter(|limit| Mode::Leased.suits(limit) && limit.capacity() > 1);
    for limit in leased {
        redis.ask(&["FLUSHALL"]);
        let instance = store(&redis);
        let key = instance.key([&b"rule"[..], b"leased"].into_iter());
        let one = Charge::new(key, &limit, Cost::ONE).shared(Sharing::in_mode(Mode::Leased));
        while instance.counts().units_leased == 0 {
            assert!(instance.decide(&[one]).await.unwrap().is_allowed());
        }
        let after = now_ms();
        let expires = redis.ask(&["PEXPIRETIME", &instance.name_of(key)]);
        let expires: u64 = expires.parse().unwrap();
        // As if the lease were already charged.
        let peek = Charge::new(key, &limit, Cost::Peek(1));
        let at = now_ms();
        let reply = watcher.decide(&[peek]).await.unwrap().decisions[0];
        let reset = reply.reset().as_nanos().div_ceil(1_000_000);
        assert!(expires >= at + reset, "{limit:?}: {expires} {at} {reset}");
        // Algorithms that count units by the time of their charge keep them for the length of the
        // lease longer.
        let later = match limit.algorithm() {
            Algorithm::SlidingLog | Algorithm::TokenBucket => LEASE_LASTS.as_nanos(),
            Algorithm::SlidingWindow(segments) => {
                limit.window().as_nanos() / u64::from(segments.get())
            }
            _ => 0,
        };
        let most = after + reset + later / 1_000_000 + 1_000;
        assert!(expires <= most, "{limit:?}: {expires} {after} {reset}");
    }
}

#[tokio::test]
async fn a_refund_of_everything_leaves_no_key() {
    let redis = testbed::Redis::start();
    let store = store(&redis);
    for limit in limits(5) {
        let key = store.key([&b"rule"[..], b"", b"one"].into_iter());
        for cost in [Cost::ONE, Cost::Refund(1), Cost::Peek(1)] {
            assert!(
                store
                    .decide(&[Charge::new(key, &limit, cost)])
                    .await
                    .unwrap()
                    .is_allowed()
            );
        }
        assert_eq!(redis.ask(&["DBSIZE"]), "0", "{limit:?}");
    }
}

#[tokio::test]
async fn names_tell_nothing_and_begin_with_the_prefix() {
    let redis = testbed::Redis::start();
    let store = store(&redis);
    let limit = Limit::token_bucket(5, Span::HOUR).unwrap();
    let key = store.key([&b"rule"[..], b"login", b"correct horse"].into_iter());
    let verdict = store
        .decide(&[Charge::new(key, &limit, Cost::ONE)])
        .await
        .unwrap();
    assert!(verdict.is_allowed());
    let name = redis.ask(&["RANDOMKEY"]);
    assert!(name.starts_with("tg:{") && name.len() == 27, "{name}");
    assert!(!name.contains("horse") && !name.contains("login"), "{name}");
}
