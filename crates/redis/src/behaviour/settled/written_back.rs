//! Reservations of keys that a reload has taken from mode `write_back`, or has given to it.

use std::future::poll_fn;
use std::task::Poll;

use tollgate_behaviour::{Subject, Taste};
use tollgate_core::{Charge, Cost, Key, Limit, Mode, SettledCharge, Settlement, Sharing, Span};

use crate::behaviour::{Driven, SINGLE};
use crate::config::Config;

/// A store that reports nothing by itself during a test.
fn driven() -> Driven {
    let store = Driven::new(&Config {
        sync_interval: Span::from_secs(10),
        ..Config::single(SINGLE.address())
    });
    let now = Taste::MICROSECONDS.start;
    store.store.set_now(now.utc.as_nanos() / 1_000);
    store
}

fn limit() -> Limit {
    Limit::fixed_window(100, Span::HOUR).expect("a limit")
}

impl Driven {
    /// Counts this many units here.
    fn count_here(&mut self, key: Key, units: u64) {
        let limit = limit();
        for _ in 0..units {
            let charge = Charge::new(key, &limit, Cost::ONE);
            let charge = charge.shared(Sharing::in_mode(Mode::WriteBack));
            let verdict = self.decide(Taste::MICROSECONDS.start, &[charge]);
            assert!(verdict.is_allowed());
        }
    }
}

/// The rule was in mode `write_back` until now.
#[test]
fn a_reservation_is_decided_with_what_was_counted_here() {
    let mut redis = driven();
    let (key, limit) = (redis.key("reserved"), limit());
    redis.count_here(key, 50);
    let charge = |units| Charge::new(key, &limit, Cost::Take(units));
    let (verdict, record) = redis.reserve(&[charge(60)], 1);
    assert!(!verdict.is_allowed() && record.is_none());
    let (verdict, record) = redis.reserve(&[charge(50)], 2);
    assert_eq!(verdict.decisions[0].remaining(), 0);
    assert!(record.is_some());
}

/// The rule was in mode `write_back` for a while after the reservation.
#[test]
fn a_settlement_beyond_the_estimate_is_charged_what_was_not_counted_here() {
    let mut redis = driven();
    let (key, limit) = (redis.key("settled"), limit());
    let charge = |units| Charge::new(key, &limit, Cost::Take(units));
    let (_, record) = redis.reserve(&[charge(10)], 3);
    redis.count_here(key, 50);
    let charge = charge(100);
    let line = SettledCharge { line: 0, charge };
    let settled = redis.settle(record.expect("it is allowed"), &[line]);
    assert_eq!(settled, Some(vec![Settlement::new(50, 0)]));
}

/// The rule is in mode `write_back` since the reservation, and the count here has all units used.
#[test]
fn refunded_units_are_counted_here() {
    let mut redis = driven();
    let (key, limit) = (redis.key("refunded"), limit());
    let charge = |units| Charge::new(key, &limit, Cost::Take(units));
    let (_, record) = redis.reserve(&[charge(60)], 4);
    redis.count_here(key, 40);
    let charge = charge(10);
    let line = SettledCharge { line: 0, charge };
    let settled = redis.settle(record.expect("it is allowed"), &[line]);
    assert_eq!(settled, Some(vec![Settlement::new(10, 50)]));
    redis.count_here(key, 50);
}

/// The rule is in mode `write_back` since the reservation. While the settlement is in flight, no
/// reply starts a count here: it could lack the settled units.
#[test]
fn a_count_that_starts_beside_a_settlement_has_the_settled_units() {
    let mut redis = driven();
    let (key, limit) = (redis.key("beside"), limit());
    let (_, record) = redis.reserve(&[Charge::new(key, &limit, Cost::Take(10))], 5);
    let record = record.expect("it is allowed");
    let written_back = |units| {
        let charge = Charge::new(key, &limit, Cost::Take(units));
        charge.shared(Sharing::in_mode(Mode::WriteBack))
    };
    let charge = written_back(60);
    let lines = [SettledCharge { line: 0, charge }];
    let one = [written_back(1)];
    let store = &redis.store;
    redis.runtime.block_on(async {
        let mut settled = Box::pin(store.settle_kept(record, &lines));
        let mut decided = Box::pin(store.decide(&one));
        poll_fn(|context| {
            assert!(settled.as_mut().poll(context).is_pending());
            assert!(decided.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        assert!(decided.await.expect("Redis answers").is_allowed());
        let settled = settled.await.expect("Redis answers").expect("it is open");
        assert_eq!(settled[0].charged, 60);
    });
    let verdict = redis.decide(Taste::MICROSECONDS.start, &one);
    assert_eq!(verdict.decisions[0].remaining(), 38);
}
