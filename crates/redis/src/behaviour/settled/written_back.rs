//! Reservations of keys that a reload has taken from mode `write_back`, or has given to it.

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
