//! Memory for states that are larger than a word: how much there is, and who pays when it is spent.
#![allow(clippy::unwrap_used)]

use tollgate_core::{
    Algorithm, Anchor, CHARGES_MAX, Charge, Cost, Key, Limit, Moment, Segments, Span, StoreError,
};
use tollgate_memory::{Builder, ManualClock, Memory, RandomKeys};

const NOON: Moment = Moment::from_nanos(1_763_730_000_000_000_001);

type Store = Memory<ManualClock>;

fn log(count: u32) -> Limit {
    Limit::sliding_log(count, Span::DAY).unwrap()
}

fn take(store: &Store, key: Key, limit: &Limit) -> Result<bool, StoreError> {
    let decision = store.check(&Charge::new(key, limit, Cost::ONE))?;
    Ok(decision.is_allowed())
}

fn used(store: &Store, key: Key, limit: &Limit) -> u32 {
    let decision = store.check(&Charge::new(key, limit, Cost::Peek(1)));
    limit.capacity() - decision.unwrap().remaining()
}

/// The units of a log that has no room for one more: only its key's own memory can be reused.
fn units_of(store: &Store, key: Key) -> u32 {
    used(store, key, &log(1_000_000))
}

/// A store of a few keys and so many blocks, and a log that fills all of them but a few; also gives
/// how many units it holds.
fn filled(blocks: usize) -> (Store, Key, u32) {
    let builder = Memory::builder().clock(ManualClock::at(NOON));
    let store = builder.max_keys(100).max_bytes(2_400 + 64 * blocks).build();
    let key = store.key_of("long");
    let mut units = 0;
    while take(&store, key, &log(1_000_000)).is_ok_and(|is_allowed| is_allowed) {
        store.clock().advance(Span::from_millis(1));
        units += 1;
    }
    (store, key, units)
}

#[test]
fn a_log_that_fills_the_arena_gets_an_error_and_keeps_its_entries() {
    let (store, key, units) = filled(1_000);
    assert!(units > 10_000, "{units}");
    for _ in 0..1_000 {
        let full = take(&store, key, &log(1_000_000));
        assert!(matches!(full, Err(StoreError::Full)), "{full:?}");
        assert_eq!(units_of(&store, key), units);
    }
    assert_eq!(store.evicted_keys(), 0);
}

#[test]
fn a_new_key_costs_a_long_log_some_of_its_oldest_entries() {
    let (store, long, units) = filled(1_000);
    let new = store.key_of("new");
    assert!(take(&store, new, &log(10)).unwrap());
    assert_eq!(store.evicted_keys(), 1);
    assert_eq!(used(&store, new, &log(10)), 1);
    // Two blocks of entries of three bytes for each question, and those that they began in.
    let left = units_of(&store, long);
    assert!(left < units, "{left} of {units}");
    assert!(left >= units - 6 * 60 / 3, "{left} of {units}");
}

#[test]
fn a_new_key_that_is_not_charged_costs_a_long_log_nothing() {
    let (store, _long, _units) = filled(1_000);
    let limit = log(10);
    for cost in [Cost::Peek(1), Cost::Take(11), Cost::Refund(1)] {
        let charge = Charge::new(store.key_of("new"), &limit, cost);
        assert_eq!(store.check(&charge).unwrap().remaining(), 10);
        let other = Charge::new(store.key_of("other"), &limit, Cost::Peek(1));
        let verdict = store.decide_now(&[charge, other]).unwrap();
        assert_eq!(verdict.decisions[0].remaining(), 10);
    }
    // A log that loses its oldest entries is counted as well.
    assert_eq!(store.evicted_keys(), 0);
}

/// Once the long log has given a little, newcomers pay for newcomers.
#[test]
fn a_flood_of_new_keys_leaves_the_long_log_most_of_its_entries() {
    let (store, long, units) = filled(1_000);
    for number in 0..2_000 {
        assert!(take(&store, store.key_of(&number), &log(10)).unwrap());
    }
    let left = units_of(&store, long);
    assert!(left > units * 9 / 10, "{left} of {units}");
}

/// Gives new keys a block each until no more is free: one of them has evicted another then.
fn fill(store: &Store) {
    let window = Limit::new(Algorithm::FixedWindow(Anchor::FirstRequest), 10, Span::DAY).unwrap();
    for number in 0.. {
        assert!(take(store, store.key_of(&number), &window).unwrap());
        if store.evicted_keys() > 0 {
            return;
        }
    }
}

