//! Reservations in virtual time: what they charge, what they refund, and that nothing is left over.

#![allow(clippy::unwrap_used)]

mod account;

#[cfg(feature = "async")]
mod cancellation;

mod elapsed;

mod joint;

mod replaced;

use std::sync::Arc;

use tollgate::{Algorithm, Anchor, Builder, Limit, Limiter, ManualClock, Segments, Span, Wait};

type TestClock = Arc<ManualClock>;

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

/// A clock that starts half an hour into a day, and a limiter of 100 units an hour.
fn hundred_an_hour(algorithm: Algorithm) -> (TestClock, Limiter<TestClock>) {
    let (clock, builder) = small(Limit::per_hour(100).counted_by(algorithm));
    (clock, builder.build())
}

fn small(limit: Limit) -> (TestClock, Builder<TestClock>) {
    let clock = Arc::new(ManualClock::default());
    clock.advance(Span::DAY + Span::from_secs(1_800));
    let builder = Limiter::builder(limit).max_keys(100);
    (Arc::clone(&clock), builder.clock(clock))
}

fn remaining(limiter: &Limiter<TestClock>) -> u32 {
    limiter.peek("ann", 1).remaining()
}

#[test]
fn a_settled_reservation_charges_what_was_used() {
    for algorithm in algorithms() {
        let (_, limiter) = hundred_an_hour(algorithm);
        let reservation = limiter.reserve("ann", 40).unwrap();
        assert_eq!((reservation.estimate(), reservation.remaining()), (40, 60));
        let settlement = reservation.settle(15);
        assert_eq!((settlement.charged, settlement.remaining), (15, 85));
        assert_eq!(remaining(&limiter), 85, "{algorithm:?}");
        assert_eq!(limiter.peek("bob", 1).remaining(), 100);
    }
}

#[test]
fn a_dropped_reservation_charges_nothing() {
    for algorithm in algorithms() {
        let (_, limiter) = hundred_an_hour(algorithm);
        assert!(limiter.check_n("ann", 30).is_allowed());
        let reservation = limiter.reserve("ann", 70).unwrap();
        assert_eq!(remaining(&limiter), 0);
        drop(reservation);
        assert_eq!(remaining(&limiter), 70, "{algorithm:?}");
    }
}

#[test]
fn the_estimate_of_a_leaked_reservation_stays_charged() {
    for algorithm in algorithms() {
        let (_, limiter) = hundred_an_hour(algorithm);
        std::mem::forget(limiter.reserve("ann", 70).unwrap());
        assert_eq!(remaining(&limiter), 30, "{algorithm:?}");
    }
}

#[test]
fn a_panic_refunds_the_reservation() {
    let (_, limiter) = hundred_an_hour(Algorithm::TokenBucket);
    let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _reservation = limiter.reserve("ann", 70).unwrap();
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(answer.is_err());
    assert_eq!(remaining(&limiter), 100);
}

#[test]
fn more_than_the_estimate_is_charged_where_the_limit_would_deny_it() {
    for algorithm in algorithms() {
        let (_, limiter) = hundred_an_hour(algorithm);
        let others = limiter.reserve("ann", 30).unwrap();
        let settlement = limiter.reserve("ann", 40).unwrap().settle(60);
        assert_eq!((settlement.charged, settlement.remaining), (60, 10));
        // Ten fit beside the estimate, which is charged already.
        let settlement = limiter.reserve("ann", 5).unwrap().settle(u64::MAX);
        assert_eq!((settlement.charged, settlement.remaining), (10, 0));
        assert!(!limiter.check("ann").is_allowed(), "{algorithm:?}");
        assert_eq!(others.settle(0).remaining, 30, "{algorithm:?}");
    }
}

#[test]
fn an_exhausted_limit_charges_no_excess_and_is_not_exhausted_for_longer() {
    for algorithm in algorithms() {
        let (_, limiter) = hundred_an_hour(algorithm);
        let reservation = limiter.reserve("ann", 100).unwrap();
        let before = limiter.peek("ann", 1);
        let settlement = reservation.settle(u64::MAX);
        assert_eq!((settlement.charged, settlement.remaining), (100, 0));
        assert_eq!(limiter.peek("ann", 1), before, "{algorithm:?}");
    }
}

#[test]
fn an_estimate_of_nothing_is_settled_like_any_other() {
    for algorithm in algorithms() {
        let (_, limiter) = hundred_an_hour(algorithm);
        let reservation = limiter.reserve("ann", 0).unwrap();
        assert_eq!((reservation.estimate(), reservation.remaining()), (0, 100));
        assert_eq!(reservation.settle(7).charged, 7);
        drop(limiter.reserve("ann", 0).unwrap());
        assert_eq!(limiter.reserve("ann", 0).unwrap().settle(0).charged, 0);
        assert_eq!(remaining(&limiter), 93, "{algorithm:?}");
        assert!(limiter.check_n("ann", 93).is_allowed());
        assert!(limiter.reserve("ann", 0).is_err(), "no unit is left");
    }
}

#[test]
fn a_denied_reservation_charges_nothing() {
    for algorithm in algorithms() {
        let (clock, limiter) = hundred_an_hour(algorithm);
        assert_eq!(limiter.reserve("ann", 101).unwrap_err().wait, Wait::Never);
        assert!(limiter.check_n("ann", 80).is_allowed());
        let denial = limiter.reserve("ann", 21).unwrap_err();
        assert_eq!(denial.remaining, 20, "{algorithm:?}");
        let Wait::For(wait) = denial.wait else {
            panic!("it fits later");
        };
        clock.advance(wait.minus(Span::NANOSECOND));
        assert!(limiter.reserve("ann", 21).is_err(), "{algorithm:?}");
        clock.advance(Span::NANOSECOND);
        assert!(limiter.reserve("ann", 21).is_ok(), "{algorithm:?}");
    }
}

#[test]
fn a_limit_of_nothing_reserves_nothing() {
    for algorithm in algorithms() {
        let (_, builder) = small(Limit::per_hour(0).counted_by(algorithm));
        let limiter = builder.build();
        assert!(limiter.reserve("ann", 0).is_err());
        assert!(limiter.reserve("ann", 1).is_err());
    }
}

#[test]
fn the_delay_of_a_leaky_bucket_is_in_the_decision() {
    let (_, limiter) = hundred_an_hour(Algorithm::LeakyBucket);
    let first = limiter.reserve("ann", 10).unwrap();
    let second = limiter.reserve("ann", 1).unwrap();
    assert!(first.decision().delay().is_zero());
    assert_eq!(second.decision().delay().as_secs(), 360);
}

#[test]
fn a_reservation_outlives_its_scope_if_it_shares_the_limiter() {
    let (_, limiter) = hundred_an_hour(Algorithm::TokenBucket);
    let limiter = Arc::new(limiter);
    let reservation = limiter.reserve_owned("ann", 40).unwrap();
    let settled = std::thread::spawn(move || reservation.settle(10));
    assert_eq!(settled.join().unwrap().remaining, 90);
}

#[test]
fn a_single_counter_reserves_too() {
    let (_, builder) = small(Limit::per_hour(100));
    let single = builder.build_single();
    assert_eq!(single.reserve(40).unwrap().settle(1).remaining, 99);
    drop(single.reserve(99).unwrap());
    assert_eq!(single.peek(1).remaining(), 99);
}
