//! Reservations of sliding logs with many newer entries.

use tollgate_behaviour::{Subject, Taste};
use tollgate_core::{Charge, Cost, Limit, SettledCharge, Settlement, Span};

use crate::behaviour::log_entries::APPEND;
use crate::behaviour::{Driven, SINGLE};
use crate::config::Config;

/// As in `settlement.lua`.
const NEWER_MAX: u32 = 10_000;

/// A refund rewrites all newer entries, so their number is bounded.
#[test]
fn units_before_too_many_others_are_not_refunded() {
    let limit = Limit::sliding_log(100_000, Span::HOUR).expect("a limit");
    for (newer, charged) in [(NEWER_MAX, 1), (NEWER_MAX + 1, 5)] {
        let mut redis = Driven::new(&Config::single(SINGLE.address()));
        let key = redis.key("many");
        let charge = |units| Charge::new(key, &limit, Cost::Take(units));
        let start = Taste::MICROSECONDS.start.utc.as_nanos() / 1_000;
        redis.store.set_now(start);
        let (_, record) = redis.reserve(&[charge(5)], 5);
        SINGLE.ask(&[
            "EVAL",
            APPEND,
            "1",
            &redis.store.name_of(key),
            &newer.to_string(),
        ]);
        redis.store.set_now(start + 1_000_000);
        let charge = charge(1);
        let line = SettledCharge { line: 0, charge };
        let settled = redis.settle(record.expect("it is allowed"), &[line]);
        let used = u32::try_from(charged).expect("a few") + newer;
        let expected = Settlement::new(charged, limit.capacity() - used);
        assert_eq!(settled, Some(vec![expected]), "{newer}");
    }
}

/// Settlements that share a call share its time: their bound is that of one.
#[test]
fn settlements_in_one_call_rewrite_as_many_entries_as_one() {
    let limit = Limit::sliding_log(100_000, Span::HOUR).expect("a limit");
    let charge = |key, units| Charge::new(key, &limit, Cost::Take(units));
    for (newer, charged) in [(NEWER_MAX / 2, [1, 1]), (NEWER_MAX / 2 + 1, [1, 5])] {
        let mut redis = Driven::new(&Config {
            connections: 1,
            ..Config::single(SINGLE.address())
        });
        let keys = ["one", "other"].map(|name| redis.key(name));
        let start = Taste::MICROSECONDS.start.utc.as_nanos() / 1_000;
        redis.store.set_now(start);
        let records = [(keys[0], 5), (keys[1], 6)].map(|(key, secret)| {
            let (_, record) = redis.reserve(&[charge(key, 5)], secret);
            let name = redis.store.name_of(key);
            SINGLE.ask(&["EVAL", APPEND, "1", &name, &newer.to_string()]);
            record.expect("it is allowed")
        });
        redis.store.set_now(start + 1_000_000);
        let lines = keys.map(|key| {
            [SettledCharge {
                line: 0,
                charge: charge(key, 1),
            }]
        });
        let before = redis.store.counts().calls;
        let (one, other) = redis.runtime.block_on(async {
            tokio::join!(
                redis.store.settle_kept(records[0], &lines[0]),
                redis.store.settle_kept(records[1], &lines[1]),
            )
        });
        assert_eq!(redis.store.counts().calls - before, 1);
        let settled = [one, other].map(|settled| {
            let settled = settled.expect("Redis answers").expect("it is open");
            settled[0].charged
        });
        assert_eq!(settled, charged, "{newer}");
    }
}

/// Entries without units remain until there are none with units behind them.
#[test]
fn entries_that_were_refunded_are_removed_with_the_last_one() {
    let limit = Limit::sliding_log(100, Span::HOUR).expect("a limit");
    let mut redis = Driven::new(&Config::single(SINGLE.address()));
    let key = redis.key("zeros");
    let start = Taste::MICROSECONDS.start.utc.as_nanos() / 1_000;
    let reserve = |at: u64| {
        redis.store.set_now(start + at);
        let charge = Charge::new(key, &limit, Cost::Take(2));
        let (_, record) = redis.reserve(&[charge], at.into());
        record.expect("it is allowed")
    };
    let records: Vec<_> = (0..20).map(reserve).collect();
    let name = redis.store.name_of(key);
    let entries = || {
        SINGLE
            .ask(&["STRLEN", &name])
            .trim()
            .parse()
            .map(|size: u64| size / 11)
    };
    let before = entries().expect("a length");
    for (at, record) in (1..20).zip(&records[1..]) {
        assert_eq!(entries(), Ok(before), "{at}");
        let charge = Charge::new(key, &limit, Cost::Take(0));
        let line = SettledCharge { line: 0, charge };
        let expected = Settlement::new(0, limit.capacity() - 2 * (20 - at));
        assert_eq!(redis.settle(*record, &[line]), Some(vec![expected]));
    }
    assert_eq!(entries(), Ok(before - 19));
}

/// A log of which all is refunded, or has expired, may have dead entries that are still stored.
#[test]
fn a_log_without_units_has_nothing_to_refund() {
    let limit = Limit::sliding_log(100, Span::from_millis(1)).expect("a limit");
    let mut redis = Driven::new(&Config::single(SINGLE.address()));
    let key = redis.key("dead");
    let start = Taste::MICROSECONDS.start.utc.as_nanos() / 1_000;
    let charge = |units| Charge::new(key, &limit, Cost::Take(units));
    let take = |at: u64| {
        redis.store.set_now(start + at);
        let charges = [charge(1)];
        let decided = redis.runtime.block_on(redis.store.decide(&charges));
        assert!(decided.expect("Redis answers").is_allowed());
    };
    take(0);
    redis.store.set_now(start + 500);
    let (_, record) = redis.reserve(&[charge(5)], 6);
    // The first entry is dead from the last one on.
    [600, 700, 800, 1_050].into_iter().for_each(take);
    redis.store.set_now(start + 5_000);
    let charge = charge(1);
    let line = SettledCharge { line: 0, charge };
    let settled = redis.settle(record.expect("it is allowed"), &[line]);
    let nothing = Settlement::new(5, limit.capacity());
    assert_eq!(settled, Some(vec![nothing]));
}
