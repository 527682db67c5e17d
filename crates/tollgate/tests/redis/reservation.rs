//! Reservations over real Redis servers: what they charge and refund, and that nothing is left
//! over.

mod account;

mod dropped;

mod without_redis;

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use tollgate::redis::{Config, Limiter, Mode, Redis, SettleError};
use tollgate::{Algorithm, Anchor, FAILURE_WAIT, Limit, Segments, StoreError, Wait};
use tollgate_testbed as testbed;

use crate::{connect, wait_until};

fn algorithms() -> [Algorithm; 7] {
    [
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
        Algorithm::FixedWindow(Anchor::Clock),
        Algorithm::FixedWindow(Anchor::FirstRequest),
        Algorithm::SlidingWindow(Segments::ONE),
        Algorithm::SlidingWindow(Segments::new(60).unwrap()),
        Algorithm::SlidingLog,
    ]
}

/// A limiter of 100 units in a year, of which none is available again within a test.
fn hundred_a_year(redis: &Redis, name: &str, algorithm: Algorithm) -> Limiter {
    let limit = Limit::new(algorithm, 100, tollgate::Span::DAY.times(360)).unwrap();
    redis.limiter(name, limit).unwrap()
}

async fn remaining(limiter: &Limiter) -> u32 {
    limiter.peek("ann", 1).await.remaining()
}

/// Waits until tasks in the background have refunded all but so many units.
async fn wait_for(limiter: &Limiter, units: u32) {
    wait_until("units are not refunded", async || {
        remaining(limiter).await == units
    })
    .await;
}

