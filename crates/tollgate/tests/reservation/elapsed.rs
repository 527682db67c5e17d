//! A refund after some time: only units that still count are refunded.

use tollgate::{Algorithm, Anchor, Limit, Moment, Now, Segments, Span};

use super::{hundred_an_hour, remaining, small};

const MINUTE: Span = Span::MINUTE;

fn minutes(minutes: u64) -> Span {
    MINUTE.times(minutes)
}

#[test]
fn a_window_that_is_over_refunds_nothing_to_the_next() {
    for anchor in [Anchor::Clock, Anchor::FirstRequest] {
        let (clock, limiter) = hundred_an_hour(Algorithm::FixedWindow(anchor));
        let dropped = limiter.reserve("ann", 40).unwrap();
        let settled = limiter.reserve("ann", 40).unwrap();
        clock.advance(Span::HOUR);
        assert!(limiter.check_n("ann", 90).is_allowed());
        drop(dropped);
        assert_eq!(remaining(&limiter), 10, "{anchor:?}");
        let settlement = settled.settle(5);
        assert_eq!((settlement.charged, settlement.remaining), (40, 10));
    }
}

#[test]
fn a_window_gives_its_units_back_until_its_last_nanosecond() {
    for anchor in [Anchor::Clock, Anchor::FirstRequest] {
        let (clock, limiter) = hundred_an_hour(Algorithm::FixedWindow(anchor));
        let reservation = limiter.reserve("ann", 40).unwrap();
        assert!(limiter.check("ann").is_allowed());
        let end: Span = reservation.decision().reset();
        clock.advance(end.minus(Span::NANOSECOND));
        drop(reservation);
        assert_eq!(remaining(&limiter), 99, "{anchor:?}");
    }
}

#[test]
fn the_excess_is_charged_to_the_window_in_which_it_is_settled() {
    for anchor in [Anchor::Clock, Anchor::FirstRequest] {
        let (clock, limiter) = hundred_an_hour(Algorithm::FixedWindow(anchor));
        let reservation = limiter.reserve("ann", 40).unwrap();
        clock.advance(Span::HOUR);
        assert_eq!(reservation.settle(50).charged, 50);
        assert_eq!(remaining(&limiter), 90, "{anchor:?}");
    }
}

/// If the newest units were refunded, those of the reservation would stay and leave the window
/// early: 150 units within an hour, under a limit of 100.
#[test]
fn a_log_refunds_the_units_that_were_reserved_not_the_newest() {
    let (clock, limiter) = hundred_an_hour(Algorithm::SlidingLog);
    let reservation = limiter.reserve("ann", 50).unwrap();
    clock.advance(minutes(59));
    assert!(limiter.check_n("ann", 50).is_allowed());
    drop(reservation);
    assert_eq!(remaining(&limiter), 50);
    clock.advance(MINUTE);
    assert_eq!(remaining(&limiter), 50);
    clock.advance(minutes(58));
    assert!(!limiter.check_n("ann", 51).is_allowed());
    clock.advance(MINUTE);
    assert!(limiter.check_n("ann", 100).is_allowed());
}

#[test]
fn a_log_refunds_nothing_that_has_left_the_window() {
    let (clock, limiter) = hundred_an_hour(Algorithm::SlidingLog);
    let reservation = limiter.reserve("ann", 50).unwrap();
    clock.advance(minutes(59));
    assert!(limiter.check_n("ann", 50).is_allowed());
    clock.advance(MINUTE);
    assert_eq!(reservation.settle(0).charged, 50);
    assert_eq!(remaining(&limiter), 50);
}

#[test]
fn a_log_refunds_in_the_midst_of_many_entries() {
    let (clock, builder) = small(Limit::per_hour(1_000).counted_by(Algorithm::SlidingLog));
    let limiter = builder.build();
    let mut reservations = Vec::new();
    for number in 0..300 {
        clock.advance(Span::from_nanos(1 << (number % 30)));
        assert!(limiter.check("ann").is_allowed());
        reservations.push(limiter.reserve("ann", 1 + number % 3).unwrap());
    }
    let used = |limiter| 1_000 - remaining(limiter);
    assert_eq!(used(&limiter), 300 + 600);
    for (number, reservation) in reservations.into_iter().enumerate() {
        match number % 2 {
            0 => drop(reservation),
            _ => assert_eq!(reservation.settle(1).charged, 1),
        }
    }
    assert_eq!(used(&limiter), 300 + 150);
    // What is left leaves the window in the order in which it was charged.
    clock.advance(Span::HOUR.minus(Span::NANOSECOND));
    assert!((1..450).contains(&used(&limiter)));
    clock.advance(Span::NANOSECOND);
    assert_eq!(used(&limiter), 0);
}

