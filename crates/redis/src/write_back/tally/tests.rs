#![allow(clippy::unwrap_used)]

use tollgate_behaviour::check;
use tollgate_core::{Cost, FixedWindow, OnDenial, step};

use super::*;

fn at(micros: u64) -> Moment {
    moment(1_000_000 + micros)
}

/// The reported parts of a bucket turn the state before into the state that the decisions made.
#[test]
fn a_bucket_s_parts_are_what_was_done() {
    check("a_bucket_s_parts_are_what_was_done", 2_000, |random| {
        let limit = Limit::token_bucket(1, Span::from_nanos(5_000)).unwrap();
        let limit = limit.with_burst(8).unwrap();
        let fitted = FittedLimit::new(&limit).unwrap();
        let mut tally = Tally::fresh(&limit);
        let reply = Bucket::full_at(at(random.between(0, 40)));
        tally.apply_reply(Snapshot::Account(Account::Bucket(reply)), &fitted, at(0));
        let mut now = at(0);
        for _ in 0..random.between(1, 30) {
            now = now + GRAIN.times(random.between(0, 12));
            let cost = Cost::Take(random.between(1, 3));
            let on_denial = random.pick(&[OnDenial::Keep, OnDenial::Keep, OnDenial::Charge]);
            let mut counting = Counting {
                tally: &mut tally,
                fitted: &fitted,
            };
            let _whatever = step(&mut counting, &limit, now, cost, on_denial);
        }
        let Count::Bucket(end) = tally.count else {
            panic!("a bucket")
        };
        let (_, parts) = tally.gather();
        let mut replayed = Tally::fresh(&limit);
        replayed.parts = parts;
        replayed.apply_reply(Snapshot::Account(Account::Bucket(reply)), &fitted, at(0));
        let Count::Bucket(again) = replayed.count else {
            panic!("a bucket")
        };
        let full = |bucket: Bucket| Moment::from_nanos(bucket.word()).max(now);
        assert_eq!(full(again), full(end));
    });
}

#[test]
fn what_was_not_sent_is_one_report_with_what_came_later() {
    let limit = Limit::token_bucket(1, Span::from_nanos(5_000)).unwrap();
    let limit = limit.with_burst(100).unwrap();
    let fitted = FittedLimit::new(&limit).unwrap();
    let take = |tally: &mut Tally, micros: u64, units: u64| {
        let mut counting = Counting {
            tally,
            fitted: &fitted,
        };
        let decision = step(
            &mut counting,
            &limit,
            at(micros),
            Cost::Take(units),
            OnDenial::Keep,
        );
        assert!(decision.is_allowed());
    };
    let (mut once, mut twice) = (Tally::fresh(&limit), Tally::fresh(&limit));
    for tally in [&mut once, &mut twice] {
        take(tally, 0, 3);
    }
    let (_, unsent) = twice.gather();
    for tally in [&mut once, &mut twice] {
        take(tally, 7, 2);
        take(tally, 100, 1);
    }
    twice.put_back(&fitted, unsent);
    assert_eq!(once.gather(), twice.gather());
}

#[test]
fn a_window_that_owes_is_begun_with_what_is_left() {
    let limit = Limit::fixed_window(10, Span::SECOND).unwrap();
    let fitted = FittedLimit::new(&limit).unwrap();
    let second = |seconds: u64| Moment::ZERO + Span::from_secs(seconds);
    let mut tally = Tally::fresh(&limit);
    let reply = MarkedWindow::new(FixedWindow::new(second(5), 37), 10);
    tally.apply_reply(Snapshot::Marked(reply), &fitted, second(4));
    let half = Span::from_millis(500);
    for (now, remaining, wait) in [
        (second(4) + half, 0, 3_500),
        (second(5), 0, 3_000),
        (second(6) + half, 0, 1_500),
        (second(7), 3, 0),
        (second(8), 10, 0),
    ] {
        let mut counting = Counting {
            tally: &mut tally,
            fitted: &fitted,
        };
        counting.settle(&limit, now);
        assert_eq!(counting.remaining(&limit, now), remaining, "{now:?}");
        let units = if remaining == 0 { 10 } else { 1 };
        assert_eq!(
            counting.wait(&limit, now, units),
            Span::from_millis(wait),
            "{now:?}"
        );
    }
}

#[test]
fn parts_of_windows_long_over_are_dropped() {
    let limit = Limit::sliding_window(100, Span::SECOND, 10).unwrap();
    let fitted = FittedLimit::new(&limit).unwrap();
    let mut tally = Tally::fresh(&limit);
    for tenth in 0..100 {
        let now = Moment::ZERO + Span::from_millis(100 * tenth);
        let mut counting = Counting {
            tally: &mut tally,
            fitted: &fitted,
        };
        let decision = step(&mut counting, &limit, now, Cost::ONE, OnDenial::Keep);
        assert!(decision.is_allowed());
    }
    let (_, parts) = tally.gather();
    assert_eq!(parts.len(), 11);
    assert_eq!(parts[0], Part { at: 89, units: 1 });
}
