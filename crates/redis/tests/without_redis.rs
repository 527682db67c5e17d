//! Decisions without a call to Redis: the denial cache.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use tollgate_core::{Charge, Cost, InspectStore, KeyHasher, Limit, Span, Verdict, Wait};
use tollgate_redis::{Config, Redis};
use tollgate_testbed as testbed;

/// Longer than any reply takes in these tests.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);

fn patient(address: String) -> Redis {
    let config = Config {
        timeout: Span::from_secs(20),
        ..Config::single(address)
    };
    Redis::connect(&config).unwrap()
}

fn wait(verdict: &Verdict) -> Duration {
    match verdict.denial.unwrap().wait {
        Wait::For(wait) => wait.into(),
        Wait::Never => panic!("it fits some day"),
    }
}

fn limits() -> [Limit; 5] {
    let first = tollgate_core::Algorithm::FixedWindow(tollgate_core::Anchor::FirstRequest);
    [
        Limit::new(first, 3, Span::from_millis(300)).unwrap(),
        Limit::sliding_log(3, Span::from_millis(300)).unwrap(),
        Limit::sliding_window(3, Span::from_millis(300), 3).unwrap(),
        Limit::token_bucket(3, Span::from_millis(900)).unwrap(),
        Limit::leaky_bucket(3, Span::from_millis(900)).unwrap(),
    ]
}

#[tokio::test]
async fn a_hot_denied_key_costs_redis_nothing() {
    let redis = testbed::Redis::start();
    let store = patient(redis.address());
    for (number, limit) in limits().iter().enumerate() {
        let parts = [&b"hot"[..], b"", &[u8::try_from(number).unwrap()]];
        let charge = Charge::new(store.key(parts.into_iter()), limit, Cost::ONE);
        let mut denied = store.decide(&[charge]).await.unwrap();
        while denied.is_allowed() {
            denied = store.decide(&[charge]).await.unwrap();
        }
        let (asked, reply) = (store.counts().requests, wait(&denied));
        let again = store.decide(&[charge]).await.unwrap();
        assert!(!again.is_allowed());
        assert!(wait(&again) <= reply, "{limit:?}");
        for _ in 0..100 {
            assert!(
                !store.decide(&[charge]).await.unwrap().is_allowed(),
                "{limit:?}"
            );
        }
        assert_eq!(store.counts().requests, asked, "{limit:?}");
        assert!(store.counts().local_denials >= 101);
        // At the retry time, a request is allowed.
        let last = store.decide(&[charge]).await.unwrap();
        if !last.is_allowed() {
            tokio::time::sleep(wait(&last)).await;
        }
        assert!(
            store.decide(&[charge]).await.unwrap().is_allowed(),
            "{limit:?}"
        );
    }
}

/// What another instance returns is not seen at once, but long before the retry time.
#[tokio::test]
async fn a_refund_or_a_reset_elsewhere_ends_it() {
    let redis = testbed::Redis::start();
    let [here, elsewhere] = [0, 1].map(|_| patient(redis.address()));
    let limit = Limit::sliding_log(1, Span::DAY).unwrap();
    for name in [&b"refund"[..], b"reset"] {
        let key = here.key([&b"given back"[..], b"", name].into_iter());
        let charge = Charge::new(key, &limit, Cost::ONE);
        assert!(elsewhere.decide(&[charge]).await.unwrap().is_allowed());
        assert!(!here.decide(&[charge]).await.unwrap().is_allowed());
        let asked = here.counts().requests;
        let denied = here.decide(&[charge]).await.unwrap();
        assert_eq!(here.counts().requests, asked, "it is remembered");
        assert!(wait(&denied) > REPLY_TIMEOUT, "{:?}", wait(&denied));
        if name == b"reset" {
            assert!(elsewhere.reset(key).await.unwrap());
        } else {
            let cost = Cost::Refund(1);
            let refund = elsewhere.decide(&[Charge { cost, ..charge }]).await;
            assert!(refund.unwrap().is_allowed());
        }
        let latest = Instant::now() + REPLY_TIMEOUT;
        while !here.decide(&[charge]).await.unwrap().is_allowed() {
            assert!(Instant::now() < latest, "it is still remembered");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn a_refund_or_a_changed_limit_ends_it() {
    let redis = testbed::Redis::start();
    let store = patient(redis.address());
    let limit = Limit::token_bucket(3, Span::HOUR).unwrap();
    let key = store.key([&b"hot"[..]].into_iter());
    let ask = |limit, cost| {
        let store = &store;
        async move {
            store
                .decide(&[Charge::new(key, limit, cost)])
                .await
                .unwrap()
        }
    };
    assert!(ask(&limit, Cost::Take(2)).await.is_allowed());
    assert!(!ask(&limit, Cost::Take(2)).await.is_allowed());
    assert!(!ask(&limit, Cost::Take(2)).await.is_allowed());
    assert_eq!(store.counts().local_denials, 1);
    // A request that may fit is sent to Redis.
    assert!(ask(&limit, Cost::Take(1)).await.is_allowed());
    assert!(!ask(&limit, Cost::Take(1)).await.is_allowed());
    assert!(ask(&limit, Cost::Refund(1)).await.is_allowed());
    assert!(ask(&limit, Cost::Take(1)).await.is_allowed());
    assert!(!ask(&limit, Cost::Take(1)).await.is_allowed());
    let larger = Limit::token_bucket(6, Span::HOUR).unwrap();
    assert!(ask(&larger, Cost::Take(3)).await.is_allowed());
}

#[tokio::test]
async fn what_charges_for_denials_is_always_asked() {
    let redis = testbed::Redis::start();
    let store = patient(redis.address());
    let limit = Limit::token_bucket(3, Span::HOUR).unwrap();
    let charge = Charge {
        on_denial: tollgate_core::OnDenial::Charge,
        ..Charge::new(store.key([&b"hot"[..]].into_iter()), &limit, Cost::Take(2))
    };
    assert!(store.decide(&[charge]).await.unwrap().is_allowed());
    for _ in 0..3 {
        let denied = store.decide(&[charge]).await.unwrap();
        assert_eq!(denied.decisions[0].remaining(), 0);
    }
    assert_eq!(store.counts().local_denials, 0);
}