/// Nothing is charged, so no block is needed, however full the log's last block is.
#[test]
fn an_exhausted_log_evicts_nothing_when_it_is_asked() {
    for count in 1..=45 {
        let builder = Memory::builder().clock(ManualClock::at(NOON));
        let store = builder.max_keys(100).max_bytes(2_400 + 64 * 60).build();
        let (limit, bucket) = (log(count), Limit::token_bucket(10, Span::DAY).unwrap());
        let exhausted = store.key_of("exhausted");
        while take(&store, exhausted, &limit).unwrap() {
            store.clock().advance(Span::from_millis(1));
        }
        fill(&store);
        let before = store.stats();
        for cost in [Cost::ONE, Cost::Peek(1), Cost::Take(0), Cost::Refund(0)] {
            let charge = Charge::new(exhausted, &limit, cost);
            let beside = Charge::new(store.key_of("beside"), &bucket, Cost::ONE);
            let peek = Charge {
                cost: Cost::Peek(1),
                ..beside
            };
            for _ in 0..10 {
                assert_eq!(store.check(&charge).unwrap().remaining(), 0);
                for charges in [[charge, peek], [peek, charge]] {
                    let verdict = store.decide_now(&charges).unwrap();
                    assert_eq!(verdict.is_allowed(), cost.is_refund());
                }
                let denied = Charge {
                    cost: Cost::ONE,
                    ..charge
                };
                assert!(!store.decide_now(&[beside, denied]).unwrap().is_allowed());
            }
            assert_eq!(store.stats(), before, "{count}, {cost:?}");
        }
    }
}

/// A refund takes no block, and never fails; and a key whose units were all refunded is asked as
/// one that was never seen.
#[test]
fn a_refund_evicts_nothing_nor_does_a_question_after_it() {
    let segments = Algorithm::SlidingWindow(Segments::new(60).unwrap());
    let first_request = Algorithm::FixedWindow(Anchor::FirstRequest);
    for algorithm in [Algorithm::SlidingLog, segments, first_request] {
        let builder = Memory::builder().clock(ManualClock::at(NOON));
        let store = builder.max_keys(100).max_bytes(2_400 + 64 * 60).build();
        let limit = Limit::new(algorithm, 45, Span::DAY).unwrap();
        let charge = |cost| Charge::new(store.key_of("refunded"), &limit, cost);
        for _ in 0..45 {
            assert!(store.check(&charge(Cost::ONE)).unwrap().is_allowed());
            store.clock().advance(Span::from_millis(1));
        }
        assert!(!store.check(&charge(Cost::ONE)).unwrap().is_allowed());
        fill(&store);
        let evicted = store.evicted_keys();
        for left in 1..=45 {
            let refund = store.check(&charge(Cost::Refund(1))).unwrap();
            assert_eq!(refund.remaining(), left);
        }
        assert_eq!(store.evicted_keys(), evicted, "{limit}");
        for number in 0..10 {
            let window = Limit::new(first_request, 10, Span::DAY).unwrap();
            assert!(take(&store, store.key_of(&("more", number)), &window).unwrap());
        }
        let before = store.stats();
        let other = Charge::new(store.key_of("other"), &limit, Cost::Peek(1));
        for cost in [Cost::Peek(1), Cost::Take(46), Cost::Refund(1)] {
            assert_eq!(store.check(&charge(cost)).unwrap().remaining(), 45);
            let verdict = store.decide_now(&[charge(cost), other]).unwrap();
            assert_eq!(verdict.decisions[0].remaining(), 45);
        }
        assert_eq!(store.stats(), before, "{limit}");
    }
}

/// A small table has as many slots for a key as a large one: live keys that find all their places
/// taken are few in a million.
#[test]
fn a_small_store_keeps_the_keys_it_has_room_for() {
    let limit = Limit::token_bucket(10, Span::DAY).unwrap();
    for max_keys in [800, 1_000, 1_500] {
        let stores = 400_000 / max_keys;
        let evicted = (1..=stores).map(|secret| {
            let secret = u64::try_from(secret).unwrap();
            let keys = RandomKeys::with_secret(secret, !secret);
            let builder = Memory::builder().clock(ManualClock::at(NOON));
            let store = builder.max_keys(max_keys).keys(keys).build();
            for number in 0..max_keys {
                assert!(take(&store, store.key_of(&number), &limit).unwrap());
            }
            store.evicted_keys()
        });
        let evicted: u64 = evicted.sum();
        assert!(
            evicted < 4,
            "{evicted} of 400000 live keys evicted from stores for {max_keys}"
        );
    }
}

