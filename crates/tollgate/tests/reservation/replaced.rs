//! Reservations whose limit was replaced, or whose key was reset, before they are settled.

use tollgate::{Algorithm, Limit, Span};

use super::{algorithms, hundred_an_hour, remaining};

#[test]
fn a_smaller_limit_gets_the_refund() {
    for algorithm in algorithms() {
        let (_, limiter) = hundred_an_hour(algorithm);
        let reservation = limiter.reserve("ann", 80).unwrap();
        limiter.set_limit(Limit::per_hour(50).counted_by(algorithm));
        assert_eq!(remaining(&limiter), 0);
        assert_eq!(reservation.settle(10).charged, 10);
        assert_eq!(remaining(&limiter), 40, "{algorithm:?}");
    }
}

#[test]
fn a_refund_never_exceeds_a_smaller_limit() {
    for algorithm in algorithms() {
        let (_, limiter) = hundred_an_hour(algorithm);
        assert!(limiter.check_n("ann", 20).is_allowed());
        let reservation = limiter.reserve("ann", 80).unwrap();
        limiter.set_limit(Limit::per_hour(5).counted_by(algorithm));
        drop(reservation);
        assert_eq!(remaining(&limiter), 0, "{algorithm:?}");
        limiter.set_limit(Limit::per_hour(100).counted_by(algorithm));
        assert_eq!(remaining(&limiter), 80, "{algorithm:?}");
    }
}

#[test]
fn a_larger_limit_gets_the_refund() {
    for algorithm in algorithms() {
        let (_, limiter) = hundred_an_hour(algorithm);
        assert!(limiter.check_n("ann", 20).is_allowed());
        let reservation = limiter.reserve("ann", 80).unwrap();
        limiter.set_limit(Limit::per_hour(200).counted_by(algorithm));
        assert_eq!(remaining(&limiter), 100);
        assert_eq!(reservation.settle(30).charged, 30);
        assert_eq!(remaining(&limiter), 150, "{algorithm:?}");
    }
}

#[test]
fn a_limit_of_nothing_gets_the_refund() {
    for algorithm in algorithms() {
        let (_, limiter) = hundred_an_hour(algorithm);
        let dropped = limiter.reserve("ann", 30).unwrap();
        let exceeded = limiter.reserve("ann", 30).unwrap();
        limiter.set_limit(Limit::per_hour(0).counted_by(algorithm));
        drop(dropped);
        assert_eq!(exceeded.settle(50).charged, 30);
        limiter.set_limit(Limit::per_hour(100).counted_by(algorithm));
        assert_eq!(remaining(&limiter), 70, "{algorithm:?}");
    }
}

#[test]
fn the_excess_is_charged_to_the_new_limit() {
    for algorithm in algorithms() {
        let (_, limiter) = hundred_an_hour(algorithm);
        let reservation = limiter.reserve("ann", 30).unwrap();
        limiter.set_limit(Limit::per_hour(50).counted_by(algorithm));
        assert_eq!(reservation.settle(90).charged, 50);
        assert_eq!(remaining(&limiter), 0, "{algorithm:?}");
    }
}

#[test]
fn another_window_or_algorithm_gets_no_refund() {
    for algorithm in algorithms() {
        let (_, limiter) = hundred_an_hour(algorithm);
        let reservation = limiter.reserve("ann", 30).unwrap();
        let other = match algorithm {
            Algorithm::SlidingLog => Algorithm::TokenBucket,
            _ => Algorithm::SlidingLog,
        };
        limiter.set_limit(Limit::per_day(100).counted_by(other));
        assert_eq!(reservation.settle(0).charged, 30);
        assert_eq!(remaining(&limiter), 70, "{algorithm:?}");
    }
}

#[test]
fn a_rate_that_was_faster_meanwhile_has_refilled_the_units() {
    let bucket = Algorithm::TokenBucket;
    let (clock, limiter) = hundred_an_hour(bucket);
    let reservation = limiter.reserve("ann", 40).unwrap();
    limiter.set_limit(Limit::per_minute(100).counted_by(bucket));
    // Under this limit, the bucket is full again.
    assert_eq!(remaining(&limiter), 60);
    clock.advance(Span::MINUTE);
    assert!(limiter.check_n("ann", 100).is_allowed());
    limiter.set_limit(Limit::per_hour(100).counted_by(bucket));
    drop(reservation);
    assert_eq!(remaining(&limiter), 0);
}

#[test]
fn a_key_that_was_reset_is_refunded_nothing() {
    for algorithm in algorithms() {
        let (_, limiter) = hundred_an_hour(algorithm);
        let reservation = limiter.reserve("ann", 40).unwrap();
        limiter.reset("ann");
        assert_eq!(reservation.settle(0).remaining, 100, "{algorithm:?}");
        let reservation = limiter.reserve("ann", 40).unwrap();
        limiter.reset("ann");
        assert_eq!(reservation.settle(60).charged, 60);
        assert_eq!(remaining(&limiter), 80, "{algorithm:?}");
    }
}