#[test]
fn a_sliding_window_refunds_the_segment_that_was_charged() {
    for segments in [1, 60] {
        let segments = Segments::new(segments).unwrap();
        let (clock, limiter) = hundred_an_hour(Algorithm::SlidingWindow(segments));
        let reservation = limiter.reserve("ann", 50).unwrap();
        clock.advance(minutes(40));
        assert!(limiter.check_n("ann", 30).is_allowed());
        drop(reservation);
        assert_eq!(remaining(&limiter), 70, "{segments:?}");
        // As if it had never been made: the 30 units count in full until an hour is over.
        clock.advance(minutes(30));
        assert_eq!(remaining(&limiter), 70, "{segments:?}");
    }
}

#[test]
fn a_sliding_window_refunds_nothing_that_has_left_it() {
    for segments in [1, 60] {
        let segments = Segments::new(segments).unwrap();
        let (clock, limiter) = hundred_an_hour(Algorithm::SlidingWindow(segments));
        let reservation = limiter.reserve("ann", 50).unwrap();
        clock.advance(minutes(121));
        assert!(limiter.check_n("ann", 30).is_allowed());
        assert_eq!(reservation.settle(0).charged, 50);
        assert_eq!(remaining(&limiter), 70, "{segments:?}");
    }
}

#[test]
fn a_bucket_refunds_no_unit_that_has_refilled() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let (clock, limiter) = hundred_an_hour(algorithm);
        let reservation = limiter.reserve("ann", 40).unwrap();
        // A unit refills in 36 seconds: 30 of the 40 have.
        clock.advance(minutes(18));
        assert!(limiter.check_n("ann", 50).is_allowed());
        assert_eq!(remaining(&limiter), 40);
        assert_eq!(reservation.settle(0).charged, 30);
        assert_eq!(remaining(&limiter), 50, "{algorithm:?}");
    }
}

#[test]
fn a_bucket_that_is_busy_refunds_all() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let (clock, limiter) = hundred_an_hour(algorithm);
        assert!(limiter.check_n("ann", 30).is_allowed());
        let reservation = limiter.reserve("ann", 40).unwrap();
        // These units refill only after the 30 that were consumed before.
        clock.advance(minutes(18));
        assert_eq!(reservation.settle(5).charged, 5);
        assert_eq!(remaining(&limiter), 95, "{algorithm:?}");
    }
}

#[test]
fn a_bucket_that_was_full_meanwhile_refunds_nothing() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let (clock, limiter) = hundred_an_hour(algorithm);
        let reservation = limiter.reserve("ann", 40).unwrap();
        clock.advance(minutes(24));
        assert!(limiter.check_n("ann", 100).is_allowed());
        drop(reservation);
        assert_eq!(remaining(&limiter), 0, "{algorithm:?}");
    }
}

#[test]
fn a_fraction_of_a_unit_is_not_lost() {
    let (clock, limiter) = hundred_an_hour(Algorithm::TokenBucket);
    let reservation = limiter.reserve("ann", 100).unwrap();
    clock.advance(Span::NANOSECOND);
    // 99 units and nearly another were refunded: nothing of that one stays charged.
    assert_eq!(reservation.settle(0).charged, 0);
    assert_eq!(remaining(&limiter), 100);
}

#[test]
fn a_unit_that_has_refilled_is_charged_and_one_that_refills_is_not() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let (clock, limiter) = hundred_an_hour(algorithm);
        let reservation = limiter.reserve("ann", 10).unwrap();
        // A unit takes 36 seconds: two have refilled, and a third one in part.
        clock.advance(Span::from_secs(100));
        assert_eq!(reservation.settle(4).charged, 4, "{algorithm:?}");
        let reservation = limiter.reserve("bob", 10).unwrap();
        clock.advance(Span::from_secs(100));
        assert_eq!(reservation.settle(0).charged, 2, "{algorithm:?}");
    }
}

#[test]
fn a_clock_that_goes_back_refunds_nothing_that_others_consumed() {
    for algorithm in super::algorithms() {
        for back_to in [Span::ZERO, Span::DAY.minus(minutes(30)), Span::DAY] {
            let (clock, limiter) = hundred_an_hour(algorithm);
            let reservation = limiter.reserve("ann", 40).unwrap();
            clock.set(Now::at(Moment::ZERO + back_to));
            let consumed = u32::from(limiter.check_n("ann", 60).is_allowed()) * 60;
            let remaining = reservation.settle(30).remaining;
            assert!(remaining + 30 + consumed <= 100, "{algorithm:?}");
        }
    }
}

#[test]
fn a_clock_that_jumps_ahead_refunds_nothing() {
    for algorithm in super::algorithms() {
        let (clock, limiter) = hundred_an_hour(algorithm);
        let reservation = limiter.reserve("ann", 40).unwrap();
        clock.advance(Span::DAY.times(100));
        assert!(limiter.check_n("ann", 60).is_allowed());
        assert_eq!(reservation.settle(0).remaining, 40, "{algorithm:?}");
    }
}
