//! The store's own code under a model checker, which tries the orders in which threads can go on
//! and the stale values that they can read.
//!
//! Two or three threads on a table of two buckets of two slots; under `cfg(tollgate_loom)` the
//! atomics are the checker's and the arena's bytes are plain memory in which it finds every race.
//! `cargo xtask loom` runs it; in any other build this file is empty. All orders are tried, but
//! where a bound is named.

#![cfg(tollgate_loom)]
#![allow(clippy::unwrap_used)]

use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;
use tollgate_core::{
    Charge, Cost, Key, Limit, LimitHistory, Moment, Now, Span, StoreError, Verdict,
};
use tollgate_memory::{ManualClock, Memory, RandomKeys};

/// All of a store's keys are decided on at one moment, or a day later.
const NOW: Moment = Moment::from_nanos(1_763_700_000_000_000_000);
const BLOCK_BYTES: usize = 64;
/// Accesses of one order: more would be a loop that does not end.
const BRANCHES_MAX: usize = 20_000;

type Store = Arc<Memory<ManualClock>>;

/// Tries every order.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.max_branches = BRANCHES_MAX;
    builder.check(model);
}

/// Tries every order in which threads are interrupted at most so often where they need not wait.
fn explore_up_to(interruptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.max_branches = BRANCHES_MAX;
    builder.preemption_bound = Some(interruptions);
    builder.check(model);
}

/// A store whose arena has so many blocks. Half of its bytes are the table's, which at so few has
/// two buckets.
fn store(blocks: usize) -> Store {
    let builder = Memory::builder().keys(RandomKeys::with_secret(1, 2));
    let builder = builder.max_bytes(2 * blocks * BLOCK_BYTES);
    Arc::new(builder.clock(ManualClock::at(NOW)).build())
}

/// A key whose first bucket is the table's first or second.
fn key(name: u64, bucket: u64) -> Key {
    Key::from_bits(u128::from(name) << 64 | u128::from(bucket) << 63)
}

fn a() -> Key {
    key(10, 0)
}

fn b() -> Key {
    key(11, 1)
}

fn bucket(count: u32) -> Limit {
    Limit::token_bucket(count, Span::DAY).unwrap()
}

fn window(count: u32) -> Limit {
    Limit::fixed_window(count, Span::DAY).unwrap()
}

/// Takes one unit of `a` under a rule whose limit has changed once.
fn take_after(store: &Store, former: Limit, present: Limit) -> bool {
    let history = LimitHistory::none().and(former);
    let charge = Charge {
        history: &history,
        ..Charge::new(a(), &present, Cost::ONE)
    };
    store.check_at(Now::at(NOW), &charge).unwrap().is_allowed()
}

fn take(store: &Store, key: Key, limit: &Limit) -> bool {
    let charge = Charge::new(key, limit, Cost::ONE);
    store.check_at(Now::at(NOW), &charge).unwrap().is_allowed()
}

fn take_both(store: &Store, keys: [Key; 2], limit: &Limit) -> bool {
    let charges = keys.map(|key| Charge::new(key, limit, Cost::ONE));
    let verdict: Verdict = store.decide_at(Now::at(NOW), &charges).unwrap();
    verdict.is_allowed()
}

/// The units of `key` that are stored. Asking stores nothing.
fn used(store: &Store, key: Key, limit: &Limit) -> u32 {
    let charge = Charge::new(key, limit, Cost::Peek(1));
    let decision = store.check_at(Now::at(NOW), &charge).unwrap();
    limit.capacity() - decision.remaining()
}

fn give_back(store: &Store, key: Key, limit: &Limit) {
    let charge = Charge::new(key, limit, Cost::Refund(1));
    let decision = store.check_at(Now::at(NOW), &charge).unwrap();
    assert!(decision.is_allowed());
}

/// Runs both at once and gives what they return.
fn both<T: 'static, U: 'static>(
    store: &Store,
    one: impl FnOnce(&Store) -> T + 'static,
    other: impl FnOnce(&Store) -> U + 'static,
) -> (T, U) {
    let (left, right) = (store.clone(), store.clone());
    let left = thread::spawn(move || one(&left));
    let right = thread::spawn(move || other(&right));
    (left.join().unwrap(), right.join().unwrap())
}

