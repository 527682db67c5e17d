//! Eviction from the arena, when a state spills and no block is free.
//!
//! Blocks of expired keys are freed first. If there are none, the victim is the least valuable of
//! the next few live keys, and is counted as evicted: a key that was charged once goes before one
//! that came back, that one before one that was denied, and among equals the one that expires
//! first. Each search continues where the last one ended, so that all keys take their turn. A long
//! log is not evicted for the sake of a block or two: it loses its oldest entries.

use std::sync::atomic::Ordering;

use tollgate_core::{Clock, Now};

use super::Memory;
use super::locked::SlotLock;
use crate::cache_line;
use crate::pair::{Pair, SlotValue};
use crate::spill;

/// Keys with a state in the arena that one search compares.
const COMPARED_MAX: usize = 64;
/// Slots that one search examines, including those that are locked or no longer spilled.
const EXAMINED_MAX: usize = 1 << 12;

impl<C: Clock> Memory<C> {
    /// Frees blocks; returns whether it freed any, or another thread may have.
    ///
    /// At most [`EXAMINED_MAX`] slots are examined, from where the last search ended.
    pub(super) fn reclaim(&self, now: Now) -> bool {
        // Relaxed: a hint, which no decision depends on.
        let start = self.clock_hand.load(Ordering::Relaxed);
        let (mut from, mut has_wrapped) = (start, false);
        let (mut compared, mut has_freed) = (0, false);
        let mut cheapest: Option<(&Pair, SlotValue)> = None;
        for _ in 0..EXAMINED_MAX {
            let Some(number) = self.table.next_spilled(from) else {
                if has_wrapped {
                    break;
                }
                (from, has_wrapped) = (0, true);
                continue;
            };
            if has_wrapped && number >= start {
                break;
            }
            from = number + 1;
            let slot = self.table.slot(number);
            let current = slot.load();
            if current.tag.is_locked() {
                continue;
            }
            if !current.tag.is_spilled() {
                self.table.unmark_spilled(number);
                continue;
            }
            compared += 1;
            if !cache_line::is_live(current, now) {
                has_freed |= self.evict(slot, current, now);
            } else if cheapest.is_none_or(|(_, other)| {
                cache_line::eviction_order(current, now) < cache_line::eviction_order(other, now)
            }) {
                cheapest = Some((slot, current));
            }
            if compared == COMPARED_MAX {
                break;
            }
        }
        // A slot's number + 1, or 0: the hand never counts on, so it cannot overflow. Behind the
        // last slot, the next search finds nothing and begins at 0.
        self.clock_hand.store(from, Ordering::Relaxed);
        has_freed
            || cheapest.is_some_and(|(slot, current)| self.shorten_or_evict(slot, current, now))
    }

    /// Takes some blocks from a live key, or all of them.
    fn shorten_or_evict(&self, slot: &Pair, current: SlotValue, now: Now) -> bool {
        let Some(lock) = SlotLock::new(slot, current) else {
            // Another thread is changing it and may free blocks too: worth another search.
            return true;
        };
        if spill::shorten(current.word, &self.arena) {
            self.table.count_eviction();
            return true;
        }
        drop(lock);
        self.evict(slot, current, now)
    }

    fn evict(&self, slot: &Pair, current: SlotValue, now: Now) -> bool {
        let is_evicted = slot.replace(current, SlotValue::default());
        if is_evicted {
            self.table.record_eviction(current, now);
            spill::free(current.word, &self.arena);
        }
        is_evicted
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use tollgate_core::{Charge, Cost, Key, Limit, Moment, Span};

    use super::*;
    use crate::memory::builder::table_bytes;

    /// Many times as many as one search compares, all live and in the arena.
    const KEYS: usize = 4_000;

    #[test]
    fn a_search_looks_at_few_of_many_keys_and_the_next_one_goes_on_from_there() {
        let store = Memory::builder().max_keys(2 * KEYS).build();
        let limit = Limit::sliding_log(10, Span::DAY).expect("a day is a window");
        let now = Now::at(Moment::ZERO + Span::DAY);
        for number in 0..KEYS {
            let charge = Charge::new(store.key_of(&number), &limit, Cost::ONE);
            assert!(
                store
                    .check_at(now, &charge)
                    .is_ok_and(|decision| decision.is_allowed())
            );
        }
        let spilled_before = |hand| {
            let numbers = std::iter::successors(store.table.next_spilled(0), |number| {
                store.table.next_spilled(number + 1)
            });
            numbers.take_while(|number| *number < hand).count()
        };
        for searches in 1..=10 {
            assert!(store.reclaim(now));
            // Victims are still marked: a later search finds that they are gone.
            let hand = store.clock_hand.load(Ordering::Relaxed);
            assert_eq!(spilled_before(hand), searches * COMPARED_MAX);
        }
        assert_eq!(store.evicted_keys(), 10);
    }

    /// As far as a number can count, on processors of 32 bits as on those of 64.
    #[test]
    fn the_clock_hand_finds_victims_wherever_it_points() {
        const BLOCKS: usize = 100;
        let table = table_bytes(1_000);
        let builder = Memory::builder().max_keys(1_000);
        let store = builder.max_bytes(table + 64 * BLOCKS).build();
        let limit = Limit::sliding_log(10, Span::DAY).expect("a day is a window");
        let now = Now::at(Moment::ZERO + Span::DAY);
        for number in 0..3 * BLOCKS {
            store
                .clock_hand
                .store(usize::MAX - number, Ordering::Relaxed);
            let charge = Charge::new(store.key_of(&number), &limit, Cost::ONE);
            let decided = store.check_at(now, &charge);
            assert!(decided.is_ok_and(|decision| decision.is_allowed()));
        }
        assert!(store.evicted_keys() > 0);
    }

    /// A log that takes the whole arena is the only victim for a decision that needs a block. To
    /// find it takes some dozens of loads, in a table of many more slots.
    #[test]
    fn a_log_that_fills_the_arena_makes_no_decision_scan_the_table() {
        const SLOTS: usize = 100_000;
        const DECISIONS: usize = 200;
        const LOADS_MAX: u64 = 200;
        let table = table_bytes(SLOTS);
        let store = Memory::builder()
            .max_keys(SLOTS)
            .max_bytes(table + table / 15);
        let store = store.build();
        let limit = Limit::sliding_log(1_000_000, Span::DAY).expect("a day is a window");
        let long = store.key_of("long");
        let mut now = Moment::ZERO + Span::DAY;
        let mut take = |key| {
            now = now + Span::from_millis(1);
            store.check_at(Now::at(now), &Charge::new(key, &limit, Cost::ONE))
        };
        while take(long).is_ok() {}
        let mut of = |what: &str, key: &dyn Fn(usize) -> Key| {
            let mut most = 0;
            for number in 0..DECISIONS {
                let before = store.table.spilled_loads();
                let _full_or_allowed = take(key(number));
                most = most.max(store.table.spilled_loads() - before);
            }
            assert!((1..=LOADS_MAX).contains(&most), "{what}: {most} loads");
        };
        of("of the log itself", &|_| long);
        of("of new keys", &|number| store.key_of(&number));
    }
}
