//! Futures that are dropped while Redis reserves or settles, and runtimes that end.

use std::time::Duration;

use tollgate::Algorithm;
use tollgate::redis::{Config, REFUNDS_MAX, Redis};
use tollgate_testbed as testbed;

use super::{drop_in_turn, hundred_a_year, remaining, wait_for};
use crate::{PATIENT, connect, wait_until};

/// More turns than most reservations and settlements take.
const TURNS_MAX: u32 = 12;

/// A server behind a proxy that delays replies, so that futures are dropped on the way.
fn slow_server() -> (testbed::Redis, testbed::Proxy) {
    let server = testbed::Redis::start();
    let proxy = testbed::Proxy::to(&server.address());
    proxy.set(testbed::Faults {
        delay: Duration::from_millis(1),
        ..testbed::Faults::default()
    });
    (server, proxy)
}

/// Drops reservations and settlements at each await.
async fn dropped_futures_are_accounted_for(config: Config) {
    let redis = connect(config).await;
    let limiter = hundred_a_year(&redis, "api", Algorithm::SlidingLog);
    let mut dropped_half_way = 0;
    for turns in 0..TURNS_MAX {
        let is_finished = drop_in_turn(turns, limiter.reserve("ann", 60)).await;
        dropped_half_way += u32::from(turns > 0 && !is_finished);
        wait_for(&limiter, 100).await;
        let reservation = limiter.reserve("ann", 60).await.unwrap();
        let is_finished = drop_in_turn(turns, reservation.settle(7)).await;
        dropped_half_way += u32::from(turns > 0 && !is_finished);
        wait_for(&limiter, 93).await;
        let reservation = limiter.reserve("ann", 60).await.unwrap();
        // Also more than the estimate.
        drop_in_turn(turns, reservation.settle(90)).await;
        wait_for(&limiter, 3).await;
        limiter.reset("ann").await;
        assert_eq!(remaining(&limiter).await, 100);
    }
    assert!(dropped_half_way > 0, "all was done before");
    assert_eq!(limiter.failures(), 0);
}

#[tokio::test]
async fn a_dropped_future_settles_all_the_same() {
    let (_server, proxy) = slow_server();
    dropped_futures_are_accounted_for(Config::single(proxy.address())).await;
}

#[tokio::test]
async fn also_in_a_cluster() {
    let cluster = testbed::Cluster::start();
    dropped_futures_are_accounted_for(Config::cluster(cluster.addresses())).await;
}

#[tokio::test]
async fn closing_waits_for_the_refunds() {
    let (server, proxy) = slow_server();
    let redis = connect(Config::single(proxy.address())).await;
    let limiter = hundred_a_year(&redis, "api", Algorithm::TokenBucket);
    for _ in 0..20 {
        let _dropped = limiter.reserve("ann", 5).await.unwrap();
    }
    let reservations = (0..20).map(|_| limiter.reserve("ann", 5));
    let mut reserved = Vec::new();
    for reservation in reservations {
        reserved.push(reservation.await);
    }
    drop(reserved);
    redis.close().await;
    let other = connect(Config::single(server.address())).await;
    let other = hundred_a_year(&other, "api", Algorithm::TokenBucket);
    assert_eq!(remaining(&other).await, 100);
}

/// The caller has gone, and Redis has not answered yet.
#[tokio::test]
async fn closing_waits_for_what_is_being_reserved() {
    let (server, proxy) = slow_server();
    let redis = connect(Config::single(proxy.address())).await;
    let limiter = hundred_a_year(&redis, "api", Algorithm::TokenBucket);
    assert!(!drop_in_turn(1, limiter.reserve("ann", 60)).await);
    redis.close().await;
    let other = connect(Config::single(server.address())).await;
    let other = hundred_a_year(&other, "api", Algorithm::TokenBucket);
    assert_eq!(remaining(&other).await, 100);
}

