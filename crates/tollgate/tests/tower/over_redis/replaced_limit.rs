//! Requests that a leaky bucket over Redis holds while its limit is replaced.

use std::sync::Arc;

use axum::Router;
use tokio::task::JoinHandle;
use tollgate::redis::{Limiter, RuleLimiter};
use tollgate::tower::{Classifier, ClientAddress, IdentitySettings, RateLimitLayer};
use tollgate::{Algorithm, Anchor, Limit, Source};
use tollgate_testbed as testbed;

use super::{CLIENT, app, connect, peek, rules, status, wait_until};
use crate::{peer, request};

/// Of five requests, one goes, and the others are held for minutes.
const SLOW: Limit = Limit::per_minute(1)
    .counted_by(Algorithm::LeakyBucket)
    .burst(10);
/// What was consumed has left it at once.
const FAST: Limit = Limit::per_second(1_000)
    .counted_by(Algorithm::LeakyBucket)
    .burst(10);
/// None of them gets a unit back while a test runs. The first is that of the held requests again.
const NEXT: [Limit; 4] = [
    SLOW,
    Limit::per_day(10),
    Limit::per_day(10).counted_by(Algorithm::FixedWindow(Anchor::FirstRequest)),
    Limit::per_day(10).counted_by(Algorithm::SlidingLog),
];

/// Sends five requests, and returns when all of them are charged.
async fn send_five(app: &Router, remaining: impl AsyncFn() -> u32) -> Vec<JoinHandle<()>> {
    let send = |_| {
        let app = app.clone();
        tokio::spawn(async move {
            status(&app, request(CLIENT)).await;
        })
    };
    let sent = (0..5).map(send).collect();
    wait_until("they are not allowed", async || remaining().await == 5).await;
    sent
}

/// Drops the requests while nothing is left, and asserts that nothing is refunded.
async fn drop_for_nothing(sent: Vec<JoinHandle<()>>, remaining: impl AsyncFn() -> u32) {
    for request in &sent {
        request.abort();
    }
    for request in sent {
        // The first has gone.
        let _aborted = request.await;
    }
    // The second comes after the refunds.
    assert_eq!(remaining().await, 0);
    assert_eq!(remaining().await, 0);
}

/// Of requests to `app` that `limiter` has allowed.
async fn no_unit_of_others_is_refunded(app: &Router, limiter: &Limiter, next: Limit) {
    let remaining = async || limiter.peek(CLIENT, 1).await.remaining();
    let sent = send_five(app, remaining).await;
    limiter.set_limit(FAST).unwrap();
    // Converts the bucket.
    assert!(limiter.check(CLIENT).await.is_allowed());
    wait_until("it is not empty", async || remaining().await == 10).await;
    limiter.set_limit(next).unwrap();
    assert!(limiter.check_n(CLIENT, 10).await.is_allowed());
    drop_for_nothing(sent, remaining).await;
}

#[tokio::test]
async fn a_dropped_request_of_a_limiter_refunds_no_unit_of_others() {
    let server = testbed::Redis::start();
    let redis = connect(&server).await;
    for next in NEXT {
        let limiter = redis.limiter(&format!("{next:?}"), SLOW);
        let limiter = Arc::new(limiter.unwrap());
        let addresses = ClientAddress::default();
        let layer = RateLimitLayer::by_client_address(Arc::clone(&limiter), addresses, peer);
        no_unit_of_others_is_refunded(&app(layer), &limiter, next).await;
    }
}

#[tokio::test]
async fn a_dropped_request_of_several_limits_refunds_no_unit_of_others() {
    let server = testbed::Redis::start();
    let redis = connect(&server).await;
    for next in NEXT {
        let limits = redis.limits(&format!("{next:?}")).limit("only", SLOW);
        let limits = Arc::new(limits.build().unwrap());
        let addresses = ClientAddress::default();
        let layer = RateLimitLayer::by_client_address(Arc::clone(&limits), addresses, peer);
        let limiter = limits.limiter("only").unwrap();
        no_unit_of_others_is_refunded(&app(layer), limiter, next).await;
    }
}

#[tokio::test]
async fn a_dropped_request_of_rules_refunds_no_unit_of_others() {
    let slow = "{unit: minute, requests_per_unit: 1, algorithm: leaky_bucket, queue: 10}";
    let fast = "{unit: second, requests_per_unit: 1000, algorithm: leaky_bucket, queue: 10}";
    let hour = "{unit: hour, requests_per_unit: 1, algorithm: leaky_bucket, queue: 10}";
    let bucket = "{unit: day, requests_per_unit: 10, algorithm: token_bucket}";
    for next in [slow, hour, bucket] {
        let server = testbed::Redis::start();
        let redis = connect(&server).await;
        let limiter = Arc::new(RuleLimiter::from_yaml(&redis, &rules(slow)).unwrap());
        let remaining = async || peek(&limiter, "remote_address", CLIENT).await;
        let classifier = Classifier::new(&IdentitySettings::default()).unwrap();
        let layer = RateLimitLayer::by_rules(Arc::clone(&limiter), "shop", classifier, peer);
        let sent = send_five(&app(layer), remaining).await;
        let reload = |rule| {
            limiter
                .reload(&[Source::new("rules", rules(rule))])
                .unwrap()
        };
        let check = async || {
            let answer = limiter.check("shop", &[("remote_address", CLIENT)]).await;
            answer.unwrap().is_allowed()
        };
        reload(fast);
        assert!(check().await);
        wait_until("it is not empty", async || remaining().await == 10).await;
        reload(next);
        for _ in 0..10 {
            assert!(check().await);
        }
        drop_for_nothing(sent, remaining).await;
    }
}
