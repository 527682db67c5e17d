//! Versions of a limit on several instances, while units of it are leased.

use tollgate_behaviour::{Subject, Taste};
use tollgate_core::{Charge, Cost, Limit, Mode, Now, Sharing, Span};

use super::{Driven, SINGLE};
use crate::config::Config;

/// Units that an instance spends of its last lease before it crashes.
const SPENT: u32 = 150;

fn instance() -> Driven {
    Driven::new(&Config::single(SINGLE.address()))
}

fn bucket(burst: u32) -> Limit {
    let bucket = Limit::token_bucket(1, Span::from_millis(5));
    let bucket = bucket.and_then(|bucket| bucket.with_burst(burst));
    bucket.expect("a limit")
}

fn at(millis: u64) -> Now {
    Now::at(Taste::MICROSECONDS.start.utc + Span::from_millis(millis))
}

/// Nothing but the lease of an instance that crashes is stored of a full bucket. A denial of a
/// smaller version of the limit does not shrink it to what that version can count.
#[test]
fn a_smaller_bucket_erases_nothing_that_a_larger_one_has_leased() {
    let [large, small] = [1_000, 20].map(bucket);
    let [mut crashing, mut other, mut rest] = [(); 3].map(|()| instance());
    let key = crashing.key("only");
    let leased = |limit| Charge::new(key, limit, Cost::ONE).shared(Sharing::in_mode(Mode::Leased));
    for (instance, units) in [(&mut other, 2), (&mut crashing, SPENT)] {
        for _ in 0..units {
            assert!(instance.decide(at(0), &[leased(&large)]).is_allowed());
        }
    }
    // The bucket is full again, and the other one returns what it holds.
    let peek = Charge::new(key, &large, Cost::Peek(1));
    assert!(rest.decide(at(5_000), &[peek]).is_allowed());
    other.store.set_now(at(5_000).utc.as_nanos() / 1_000);
    other.runtime.block_on(other.store.close());
    let denied = rest.decide(at(9_500), &[Charge::new(key, &small, Cost::ONE)]);
    assert!(!denied.is_allowed());
    let asked = crashing.store.counts().requests;
    for _ in 0..SPENT {
        assert!(crashing.decide(at(9_800), &[leased(&large)]).is_allowed());
    }
    assert_eq!(crashing.store.counts().requests, asked, "not on its lease");
    let remaining = rest.decide(at(10_000), &[peek]).decisions[0].remaining();
    let refilled = 200 / 5;
    assert!(remaining <= 1_000 + refilled - SPENT, "{remaining}");
}

/// The same of a bucket that is a version of another algorithm.
#[test]
fn a_smaller_bucket_erases_nothing_that_another_algorithm_has_leased() {
    let small = bucket(20);
    for large in [
        Limit::fixed_window(1_000, Span::from_secs(30)),
        Limit::sliding_window(1_000, Span::from_secs(30), 1),
        Limit::sliding_window(1_000, Span::from_secs(300), 10),
    ] {
        let large = large.expect("a limit");
        let [mut crashing, mut rest] = [(); 2].map(|()| instance());
        let key = crashing.key("only");
        let leased = Charge::new(key, &large, Cost::ONE).shared(Sharing::in_mode(Mode::Leased));
        assert!((0..SPENT).all(|_| crashing.decide(at(0), &[leased]).is_allowed()));
        let asked = crashing.store.counts().requests;
        assert!((0..SPENT).all(|_| crashing.decide(at(9_800), &[leased]).is_allowed()));
        assert_eq!(crashing.store.counts().requests, asked, "not on its lease");
        let denied = rest.decide(at(10_000), &[Charge::new(key, &small, Cost::ONE)]);
        assert!(!denied.is_allowed());
        let peek = Charge::new(key, &large, Cost::Peek(1));
        let remaining = rest.decide(at(10_000), &[peek]).decisions[0].remaining();
        assert!(remaining <= 1_000 - SPENT, "{remaining} of {large}");
    }
}

/// A reload changes the mode while units of a lease are spent and not reported: a refund finds
/// them.
#[test]
fn a_refund_in_another_mode_finds_what_was_spent_of_a_lease() {
    let limit = Limit::fixed_window(100, Span::HOUR).expect("an hour is a window");
    for mode in [Mode::Leased, Mode::Strict, Mode::WriteBack] {
        let mut instance = instance();
        let key = instance.key("only");
        let charge = |mode, cost| Charge::new(key, &limit, cost).shared(Sharing::in_mode(mode));
        let leased = charge(Mode::Leased, Cost::ONE);
        assert!((0..8).all(|_| instance.decide(at(0), &[leased]).is_allowed()));
        assert!(instance.store.counts().lease_decisions > 0);
        let refund = charge(mode, Cost::Refund(8));
        assert!(instance.decide(at(0), &[refund]).is_allowed());
        instance.runtime.block_on(instance.store.close());
        let peek = charge(Mode::Strict, Cost::Peek(1));
        let remaining = self::instance().decide(at(0), &[peek]).decisions[0].remaining();
        assert_eq!(remaining, 100, "{mode:?}");
    }
}