/// The last unit of a window whose state is a slot's word, asked for by two.
#[test]
fn the_last_unit_of_a_window_in_a_word() {
    for limit in [window(2), Limit::sliding_window(2, Span::DAY, 1).unwrap()] {
        explore(move || {
            let store = store(0);
            assert!(take(&store, a(), &limit));
            let ask = move |store: &Store| take(store, a(), &limit);
            let (one, other) = both(&store, ask, ask);
            assert!(one ^ other, "one unit let {one} and {other} through");
            assert_eq!(used(&store, a(), &limit), 2);
        });
    }
}

/// A new key asked for by two: one slot, one unit.
#[test]
fn one_key_inserted_twice() {
    explore(|| {
        let store = store(0);
        let ask = |store: &Store| take(store, a(), &bucket(1));
        let (one, other) = both(&store, ask, ask);
        assert!(one ^ other, "a limit of 1 let {one} and {other} through");
        assert_eq!(store.stats().live_keys, 1);
        assert_eq!(store.evicted_keys(), 0);
    });
}

/// Three charges on a key that has room for two.
#[test]
fn the_last_units_for_three() {
    explore_up_to(3, || {
        let store = store(0);
        assert!(take(&store, a(), &bucket(3)));
        let ask = |store: &Store| u32::from(take(store, a(), &bucket(3)));
        let third = store.clone();
        let third = thread::spawn(move || ask(&third));
        let (one, other) = both(&store, ask, ask);
        assert_eq!(one + other + third.join().unwrap(), 2);
        assert_eq!(used(&store, a(), &bucket(3)), 3);
    });
}

/// As `one_key_inserted_twice`, with room for both: no charge is lost.
#[test]
fn two_charges_on_a_new_key() {
    explore(|| {
        let store = store(0);
        let ask = |store: &Store| take(store, a(), &bucket(3));
        assert_eq!(both(&store, ask, ask), (true, true));
        assert_eq!(used(&store, a(), &bucket(3)), 2);
        assert_eq!(store.stats().live_keys, 1);
    });
}

/// A decision over two limits claims the slot that another thread is charging.
#[test]
fn claim_against_update() {
    explore(|| {
        let store = store(0);
        assert!(take(&store, a(), &bucket(3)));
        let claim = |store: &Store| take_both(store, [a(), b()], &bucket(3));
        let update = |store: &Store| take(store, a(), &bucket(3));
        assert_eq!(both(&store, claim, update), (true, true));
        assert_eq!(used(&store, a(), &bucket(3)), 3);
        assert_eq!(used(&store, b(), &bucket(3)), 1);
    });
}

/// A rule's new limit converts a key's state while another thread charges it under the same rule.
#[test]
fn conversion_against_conversion() {
    explore(|| {
        let store = store(0);
        assert!(take(&store, a(), &bucket(3)));
        let ask = |store: &Store| {
            let (history, limit) = (LimitHistory::none().and(bucket(3)), bucket(4));
            let charge = Charge {
                history: &history,
                ..Charge::new(a(), &limit, Cost::ONE)
            };
            let decision = store.check_at(Now::at(NOW), &charge).unwrap();
            limit.capacity() - decision.remaining()
        };
        let (one, other) = both(&store, ask, ask);
        assert_eq!((one.min(other), one.max(other)), (2, 3));
    });
}

