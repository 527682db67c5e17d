//! Keys expire no sooner than they have recovered, and at most a second later.
#![allow(clippy::unwrap_used)]

use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_core::{Charge, Cost, KeyHasher, Limit, Span};
use tollgate_redis::{Config, Redis};
use tollgate_testbed as testbed;

fn limits() -> Vec<Limit> {
    let first = tollgate_core::Algorithm::FixedWindow(tollgate_core::Anchor::FirstRequest);
    vec![
        Limit::fixed_window(5, Span::HOUR).unwrap(),
        Limit::new(first, 5, Span::HOUR).unwrap(),
        Limit::sliding_log(5, Span::HOUR).unwrap(),
        Limit::sliding_window(5, Span::HOUR, 1).unwrap(),
        Limit::sliding_window(5, Span::HOUR, 60).unwrap(),
        Limit::token_bucket(5, Span::HOUR).unwrap(),
        Limit::leaky_bucket(5, Span::HOUR).unwrap(),
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

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

#[tokio::test]
async fn a_key_lives_as_long_as_it_matters() {
    let redis = testbed::Redis::start();
    let store = store(&redis);
    for (number, limit) in limits().iter().enumerate() {
        redis.ask(&["FLUSHALL"]);
        let parts = [&b"rule"[..], b"", &[u8::try_from(number).unwrap()]];
        let charge = Charge::new(store.key(parts.into_iter()), limit, Cost::ONE);
        // Twice: what is there is changed as well as made.
        for _ in 0..=u32::from(limit.capacity() > 1) {
            let before = now_ms();
            let verdict = store.decide(&[charge]).await.unwrap();
            let after = now_ms();
            assert!(verdict.is_admitted());
            let key = redis.ask(&["RANDOMKEY"]);
            let expires: u64 = redis.ask(&["PEXPIRETIME", &key]).parse().unwrap();
            // A fixed window is forgotten at its end, every other usage once it has recovered.
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

#[tokio::test]
async fn a_refund_of_everything_leaves_no_key() {
    let redis = testbed::Redis::start();
    let store = store(&redis);
    for limit in limits() {
        let key = store.key([&b"rule"[..], b"", b"one"].into_iter());
        for cost in [Cost::ONE, Cost::Refund(1), Cost::Peek(1)] {
            assert!(
                store
                    .decide(&[Charge::new(key, &limit, cost)])
                    .await
                    .unwrap()
                    .is_admitted()
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
    assert!(verdict.is_admitted());
    let name = redis.ask(&["RANDOMKEY"]);
    assert!(name.starts_with("tg:{") && name.len() == 27, "{name}");
    assert!(!name.contains("horse") && !name.contains("login"), "{name}");
}