const KEYS: usize = 100_000;

fn keyed(secret: u64) -> Builder<ManualClock> {
    let builder = Memory::builder().clock(ManualClock::at(NOON));
    let keys = RandomKeys::with_secret(secret, !secret);
    builder.max_keys(KEYS).keys(keys)
}

/// A store with room for so many keys, after as many have come: how many of them it evicted.
fn evicted_when_full(secret: u64, limit: &Limit) -> u64 {
    let store = keyed(secret).limits([limit]).build();
    assert_eq!(store.shortage(limit), None);
    for number in 0..KEYS {
        assert!(take(&store, store.key_of(&number), limit).unwrap());
    }
    store.evicted_keys()
}

/// A few keys of many find all their places taken: how many depends on the hash's secret. A state
/// that is larger than a word loses no key beyond those.
#[test]
fn an_arena_is_sized_from_the_limits_where_they_are_known() {
    let segments = Algorithm::SlidingWindow(Segments::new(60).unwrap());
    let limit = Limit::new(segments, 10, Span::DAY).unwrap();
    let in_a_word = Limit::token_bucket(10, Span::DAY).unwrap();
    for secret in 1..=3 {
        let evicted = evicted_when_full(secret, &limit);
        assert_eq!(evicted, evicted_when_full(secret, &in_a_word));
        assert!(evicted <= 5, "{evicted} evicted");
    }
}

#[test]
fn a_store_that_does_not_know_its_limits_says_what_they_take() {
    let segments = Algorithm::SlidingWindow(Segments::new(60).unwrap());
    let limit = Limit::new(segments, 10, Span::DAY).unwrap();
    let short = keyed(1).build().shortage(&limit).unwrap();
    assert!((1..KEYS).contains(&short.keys), "{short:?}");
    let store = keyed(1).max_bytes(short.max_bytes.unwrap()).build();
    assert_eq!(store.shortage(&limit), None);
}

/// What is advised has room, whatever was set before.
#[test]
fn a_store_whose_number_of_keys_is_not_set_is_meant_for_the_default() {
    let limit = Limit::per_minute(1000).counted_by(Algorithm::SlidingLog);
    let builder = Memory::builder;
    for builder in [builder(), builder().max_bytes(1 << 30)] {
        let short = builder.shortage(&limit).unwrap();
        assert_eq!(short.max_keys, 1_000_000);
        let keys = Memory::builder().max_keys(short.max_keys);
        assert_eq!(
            keys.max_bytes(short.max_bytes.unwrap()).shortage(&limit),
            None
        );
    }
}

#[test]
fn beyond_the_largest_arena_no_number_of_bytes_suffices() {
    let limit = Limit::per_hour(2000).counted_by(Algorithm::SlidingLog);
    let keys = 10_000_000;
    let short = Memory::builder()
        .max_keys(keys)
        .max_bytes(200 << 30)
        .shortage(&limit);
    let short = short.unwrap();
    assert_eq!(short.max_bytes, None);
    assert!(short.keys < keys, "{short:?}");
    let fewer = Memory::builder().max_keys(short.keys).max_bytes(200 << 30);
    assert_eq!(fewer.shortage(&limit), None);
}

#[test]
fn a_bound_in_bytes_leaves_an_arena() {
    let builder = Memory::builder().clock(ManualClock::at(NOON));
    let store = builder.max_keys(10_000).max_bytes(200_000).build();
    assert!(take(&store, store.key_of("any"), &log(10)).unwrap());
}

/// The smallest table has places for as many keys as a request may have, again and again.
#[test]
fn a_request_never_waits_for_itself() {
    let builder = Memory::builder().clock(ManualClock::at(NOON));
    let store = builder.max_keys(10).build();
    let limit = Limit::token_bucket(1, Span::DAY).unwrap();
    for round in 0..200 {
        let charges: Vec<_> = (0..CHARGES_MAX)
            .map(|key| Charge::new(store.key_of(&(round, key)), &limit, Cost::ONE))
            .collect();
        assert!(store.decide_now(&charges).unwrap().is_allowed());
    }
}