/// One thread decides under a rule's new limit while another still decides under the former one,
/// whose algorithm reads states otherwise: nothing is converted backwards, and the late one is
/// resolved again.
#[test]
fn a_decision_under_a_former_rule_against_one_under_the_present() {
    let sliding = Limit::sliding_window(2, Span::DAY, 1).unwrap();
    let changes = [
        (window(2), bucket(2)),
        (bucket(2), window(2)),
        (bucket(2), bucket(3)),
        (window(2), sliding),
        (sliding, window(2)),
    ];
    for (former, present) in changes {
        explore(move || {
            // A state may be larger than a word while it is converted.
            let store = store(2);
            assert!(take(&store, a(), &former));
            let late = move |store: &Store| {
                let charge = Charge::new(a(), &former, Cost::ONE);
                match store.check_at(Now::at(NOW), &charge) {
                    Err(StoreError::Superseded) => take_after(store, former, present),
                    decided => decided.unwrap().is_allowed(),
                }
            };
            let (one, other) = both(&store, late, move |store: &Store| {
                take_after(store, former, present)
            });
            let allowed = 1 + u32::from(one) + u32::from(other);
            assert_eq!(allowed, present.capacity());
            assert!(!take_after(&store, former, present));
        });
    }
}

/// Every slot is taken and one key has recovered: a new key takes its slot while it is charged
/// again.
#[test]
fn a_slot_reassigned_under_an_update() {
    explore(|| {
        let store = store(0);
        let minute = Limit::token_bucket(1, Span::MINUTE).unwrap();
        let earlier = Now::at(NOW - Span::HOUR);
        let charge = Charge::new(a(), &minute, Cost::ONE);
        assert!(store.check_at(earlier, &charge).unwrap().is_allowed());
        let others = [key(20, 0), key(21, 1), key(22, 1)];
        assert!(others.iter().all(|key| take(&store, *key, &bucket(1))));
        let newcomer = key(30, 0);
        let update = move |store: &Store| take(store, a(), &minute);
        let insert = move |store: &Store| take(store, newcomer, &bucket(1));
        assert_eq!(both(&store, update, insert), (true, true));
        // Five keys on four slots: one is evicted and counted, and no charge is another key's.
        let mut lost = u64::from(used(&store, a(), &minute) == 0);
        for key in others.into_iter().chain([newcomer]) {
            lost += u64::from(used(&store, key, &bucket(1)) == 0);
        }
        assert_eq!(lost, 1);
        assert_eq!(store.evicted_keys(), 1);
        assert_eq!(store.stats().live_keys, 4);
    });
}

/// Every slot is taken by a live key: a new key pushes one out while the coldest is charged again.
#[test]
fn eviction_against_update() {
    explore(|| {
        let store = store(0);
        let four = [a(), key(20, 0), key(21, 1), key(22, 1)];
        assert!(four.iter().all(|key| take(&store, *key, &bucket(3))));
        let newcomer = key(30, 0);
        let update = |store: &Store| take(store, a(), &bucket(3));
        let insert = move |store: &Store| take(store, newcomer, &bucket(3));
        assert_eq!(both(&store, update, insert), (true, true));
        let kept = used(&store, a(), &bucket(3));
        let others = four[1..].iter().chain([&newcomer]);
        let others = others.map(|key| used(&store, *key, &bucket(3)));
        let others: Vec<u32> = others.collect();
        assert!(others.iter().all(|used| *used <= 1), "{others:?}");
        let lost = others.iter().filter(|used| **used == 0).count();
        // Evicted before its second charge (and inserted again), after it, or not at all.
        let losses = lost + usize::from(kept < 2);
        assert_eq!(store.evicted_keys(), u64::try_from(losses).unwrap());
        assert_eq!(store.stats().live_keys, 4);
    });
}

/// Two limits of 1, asked for in opposite orders: one request has both, the other nothing.
#[test]
fn all_or_nothing_against_a_rival() {
    explore(|| {
        let store = store(0);
        let forth = |store: &Store| take_both(store, [a(), b()], &bucket(1));
        let back = |store: &Store| take_both(store, [b(), a()], &bucket(1));
        let (one, other) = both(&store, forth, back);
        assert!(one ^ other, "{one} and {other}");
        assert_eq!(used(&store, a(), &bucket(1)), 1);
        assert_eq!(used(&store, b(), &bucket(1)), 1);
    });
}