/// Polls a future in so many turns of its runtime, and drops it; returns whether it was ready.
async fn drop_in_turn<F: Future>(turns: u32, future: F) -> bool {
    let mut future = pin!(future);
    for _ in 0..turns {
        let once = poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready()));
        if once.await {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

/// What reservations do in every mode that has them.
async fn reservations_settle(config: Config) {
    let redis = connect(config).await;
    for (number, algorithm) in algorithms().into_iter().enumerate() {
        for mode in [Mode::Strict, Mode::Leased] {
            let name = format!("{number} {mode}");
            let limiter = hundred_a_year(&redis, &name, algorithm).mode(mode);
            let reservation = limiter.reserve("ann", 40).await.unwrap();
            assert_eq!((reservation.estimate(), reservation.remaining()), (40, 60));
            let settlement = reservation.settle(15).await;
            assert_eq!((settlement.charged, settlement.remaining), (15, 85));
            assert_eq!(remaining(&limiter).await, 85, "{algorithm:?} {mode}");
            // The difference is charged where the limit would deny it, as far as it fits.
            let more = limiter.reserve("ann", 80).await.unwrap();
            let settlement = more.settle(u64::MAX).await;
            assert_eq!((settlement.charged, settlement.remaining), (85, 0));
            assert!(!limiter.check("ann").await.is_allowed());
            assert_eq!(limiter.failures(), 0);
        }
    }
}

#[tokio::test]
async fn reservations_settle_on_a_single_server() {
    let server = testbed::Redis::start();
    reservations_settle(Config::single(server.address())).await;
}

#[tokio::test]
async fn reservations_settle_in_a_cluster() {
    let cluster = testbed::Cluster::start();
    reservations_settle(Config::cluster(cluster.addresses())).await;
}

#[tokio::test]
async fn a_dropped_reservation_charges_nothing_and_a_leaked_one_everything() {
    let server = testbed::Redis::start();
    let redis = connect(Config::single(server.address())).await;
    for (number, algorithm) in algorithms().into_iter().enumerate() {
        let limiter = hundred_a_year(&redis, &number.to_string(), algorithm);
        assert!(limiter.check_n("ann", 30).await.is_allowed());
        let reservation = limiter.reserve("ann", 70).await.unwrap();
        assert_eq!(remaining(&limiter).await, 0);
        drop(reservation);
        wait_for(&limiter, 70).await;
        std::mem::forget(limiter.reserve("ann", 20).await);
        assert_eq!(remaining(&limiter).await, 50, "{algorithm:?}");
    }
}

#[tokio::test]
async fn costs_at_the_edges() {
    let server = testbed::Redis::start();
    let redis = connect(Config::single(server.address())).await;
    for (number, algorithm) in algorithms().into_iter().enumerate() {
        let limiter = hundred_a_year(&redis, &number.to_string(), algorithm);
        for never in [101, u64::from(u32::MAX) + 1, u64::MAX] {
            let denial = limiter.reserve("ann", never).await.unwrap_err();
            assert_eq!(denial.wait, Wait::Never, "{algorithm:?}");
        }
        assert_eq!(remaining(&limiter).await, 100);
        let nothing = limiter.reserve("ann", 0).await.unwrap();
        assert_eq!((nothing.estimate(), nothing.remaining()), (0, 100));
        assert_eq!(nothing.settle(7).await.charged, 7);
        assert_eq!(
            limiter
                .reserve("ann", 0)
                .await
                .unwrap()
                .settle(0)
                .await
                .charged,
            0
        );
        drop(limiter.reserve("ann", 0).await.unwrap());
        let all = limiter.reserve("ann", 93).await.unwrap();
        let denial = limiter.reserve("ann", 0).await.unwrap_err();
        assert_eq!(denial.remaining, 0, "no unit is left");
        assert!(matches!(denial.wait, Wait::For(_)));
        assert_eq!(all.settle(93).await.charged, 93);
        assert_eq!(remaining(&limiter).await, 0, "{algorithm:?}");
    }
}

#[tokio::test]
async fn requests_with_priority_reserve_the_share() {
    let server = testbed::Redis::start();
    let redis = connect(Config::single(server.address())).await;
    let limit = Limit::per_day(100).priority_share(20);
    let limiter = redis.limiter("api", limit).unwrap();
    assert!(limiter.reserve("ann", 81).await.is_err());
    let reservation = limiter.reserve_with_priority("ann", 81).await.unwrap();
    assert_eq!(reservation.settle(95).await.charged, 95);
    let reservation = limiter.reserve_with_priority("ann", 1).await.unwrap();
    assert_eq!(reservation.settle(1).await.remaining, 4);
}

#[tokio::test]
async fn a_replaced_limit_settles_under_the_new_one() {
    let server = testbed::Redis::start();
    let redis = connect(Config::single(server.address())).await;
    let limiter = redis.limiter("api", Limit::per_day(100)).unwrap();
    let [fewer, other] = [
        limiter.reserve("ann", 40).await.unwrap(),
        limiter.reserve("bob", 40).await.unwrap(),
    ];
    limiter.set_limit(Limit::per_day(50)).unwrap();
    let settlement = fewer.settle(10).await;
    assert!((10..=11).contains(&settlement.charged), "{settlement:?}");
    // Which of its units were reserved is not known.
    let log = Limit::per_day(50).counted_by(Algorithm::SlidingLog);
    limiter.set_limit(log).unwrap();
    assert_eq!(other.settle(10).await.charged, 40);
}

#[tokio::test]
async fn local_counts_have_no_reservations() {
    let server = testbed::Redis::start();
    let redis = connect(Config::single(server.address())).await;
    let limiter = redis.limiter("api", Limit::per_day(100)).unwrap();
    let limiter = limiter.mode(Mode::WriteBack);
    let error = limiter.try_reserve("ann", 1).await.unwrap_err();
    assert!(matches!(error, StoreError::Unfit { .. }), "{error}");
    let denial = limiter.reserve("ann", 1).await.unwrap_err();
    assert_eq!(denial.wait, Wait::For(FAILURE_WAIT.into()));
    assert_eq!(limiter.failures(), 1);
    assert_eq!(remaining(&limiter).await, 100);
}

#[tokio::test]
async fn what_redis_has_lost_is_not_settled() {
    let server = testbed::Redis::start();
    let redis = connect(Config::single(server.address())).await;
    let limiter = hundred_a_year(&redis, "api", Algorithm::SlidingLog);
    let reservations = [40, 10].map(|units| limiter.reserve("ann", units));
    let [first, second] = reservations;
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    server.ask(&["FLUSHALL"]);
    assert!(limiter.check_n("ann", 30).await.is_allowed());
    let error = first.try_settle(5).await.unwrap_err();
    assert!(matches!(error, SettleError::Expired), "{error}");
    let settlement = second.settle(90).await;
    assert_eq!((settlement.charged, limiter.failures()), (10, 1));
    assert_eq!(remaining(&limiter).await, 70, "units of others");
}
