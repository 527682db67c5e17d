//! A slot under the model checker, which has no 16-byte atomics: one of 8 bytes holds the number of
//! a value, the same for the same value, so that every order of accesses and every stale reading
//! that the orderings permit is explored.

use std::sync::{Mutex, PoisonError};

use loom::sync::atomic::{AtomicU64, Ordering};

use super::Seen;

#[derive(Debug)]
pub(crate) struct Pair {
    number: AtomicU64,
    /// What the numbers stand for. No part of the model: it only grows.
    values: Mutex<Vec<Seen>>,
}

impl Default for Pair {
    fn default() -> Pair {
        Pair {
            number: AtomicU64::new(0),
            values: Mutex::new(vec![Seen::default()]),
        }
    }
}

// === impl Pair ===

impl Pair {
    pub(crate) const fn is_supported() -> bool {
        true
    }

    pub(crate) fn matches<const SLOTS: usize>(slots: &[Pair; SLOTS], low: u32) -> u32 {
        let bit = |(at, slot): (usize, &Pair)| {
            let seen = slot.value(slot.number.load(Ordering::Relaxed));
            u32::from(seen.tag.has_low(low)) << at
        };
        let bits = slots.iter().enumerate().map(bit);
        bits.fold(0, |found, bit| found | bit)
    }

    pub(crate) fn load(&self) -> Seen {
        self.value(self.number.load(Ordering::Acquire))
    }

    pub(crate) fn replace(&self, old: Seen, new: Seen) -> bool {
        let (old, new) = (self.number(old), self.number(new));
        self.number
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    fn value(&self, number: u64) -> Seen {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        values[usize::try_from(number).expect("the number of a value")]
    }

    fn number(&self, seen: Seen) -> u64 {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let known = values.iter().position(|value| *value == seen);
        let number = known.unwrap_or(values.len());
        if known.is_none() {
            values.push(seen);
        }
        u64::try_from(number).expect("fewer values than memory")
    }
}