#[test]
fn a_reservation_that_outlives_its_runtime_does_not_hang() {
    let server = testbed::Redis::start();
    let runtime = || {
        let builder = &mut tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build().unwrap()
    };
    let first = runtime();
    let (limiter, [outside, inside, settled]) = first.block_on(async {
        let redis = connect(Config::single(server.address())).await;
        let limiter = hundred_a_year(&redis, "api", Algorithm::TokenBucket);
        let mut reserved = Vec::new();
        for _ in 0..3 {
            reserved.push(limiter.reserve("ann", 10).await.unwrap());
        }
        (limiter, <[_; 3]>::try_from(reserved).unwrap())
    });
    // Its connections end with it.
    first.shutdown_timeout(PATIENT);
    drop(outside);
    runtime().block_on(async {
        drop(inside);
        let settling = tokio::time::timeout(PATIENT, settled.try_settle(1));
        assert!(settling.await.unwrap().is_err());
        // Nothing was refunded: nobody knows.
        let redis = connect(Config::single(server.address())).await;
        let other = hundred_a_year(&redis, "api", Algorithm::TokenBucket);
        assert_eq!(remaining(&other).await, 70);
    });
    drop(limiter);
}

/// A runtime that ends drops the reservations of its tasks.
fn end_with_a_reservation(mut builder: tokio::runtime::Builder) {
    let server = testbed::Redis::start();
    let runtime = builder.enable_all().build().unwrap();
    runtime.block_on(async {
        let redis = connect(Config::single(server.address())).await;
        let limiter = hundred_a_year(&redis, "api", Algorithm::TokenBucket);
        let reservation = limiter.reserve("ann", 10).await.unwrap();
        let dropped = limiter.reserve("ann", 10).await.unwrap();
        tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop(reservation);
        });
        server.pause();
        // Its refund waits.
        drop(dropped);
        tokio::task::yield_now().await;
    });
    drop(runtime);
}

#[test]
fn a_runtime_that_ends_with_a_reservation_does_not_hang() {
    let (ended, has_ended) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        end_with_a_reservation(tokio::runtime::Builder::new_current_thread());
        end_with_a_reservation(tokio::runtime::Builder::new_multi_thread());
        ended.send(())
    });
    has_ended.recv_timeout(PATIENT).unwrap();
}

#[test]
fn a_reservation_that_is_dropped_outside_of_a_runtime_is_refunded() {
    let server = testbed::Redis::start();
    let builder = &mut tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().unwrap();
    let limiter = runtime.block_on(async {
        let redis = connect(Config::single(server.address())).await;
        hundred_a_year(&redis, "api", Algorithm::TokenBucket)
    });
    let reservation = runtime.block_on(limiter.reserve("ann", 10)).unwrap();
    drop(reservation);
    runtime.block_on(wait_for(&limiter, 100));
}

#[tokio::test]
async fn refunds_beyond_the_maximum_leave_their_units_charged() {
    let server = testbed::Redis::start();
    let redis = connect(Config::single(server.address())).await;
    let limit = tollgate::Limit::per_day(1_000_000)
        .counted_by(Algorithm::FixedWindow(tollgate::Anchor::FirstRequest));
    let limiter = redis.limiter("api", limit).unwrap();
    let mut reserved = Vec::new();
    for _ in 0..REFUNDS_MAX + 3 {
        reserved.push(limiter.reserve("ann", 1).await.unwrap());
    }
    server.pause();
    drop(reserved);
    assert_eq!(limiter.failures(), 3);
    server.go_on();
    wait_until("not all others are refunded", async || {
        limiter.peek("ann", 1).await.remaining() == 1_000_000 - 3
    })
    .await;
    // There is room again.
    drop(limiter.reserve("ann", 5).await.unwrap());
    wait_until("there is no room", async || {
        limiter.peek("ann", 1).await.remaining() == 1_000_000 - 3
    })
    .await;
    assert_eq!(limiter.failures(), 3);
}

#[tokio::test]
async fn a_dropped_refund_without_redis_is_a_failure() {
    let server = testbed::Redis::start();
    let redis = connect(Config::single(server.address())).await;
    let limiter = hundred_a_year(&redis, "api", Algorithm::TokenBucket);
    let [dropped, settled] = [
        limiter.reserve("ann", 10).await.unwrap(),
        limiter.reserve("ann", 10).await.unwrap(),
    ];
    server.kill();
    wait_until("it is not noticed", async || !redis.is_up()).await;
    drop(dropped);
    wait_until("the refund is not counted", async || {
        limiter.failures() == 1
    })
    .await;
    assert_eq!(settled.settle(3).await.charged, 10);
    assert_eq!(limiter.failures(), 2);
    tokio::time::timeout(PATIENT, Redis::close(&redis))
        .await
        .unwrap();
}
