//! A request after which there is nothing to store about a key takes no slot for it and evicts
//! nothing, however full the store is.
#![cfg(not(tollgate_loom))]
#![allow(clippy::unwrap_used)]

use tollgate_core::{
    Algorithm, Anchor, Charge, Clock, Cost, Decision, Enforcement, Key, Ledger, Limit, Moment,
    OnDenial, Reserved, Segments, Span,
};
use tollgate_memory::{ManualClock, Memory, RandomKeys, Stats};

const NOON: Moment = Moment::from_nanos(1_763_730_000_000_000_001);
/// Twice as many as the smallest table has slots.
const LIVE_KEYS: u64 = 2_048;
/// Enough for every bucket of that table to meet some.
const NEW_KEYS: u64 = 400;
/// What each limit allows.
const COUNT: u32 = 10;

/// A store with a live key in every slot, and what it contained before it was asked anything.
struct FullStore {
    store: Memory<ManualClock>,
    before: Stats,
}

// === impl FullStore ===

impl FullStore {
    fn new() -> FullStore {
        let keys = RandomKeys::with_secret(1, 2);
        let builder = Memory::builder().clock(ManualClock::at(NOON)).keys(keys);
        let store = builder.max_keys(10).build();
        let limit = Limit::token_bucket(1, Span::DAY).unwrap();
        for number in 0..LIVE_KEYS {
            let charge = Charge::new(store.key_of(&number), &limit, Cost::ONE);
            assert!(store.check(&charge).unwrap().is_allowed());
        }
        let before = store.stats();
        assert!(before.evicted_keys > 0, "{before:?}");
        FullStore { store, before }
    }

    /// A key that has no slot.
    fn new_key(&self, name: &str, number: u64) -> Key {
        self.store.key_of(&(name, number))
    }

    /// A key that has consumed everything; it evicts another one, which is not counted here.
    fn exhausted_key(&mut self, limit: &Limit) -> Key {
        let key = self.store.key_of("exhausted");
        let all = Cost::from(limit.capacity());
        let decision = self.store.check(&Charge::new(key, limit, all)).unwrap();
        assert!(decision.is_allowed());
        self.before = self.store.stats();
        key
    }

    #[track_caller]
    fn assert_unchanged(&self, case: &str) {
        assert_eq!(self.store.stats(), self.before, "{case}");
    }