/// A request over two limits of 1 against one over the second alone: as if one came first.
#[test]
fn all_or_nothing_against_a_single_limit() {
    explore(|| {
        let store = store(0);
        let pair = |store: &Store| take_both(store, [a(), b()], &bucket(1));
        let single = |store: &Store| take(store, b(), &bucket(1));
        let (pair, single) = both(&store, pair, single);
        assert!(pair ^ single, "{pair} and {single}");
        assert_eq!(used(&store, a(), &bucket(1)), u32::from(pair));
        assert_eq!(used(&store, b(), &bucket(1)), 1);
    });
}

/// Two keys that exist, asked for together in opposite orders, with room for one: neither thread
/// waits for the other with a lock, and one request has both.
#[test]
fn the_last_units_of_two_keys() {
    explore_up_to(3, || {
        let store = store(0);
        assert!(take_both(&store, [a(), b()], &bucket(2)));
        let forth = |store: &Store| take_both(store, [a(), b()], &bucket(2));
        let back = |store: &Store| take_both(store, [b(), a()], &bucket(2));
        let (one, other) = both(&store, forth, back);
        assert!(one ^ other, "{one} and {other}");
        assert_eq!(used(&store, a(), &bucket(2)), 2);
        assert_eq!(used(&store, b(), &bucket(2)), 2);
    });
}

/// Two keys that exist are charged together while another thread charges each alone: none of the
/// charges is lost.
#[test]
fn charges_together_and_alone() {
    explore_up_to(3, || {
        let store = store(0);
        assert!(take_both(&store, [a(), b()], &bucket(9)));
        let together = |store: &Store| take_both(store, [a(), b()], &bucket(9));
        let alone = |store: &Store| take(store, a(), &bucket(9)) && take(store, b(), &bucket(9));
        assert_eq!(both(&store, together, alone), (true, true));
        let counted = [a(), b()].map(|key| used(&store, key, &bucket(9)));
        assert_eq!(counted, [3, 3]);
    });
}

/// Each of two requests charges the key that the other only peeks at, and leaves nothing of it: as
/// if one came first, one of them is denied. Before, each key was charged so many units.
fn each_charges_what_the_other_peeks_at(before: u32) {
    explore_up_to(3, move || {
        let (store, limit) = (store(0), bucket(before + 1));
        for _ in 0..before {
            assert!(take_both(&store, [a(), b()], &limit));
        }
        let ask = |charged: Key, peeked: Key| {
            move |store: &Store| {
                let charges = [
                    Charge::new(charged, &limit, Cost::ONE),
                    Charge::new(peeked, &limit, Cost::Peek(1)),
                ];
                let verdict = store.decide_at(Now::at(NOW), &charges).unwrap();
                verdict.is_allowed()
            }
        };
        let (one, other) = both(&store, ask(a(), b()), ask(b(), a()));
        assert!(one ^ other, "{one} and {other}");
        let counted = [a(), b()].map(|key| used(&store, key, &limit));
        assert_eq!(counted, [one, other].map(|taken| before + u32::from(taken)));
    });
}

#[test]
fn each_charges_a_known_key_that_the_other_peeks_at() {
    each_charges_what_the_other_peeks_at(1);
}

/// Of keys that have no slot yet: each inserts what it charges, and the other key only must still
/// have none.
#[test]
fn each_charges_a_new_key_that_the_other_peeks_at() {
    each_charges_what_the_other_peeks_at(0);
}

/// A request that only peeks at two new keys reports both as they were at one moment, while another
/// charges both.
#[test]
fn a_peek_at_two_new_keys_sees_one_moment() {
    explore_up_to(3, || {
        let store = store(6);
        let log = Limit::sliding_log(2, Span::DAY).unwrap();
        let charge = move |store: &Store| take_both(store, [a(), b()], &log);
        let ask = move |store: &Store| {
            let charges = [a(), b()].map(|key| Charge::new(key, &log, Cost::Peek(1)));
            let verdict = store.decide_at(Now::at(NOW), &charges).unwrap();
            [0, 1].map(|index| verdict.decisions[index].remaining())
        };
        let (charged, [one, other]) = both(&store, charge, ask);
        assert!(charged);
        assert_eq!(one, other, "of one moment");
    });
}

