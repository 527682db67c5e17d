//! Decisions while Redis does not answer: each limit does what its `on_store_error` says.

use std::num::NonZeroU32;

use tollgate::redis::{Config, Limiter, OnStoreError, Redis, check_all};
use tollgate::{FAILURE_WAIT, JointError, Limit, Span, StoreError};
use tollgate_testbed as testbed;

use crate::{PATIENT, wait_until};

/// What a limiter of 8 units does with 12 requests, one of four instances.
async fn allowed_by(redis: &Redis, on_store_error: OnStoreError) -> (Limiter, usize) {
    let name = on_store_error.to_string();
    let limiter = redis.limiter(&name, Limit::per_day(8)).unwrap();
    let four = NonZeroU32::new(4).unwrap();
    let limiter = limiter.on_store_error(on_store_error).instances(four);
    let mut allowed = 0;
    for _ in 0..12 {
        allowed += usize::from(limiter.check("ann").await.is_allowed());
    }
    (limiter, allowed)
}

/// Every choice, of an instance whose Redis does not answer.
async fn every_choice_is_followed(redis: &Redis) {
    let before = redis.fallbacks();
    let (_, allowed) = allowed_by(redis, OnStoreError::Allow).await;
    assert_eq!(allowed, 12);

    let (limiter, allowed) = allowed_by(redis, OnStoreError::Local).await;
    assert_eq!(allowed, 2, "a quarter of 8");
    assert_eq!(limiter.failures(), 0);
    // The units of the outage may be those of other requests.
    assert_eq!((limiter.refund("ann", 1).await, limiter.failures()), (0, 1));
    assert!(limiter.try_refund("ann", 1).await.is_err());
    assert!(!limiter.check("ann").await.is_allowed());

    let (limiter, allowed) = allowed_by(redis, OnStoreError::Deny).await;
    assert_eq!(allowed, 0);
    let denied = limiter.try_check("ann", 1).await.unwrap();
    assert_eq!(denied.retry_after_secs(), Some(1));
    let joint = check_all(&[limiter.ask("ann")]).await.unwrap();
    assert!(!joint.is_allowed());
    assert_eq!(joint.denied_by(), None, "no limit is exceeded");

    let (limiter, allowed) = allowed_by(redis, OnStoreError::Error).await;
    assert_eq!(allowed, 0);
    assert_eq!(limiter.failures(), 12);
    let denied = limiter.check("ann").await;
    assert_eq!(denied.retry_after(), Some(FAILURE_WAIT));
    let failed = limiter.try_check("ann", 1).await;
    let is_outage = |error: &StoreError| {
        matches!(
            error,
            StoreError::Unreachable { .. } | StoreError::TimedOut { .. }
        )
    };
    assert!(failed.as_ref().is_err_and(is_outage), "{failed:?}");
    let joint = check_all(&[limiter.ask("ann")]).await;
    assert!(matches!(joint, Err(JointError::Store(error)) if is_outage(&error)));

    let counts = redis.fallbacks();
    assert_eq!(counts.allowed - before.allowed, 12);
    assert_eq!(counts.local - before.local, 13);
    assert_eq!(counts.denied - before.denied, 14);
    assert_eq!(counts.failed - before.failed, 17);
}

fn open(address: String) -> Redis {
    let config = Config {
        timeout: Span::from_millis(100),
        ..Config::single(address)
    };
    Redis::builder(config).local_keys(1_000).open().unwrap()
}

#[tokio::test]
async fn a_redis_that_was_never_there() {
    let redis = open("127.0.0.1:1".to_owned());
    assert!(!redis.until_up(std::time::Duration::ZERO).await);
    // As long as it takes.
    tokio::select! {
        biased;
        _ = redis.until_up(std::time::Duration::MAX) => panic!("no Redis answers"),
        () = std::future::ready(()) => {}
    }
    tokio::time::timeout(PATIENT, every_choice_is_followed(&redis))
        .await
        .unwrap();
    assert!(redis.trouble().unwrap().contains("127.0.0.1:1"));
}

#[tokio::test]
async fn a_redis_that_died_and_comes_back() {
    let server = testbed::Redis::start();
    let redis = open(server.address());
    assert!(redis.until_up(PATIENT).await);
    server.kill();
    wait_until("it is not noticed", async || !redis.is_up()).await;
    tokio::time::timeout(PATIENT, every_choice_is_followed(&redis))
        .await
        .unwrap();
    server.restart();
    assert!(redis.until_up(PATIENT).await);
    let limiter = redis.limiter("again", Limit::per_day(8)).unwrap();
    let limiter = limiter.on_store_error(OnStoreError::Error);
    wait_until("it decides again", async || {
        limiter.try_check("ann", 1).await.is_ok()
    })
    .await;
}

/// It accepts connections and answers nothing: every decision takes its timeout, and no longer.
#[tokio::test]
async fn a_redis_that_is_stopped() {
    let server = testbed::Redis::start();
    let redis = open(server.address());
    assert!(redis.until_up(PATIENT).await);
    server.pause();
    tokio::time::timeout(PATIENT, every_choice_is_followed(&redis))
        .await
        .unwrap();
    server.go_on();
}

#[tokio::test]
async fn several_limits_without_redis() {
    let redis = open("127.0.0.1:1".to_owned());
    let build = |name, on_store_error| {
        let limits = redis.limits(name).limit("burst", Limit::per_day(8));
        let limits = limits.limit("day", Limit::per_day(12));
        let limits = limits.instances(NonZeroU32::new(4).unwrap());
        limits.on_store_error(on_store_error).build().unwrap()
    };
    let local = build("local", OnStoreError::Local);
    for is_allowed in [true, true, false] {
        assert_eq!(local.check("ann").await.is_allowed(), is_allowed);
    }
    let denied = local.peek("ann", 1).await;
    assert_eq!(denied.denied_by(), Some("burst"), "2 of 8, 3 of 12");
    local.refund("ann", 1).await;
    assert!(local.try_refund("ann", 1).await.is_err());
    assert!(
        !local.check("ann").await.is_allowed(),
        "nothing was refunded"
    );
    let burst = local.limiter("burst").unwrap();
    assert_eq!((burst.refund("ann", 1).await, burst.failures()), (0, 2));
    assert!(burst.try_refund("ann", 1).await.is_err());
    let failing = build("failing", OnStoreError::Error);
    let denied = failing.check("ann").await;
    assert_eq!(denied.denied_by(), None);
    assert_eq!(denied.retry_after(), Some(FAILURE_WAIT));
    assert_eq!(failing.limiter("day").unwrap().failures(), 1);
}

#[tokio::test]
async fn closing_without_redis_ends() {
    let redis = open("127.0.0.1:1".to_owned());
    let limiter = redis.limiter("api", Limit::per_day(8)).unwrap();
    assert!(limiter.check("ann").await.is_allowed());
    tokio::time::timeout(PATIENT, redis.close()).await.unwrap();
}