    /// Asks for all charges together, in both ways, and compares the answer with the ledger's,
    /// which has the state of `charged`. Gives whether the request is allowed.
    fn ask(&self, charges: &[Charge<'_>], charged: Option<&Charge<'_>>) -> bool {
        let now = self.store.clock().now();
        let mut ledger = Ledger::default();
        if let Some(charge) = charged {
            assert!(ledger.decide(now, &[*charge]).unwrap().is_allowed());
        }
        let verdict = self.store.decide_now(charges).unwrap();
        assert_eq!(verdict, ledger.decide(now, charges).unwrap());
        let (timed, _now) = self.store.decide_timed(charges).unwrap();
        assert_eq!(timed, verdict);
        verdict.is_allowed()
    }
}

/// Limits of every algorithm; the states of all but the buckets' are larger than a word.
fn limits() -> [Limit; 7] {
    let limit = |algorithm| Limit::new(algorithm, COUNT, Span::HOUR).unwrap();
    let tiny = Span::from_nanos(u64::from(COUNT));
    [
        limit(Algorithm::SlidingLog),
        limit(Algorithm::SlidingWindow(Segments::new(2).unwrap())),
        limit(Algorithm::SlidingWindow(Segments::new(60).unwrap())),
        limit(Algorithm::FixedWindow(Anchor::FirstRequest)),
        Limit::fixed_window(COUNT, tiny).unwrap(),
        limit(Algorithm::TokenBucket),
        limit(Algorithm::LeakyBucket),
    ]
}

/// Costs that leave nothing of a new key: peeks, refunds, and what never fits.
const COSTS: [Cost; 4] = [
    Cost::Peek(1),
    Cost::Peek(11),
    Cost::Refund(3),
    Cost::Take(11),
];

#[test]
fn a_request_that_charges_nothing_evicts_nothing() {
    let full = FullStore::new();
    for (limit, cost) in limits()
        .iter()
        .flat_map(|limit| COSTS.map(|cost| (limit, cost)))
    {
        for number in 0..NEW_KEYS {
            let charge = Charge::new(full.new_key("alone", number), limit, cost);
            let decision = full.store.check(&charge).unwrap();
            let (timed, _now) = full.store.check_timed(&charge).unwrap();
            assert_eq!(decision, timed);
            let is_allowed = matches!(cost, Cost::Peek(1) | Cost::Refund(_));
            assert_eq!(decision.is_allowed(), is_allowed, "{limit}, {cost:?}");
            assert_eq!(decision.remaining(), COUNT);
        }
        full.assert_unchanged(&format!("{limit}, {cost:?}"));
    }
}

#[test]
fn a_request_that_another_limit_denies_evicts_nothing() {
    for limit in &limits() {
        let mut full = FullStore::new();
        let hour = Limit::sliding_log(COUNT, Span::HOUR).unwrap();
        let exhausted = full.exhausted_key(&hour);
        let denying = Charge::new(exhausted, &hour, Cost::ONE);
        let all = Charge::new(exhausted, &hour, Cost::from(COUNT));
        for number in 0..NEW_KEYS {
            let new = Charge::new(full.new_key("beside", number), limit, Cost::ONE);
            assert!(!full.ask(&[new, denying], Some(&all)));
            assert!(!full.ask(&[denying, new], Some(&all)));
        }
        full.assert_unchanged(&format!("{limit}"));
    }
}

#[test]
fn new_keys_that_are_asked_together_and_not_charged_evict_nothing() {
    let full = FullStore::new();
    for (limit, cost) in limits()
        .iter()
        .flat_map(|limit| COSTS.map(|cost| (limit, cost)))
    {
        let shadow = |key| Charge {
            enforcement: Enforcement::Shadow,
            ..Charge::new(key, limit, Cost::Take(11))
        };
        for number in 0..NEW_KEYS {
            let [one, other] = ["one", "other"].map(|name| full.new_key(name, number));
            let charge = Charge::new(one, limit, cost);
            full.ask(&[charge, shadow(other)], None);
            full.ask(&[charge, Charge::new(other, limit, Cost::Peek(2))], None);
            full.ask(&[charge, charge], None);
        }
        full.assert_unchanged(&format!("{limit}, {cost:?}"));
    }
}

/// Of two new keys, one is charged and the other is not: only the one takes a slot.
#[test]
fn only_a_key_that_is_charged_takes_a_slot() {
    for limit in &limits() {
        let full = FullStore::new();
        for number in 1..=NEW_KEYS {
            let [one, other] = ["one", "other"].map(|name| full.new_key(name, number));
            let peek = Charge::new(one, limit, Cost::Peek(1));
            let take = Charge::new(other, limit, Cost::ONE);
            let verdict = full.store.decide_now(&[peek, take]).unwrap();
            assert!(verdict.is_allowed());
            let remaining = verdict.decisions.iter().map(Decision::remaining);
            assert!(remaining.eq([COUNT, COUNT - 1]));
            let evicted = full.store.evicted_keys() - full.before.evicted_keys;
            assert_eq!(evicted, number, "{limit}");
            let peek = Charge::new(other, limit, Cost::Peek(1));
            assert_eq!(full.store.check(&peek).unwrap().remaining(), COUNT - 1);
        }
    }
}

/// A denied request that is charged is stored.
#[test]
fn a_denied_request_that_is_charged_takes_a_slot() {
    for limit in &limits() {
        let store = Memory::builder().max_keys(10).clock(ManualClock::at(NOON));
        let store = store.build();
        let charge = |name| Charge {
            on_denial: OnDenial::Charge,
            ..Charge::new(store.key_of(name), limit, Cost::Take(11))
        };
        assert!(!store.check(&charge("alone")).unwrap().is_allowed());
        let both = [charge("one"), charge("other")];
        assert!(!store.decide_now(&both).unwrap().is_allowed());
        assert_eq!(store.stats().live_keys, 3, "{limit}");
        for name in ["alone", "one", "other"] {
            let peek = Charge::new(store.key_of(name), limit, Cost::Peek(1));
            assert_eq!(store.check(&peek).unwrap().remaining(), 0, "{limit}");
        }
    }
}

/// A limit of 0 has nothing to store, whatever is charged to it.
#[test]
fn a_limit_of_nothing_stores_nothing() {
    let full = FullStore::new();
    let zero = Limit::sliding_log(0, Span::HOUR).unwrap();
    let ten = Limit::sliding_log(COUNT, Span::HOUR).unwrap();
    let peek = Charge::new(full.new_key("any", 0), &ten, Cost::Peek(1));
    let (Decision::Allow(grant), now) = full.store.check_timed(&peek).unwrap() else {
        panic!("a new key is allowed a peek")
    };
    for number in 0..NEW_KEYS {
        let charge = Charge {
            on_denial: OnDenial::Charge,
            ..Charge::new(full.new_key("zero", number), &zero, Cost::ONE)
        };
        assert!(!full.store.check(&charge).unwrap().is_allowed());
        full.ask(&[charge, charge], None);
        let reserved = Reserved::new(&charge, &grant, now);
        let settlement = full.store.settle_reserved(&charge, &reserved, 3).unwrap();
        assert_eq!((settlement.charged, settlement.remaining), (1, 0));
    }
    full.assert_unchanged("a limit of 0");
}
