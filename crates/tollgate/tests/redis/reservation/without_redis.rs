//! Reservations while Redis does not answer: settled where they were charged.

use std::num::NonZeroU32;

use tollgate::redis::{Config, Limiter, OnStoreError, Redis};
use tollgate::{Algorithm, FAILURE_WAIT, Limit, Span, StoreError, Wait};
use tollgate_testbed as testbed;

use super::{algorithms, hundred_a_year, remaining};
use crate::{PATIENT, connect};

fn open(address: String, timeout: Span) -> Redis {
    let config = Config {
        timeout,
        ..Config::single(address)
    };
    Redis::builder(config).local_keys(1_000).open().unwrap()
}

fn unconnected() -> Redis {
    open("127.0.0.1:1".to_owned(), Span::from_millis(100))
}

/// One of four instances.
fn quarter(redis: &Redis, algorithm: Algorithm) -> Limiter {
    let limiter = hundred_a_year(redis, &format!("{algorithm:?}"), algorithm);
    limiter.instances(NonZeroU32::new(4).unwrap())
}

#[tokio::test]
async fn a_share_is_settled_like_a_limit() {
    let redis = unconnected();
    for algorithm in algorithms() {
        let limiter = quarter(&redis, algorithm);
        let denial = limiter.reserve("ann", 26).await.unwrap_err();
        assert!(matches!(denial.wait, Wait::For(_)), "Redis may allow it");
        let reservation = limiter.reserve("ann", 20).await.unwrap();
        assert_eq!(reservation.remaining(), 5);
        assert_eq!(reservation.settle(4).await.charged, 4);
        assert_eq!(remaining(&limiter).await, 21, "{algorithm:?}");
        drop(limiter.reserve("ann", 21).await.unwrap());
        assert_eq!(remaining(&limiter).await, 21);
        drop(limiter.reserve("ann", 10).await.unwrap().settle(3));
        assert_eq!(remaining(&limiter).await, 18);
        let more = limiter.reserve("ann", 1).await.unwrap();
        let settlement = more.settle(u64::MAX).await;
        assert_eq!((settlement.charged, settlement.remaining), (18, 0));
        assert_eq!(limiter.failures(), 0);
    }
}

#[tokio::test]
async fn a_share_that_has_changed_refunds_nothing() {
    let redis = unconnected();
    let limiter = quarter(&redis, Algorithm::TokenBucket);
    let fewer = limiter.reserve("ann", 10).await.unwrap();
    let more = limiter.reserve("ann", 10).await.unwrap();
    let limit = Limit::new(Algorithm::TokenBucket, 200, Span::DAY.times(360)).unwrap();
    limiter.set_limit(limit).unwrap();
    assert_eq!(fewer.settle(0).await.charged, 10);
    assert_eq!(more.settle(12).await.charged, 12);
}

#[tokio::test]
async fn every_choice_is_followed() {
    let redis = unconnected();
    let limiter = |choice: OnStoreError| {
        let limiter = hundred_a_year(&redis, &choice.to_string(), Algorithm::TokenBucket);
        limiter.on_store_error(choice)
    };
    let allowing = limiter(OnStoreError::Allow);
    let reservation = allowing.reserve("ann", 1_000).await.unwrap();
    assert_eq!(reservation.settle(2_000).await.charged, 0);
    drop(allowing.reserve("ann", 1_000).await.unwrap());
    let denying = limiter(OnStoreError::Deny);
    let denial = denying.reserve("ann", 1).await.unwrap_err();
    assert_eq!(
        (denial.wait, denying.failures()),
        (Wait::For(Span::SECOND), 0)
    );
    let failing = limiter(OnStoreError::Error);
    let denial = failing.reserve("ann", 1).await.unwrap_err();
    assert_eq!(denial.wait, Wait::For(FAILURE_WAIT.into()));
    assert_eq!(failing.failures(), 1);
    let error = failing.try_reserve("ann", 1).await.unwrap_err();
    let is_outage = matches!(
        error,
        StoreError::Unreachable { .. } | StoreError::TimedOut { .. }
    );
    assert!(is_outage, "{error:?}");
}

/// Redis charges, and its reply comes too late: the share is charged as well, and only what it was
/// charged is refunded.
#[tokio::test]
async fn what_redis_charged_without_a_reply_stays_charged() {
    let server = testbed::Redis::start();
    let redis = open(server.address(), Span::SECOND);
    assert!(redis.until_up(PATIENT).await);
    let limiter = quarter(&redis, Algorithm::SlidingLog);
    // It is connected, and has the scripts.
    let _settled = limiter.reserve("ann", 1).await.unwrap().settle(1).await;
    let settled_here = limiter.reserve("ann", 20).await.unwrap();
    server.pause();
    let reserved = limiter.reserve("ann", 10).await.unwrap();
    assert_eq!(reserved.remaining(), 15, "of a quarter");
    let error = settled_here.try_settle(5).await.unwrap_err();
    assert!(error.to_string().contains("not settled"), "{error}");
    server.go_on();
    let strict = connect(Config::single(server.address())).await;
    let strict = hundred_a_year(&strict, "SlidingLog", Algorithm::SlidingLog);
    let settlement = reserved.settle(0).await;
    assert_eq!((settlement.charged, settlement.remaining), (0, 25));
    // 1 was settled; 5 or 20, and 10 or nothing, as Redis has executed what it was sent or not.
    let consumed = 100 - remaining(&strict).await;
    assert!([6, 16, 21, 31].contains(&consumed), "{consumed}");
}