/// A request that is denied reports what remains of both limits as it was at one moment, while
/// another charges both.
#[test]
fn a_denied_request_sees_one_moment() {
    explore_up_to(3, || {
        let store = store(0);
        assert!(take_both(&store, [a(), b()], &bucket(3)));
        let charge = |store: &Store| take_both(store, [a(), b()], &bucket(3));
        let ask = |store: &Store| {
            let limit = bucket(3);
            let charges = [a(), b()].map(|key| Charge::new(key, &limit, Cost::Take(3)));
            let verdict = store.decide_at(Now::at(NOW), &charges).unwrap();
            assert!(!verdict.is_allowed());
            [0, 1].map(|index| verdict.decisions[index].remaining())
        };
        let (charged, [one, other]) = both(&store, charge, ask);
        assert!(charged);
        assert_eq!(one, other, "of one moment");
    });
}

/// A request that will be denied locks two slots; a thread that asks for them meanwhile gets the
/// answers that a request that changes nothing leaves.
#[test]
fn a_denied_reader_against_a_lock_holder() {
    explore(|| {
        let store = store(0);
        assert!(take(&store, a(), &bucket(1)));
        let holder = |store: &Store| take_both(store, [a(), b()], &bucket(1));
        let reader = |store: &Store| (take(store, a(), &bucket(1)), take(store, b(), &bucket(1)));
        assert_eq!(both(&store, holder, reader), (false, (false, true)));
        assert_eq!(used(&store, b(), &bucket(1)), 1);
    });
}

/// A log in the arena, charged by two: its bytes are plain memory here, so a reader that has not
/// seen the other's lock end would be found.
#[test]
fn a_log_charged_by_two() {
    explore(|| {
        let store = store(6);
        let log = Limit::sliding_log(2, Span::DAY).unwrap();
        let ask = move |store: &Store| take(store, a(), &log);
        assert_eq!(both(&store, ask, ask), (true, true));
        assert_eq!(used(&store, a(), &log), 2);
        // A head and one block of entries.
        assert_eq!(store.stats().arena_bytes, 2 * 64);
    });
}

/// The only unit of a log, when the key is new: it is judged before it has a slot, and again under
/// the lock.
#[test]
fn the_only_unit_of_a_new_log() {
    explore(|| {
        let store = store(6);
        let log = Limit::sliding_log(1, Span::DAY).unwrap();
        let ask = move |store: &Store| take(store, a(), &log);
        let (one, other) = both(&store, ask, ask);
        assert!(one ^ other, "{one} and {other}");
        assert_eq!(used(&store, a(), &log), 1);
    });
}

/// The last unit of a log, when the key exists already.
#[test]
fn the_last_unit_of_a_log() {
    explore(|| {
        let store = store(6);
        let log = Limit::sliding_log(2, Span::DAY).unwrap();
        assert!(take(&store, a(), &log));
        let ask = move |store: &Store| take(store, a(), &log);
        let (one, other) = both(&store, ask, ask);
        assert!(one ^ other, "{one} and {other}");
    });
}

/// Two units of a log that exists, in its last block, which has room for both.
#[test]
fn two_units_of_a_log() {
    explore(|| {
        let store = store(6);
        let log = Limit::sliding_log(3, Span::DAY).unwrap();
        assert!(take(&store, a(), &log));
        let ask = move |store: &Store| take(store, a(), &log);
        assert_eq!(both(&store, ask, ask), (true, true));
        assert_eq!(used(&store, a(), &log), 3);
        assert_eq!(store.stats().arena_bytes, 2 * 64);
    });
}

/// One gives a block back while another takes two: the free list loses none and gives none twice.
#[test]
fn blocks_taken_and_given_back() {
    explore_up_to(4, || {
        let store = store(4);
        let window = Limit::sliding_window(2, Span::DAY, 2).unwrap();
        assert!(take(&store, a(), &window));
        assert!(take(&store, b(), &window));
        give_back(&store, b(), &window);
        let one = move |store: &Store| {
            give_back(store, a(), &window);
            take(store, a(), &window)
        };
        let other = move |store: &Store| take(store, b(), &window);
        assert_eq!(both(&store, one, other), (true, true));
        assert_eq!(used(&store, a(), &window), 1);
        assert_eq!(used(&store, b(), &window), 1);
        assert_eq!(store.stats().arena_bytes, 2 * 64);
    });
}

