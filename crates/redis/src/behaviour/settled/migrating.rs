//! Reservations of limits whose slot migrates.

use std::sync::LazyLock;

use tollgate_behaviour::{Subject, Taste, algorithms};
use tollgate_core::{Charge, Cost, Key, Limit, SettledCharge, Settlement, Span, StoreError};
use tollgate_testbed as testbed;

use super::new;
use crate::behaviour::Driven;
use crate::behaviour::servers::Migration;
use crate::config::Config;

/// Slots migrate here.
static MIGRATING: LazyLock<testbed::Cluster> = LazyLock::new(testbed::Cluster::start);

const NOW: tollgate_core::Now = Taste::MICROSECONDS.start;

fn connect() -> Driven {
    let driven = Driven::new(&Config::cluster(MIGRATING.addresses()));
    driven.store.set_now(NOW.utc.as_nanos() / 1_000);
    driven
}

impl Driven {
    /// Settles a reservation of one limit to one unit, once.
    fn settle_to_one(&self, record: Key, (key, limit): (Key, &Limit), remaining: u32) {
        let found = self.runtime.block_on(self.store.find_kept(record));
        assert!(found.expect("Redis answers").is_some());
        let charge = Charge::new(key, limit, Cost::ONE);
        let lines = [SettledCharge { line: 0, charge }];
        let settled = self.settle(record, &lines);
        assert_eq!(
            settled,
            Some(vec![Settlement::new(1, remaining)]),
            "{limit}"
        );
        assert_eq!(self.settle(record, &lines), None, "{limit}");
    }
}

/// Redis answers `TRYAGAIN` to a call with a counter and a new reservation, at either node.
#[test]
fn a_reservation_is_made_and_settled_once_while_its_slot_migrates() {
    for algorithm in algorithms() {
        let mut redis = connect();
        let limit = Limit::new(algorithm, 100, Span::HOUR).expect("a limit");
        let key = redis.key("migrating");
        let counter = redis.store.name_of(key);
        let mut secret = 0;
        let mut reserve = |redis: &Driven| {
            secret += 1;
            let charge = Charge::new(key, &limit, Cost::Take(10));
            let (verdict, record) = redis.reserve(&[charge], secret);
            assert!(verdict.is_allowed(), "{limit}");
            record.expect("it is kept")
        };
        let before = [(); 3].map(|()| reserve(&redis));
        let migration = Migration::begin(&MIGRATING, key);
        let during = [(); 3].map(|()| reserve(&redis));
        redis.settle_to_one(before[0], (key, &limit), 49);
        redis.settle_to_one(during[0], (key, &limit), 58);
        migration.move_key(&counter);
        let after = [(); 2].map(|()| reserve(&redis));
        // Its record is still at the source.
        redis.settle_to_one(before[1], (key, &limit), 47);
        redis.settle_to_one(during[1], (key, &limit), 56);
        redis.settle_to_one(after[0], (key, &limit), 65);
        // A denied request has none.
        let charge = Charge::new(key, &limit, Cost::Take(66));
        let (verdict, record) = redis.reserve(&[charge], 99);
        assert_eq!((verdict.is_allowed(), record), (false, None), "{limit}");
        migration.move_key(&redis.store.name_of(before[2]));
        migration.end();
        redis.settle_to_one(before[2], (key, &limit), 74);
        redis.settle_to_one(during[2], (key, &limit), 83);
        redis.settle_to_one(after[1], (key, &limit), 92);
    }
}

/// Several limits of one slot, of which one has moved. Nothing is decided beside Redis's counts.
#[test]
fn reservations_of_limits_on_two_nodes_are_contended_and_settled() {
    let mut redis = connect();
    let limit = Limit::fixed_window(100, Span::HOUR).expect("a limit");
    let [one, other] = ["one", "other"].map(|name| redis.key(name));
    let charges = [one, other].map(|key| Charge::new(key, &limit, Cost::Take(10)));
    let (_, record) = redis.reserve(&charges, 1);
    let migration = Migration::begin(&MIGRATING, one);
    // Both limits are at one node.
    let (_, second) = redis.reserve(&charges, 2);
    migration.move_key(&redis.store.name_of(one));
    let new = new(3);
    let reserved = redis.store.reserve_kept(&charges, &new);
    let reserved = redis.runtime.block_on(reserved);
    let error = reserved.err();
    assert!(matches!(error, Some(StoreError::Contended)), "{error:?}");
    for (record, remaining) in [(record, 90), (second, 100)] {
        let lines = [(1, other), (0, one)].map(|(line, key)| SettledCharge {
            line,
            charge: Charge::new(key, &limit, Cost::Take(0)),
        });
        let expected = [(); 2].map(|()| Settlement::new(0, remaining));
        let settled = redis.settle(record.expect("it is kept"), &lines);
        assert_eq!(settled, Some(expected.to_vec()));
    }
    migration.end();
}