/// One is taking a block while another takes two and gives the first back: the free list looks as
/// if it had never changed, and has.
#[test]
fn a_free_list_that_looks_unchanged() {
    explore_up_to(2, || {
        let store = store(4);
        let window = Limit::sliding_window(2, Span::DAY, 2).unwrap();
        let three = [a(), b(), key(20, 0)];
        assert!(three.iter().all(|key| take(&store, *key, &window)));
        three
            .iter()
            .for_each(|key| give_back(&store, *key, &window));
        let one = move |store: &Store| take(store, a(), &window);
        let other = move |store: &Store| {
            let taken = take(store, b(), &window) && take(store, three[2], &window);
            give_back(store, b(), &window);
            taken
        };
        assert_eq!(both(&store, one, other), (true, true));
        // Each has a block of its own: charging one changes no other.
        assert!(take(&store, b(), &window) && take(&store, b(), &window));
        let counted = three.map(|key| used(&store, key, &window));
        assert_eq!(counted, [1, 2, 1]);
        assert_eq!(store.stats().arena_bytes, 3 * 64);
    });
}

/// As `eviction_against_update`, with states in the arena: the victim's block is freed once, and
/// not while a thread uses it.
#[test]
fn eviction_of_a_large_state_against_update() {
    explore_up_to(3, || {
        let store = store(8);
        let window = Limit::sliding_window(3, Span::DAY, 2).unwrap();
        let four = [a(), key(20, 0), key(21, 1), key(22, 1)];
        assert!(four.iter().all(|key| take(&store, *key, &window)));
        let newcomer = key(30, 0);
        let update = move |store: &Store| take(store, a(), &window);
        let insert = move |store: &Store| take(store, newcomer, &window);
        assert_eq!(both(&store, update, insert), (true, true));
        let evicted = store.evicted_keys();
        assert!((1..=2).contains(&evicted), "{evicted} evicted");
        assert_eq!(store.stats().live_keys, 4);
        assert_eq!(store.stats().arena_bytes, 4 * 64);
    });
}

/// The same with a newcomer whose state fits its slot: the victim's block is free.
#[test]
fn eviction_of_a_large_state_by_a_small_one() {
    explore_up_to(3, || {
        let store = store(8);
        let window = Limit::sliding_window(3, Span::DAY, 2).unwrap();
        let four = [a(), key(20, 0), key(21, 1), key(22, 1)];
        assert!(four.iter().all(|key| take(&store, *key, &window)));
        let newcomer = key(30, 0);
        let update = move |store: &Store| take(store, a(), &window);
        let insert = move |store: &Store| take(store, newcomer, &bucket(3));
        assert_eq!(both(&store, update, insert), (true, true));
        assert_eq!(store.stats().live_keys, 4);
        let small = u64::from(used(&store, newcomer, &bucket(3)));
        assert_eq!(store.stats().arena_bytes, (4 - small) * 64);
    });
}

/// The arena has one block and two keys want it: the second takes it from the first, which is
/// counted as evicted, and a thread may be using it.
#[test]
fn the_last_block_under_an_update() {
    explore_up_to(3, || {
        let store = store(1);
        let window = Limit::sliding_window(2, Span::DAY, 2).unwrap();
        assert!(take(&store, a(), &window));
        let ask = move |key| {
            move |store: &Store| {
                let charge = Charge::new(key, &window, Cost::ONE);
                store.check_at(Now::at(NOW), &charge).is_ok()
            }
        };
        let (one, other) = both(&store, ask(a()), ask(b()));
        assert!(one || other, "the block was there for one of them");
        assert_eq!(store.stats().arena_bytes, 64);
        assert_eq!(store.stats().live_keys, 1);
    });
}
