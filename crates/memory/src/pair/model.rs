//! A slot under the model checker, which has no 16-byte atomics. An atomic of 8 bytes holds the
//! number of a value, and equal values have equal numbers, so that the checker explores every order
//! of accesses and every stale read that the orderings permit.

use std::sync::{Mutex, PoisonError};

use loom::sync::atomic::{AtomicU64, Ordering};

use super::SlotValue;

#[derive(Debug)]
pub(crate) struct Pair {
    number: AtomicU64,
    /// The values by number. The checker does not model it: it only grows.
    values: Mutex<Vec<SlotValue>>,
}

impl Default for Pair {
    fn default() -> Pair {
        Pair {
            number: AtomicU64::new(0),
            values: Mutex::new(vec![SlotValue::default()]),
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
            let current = slot.value(slot.number.load(Ordering::Relaxed));
            u32::from(current.tag.has_low(low)) << at
        };
        let bits = slots.iter().enumerate().map(bit);
        bits.fold(0, |found, bit| found | bit)
    }

    pub(crate) fn load(&self) -> SlotValue {
        self.value(self.number.load(Ordering::Acquire))
    }

    pub(crate) fn store(&self, new: SlotValue) {
        self.number.store(self.number(new), Ordering::Release);
    }

    pub(crate) fn replace(&self, old: SlotValue, new: SlotValue) -> bool {
        let (old, new) = (self.number(old), self.number(new));
        self.number
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    fn value(&self, number: u64) -> SlotValue {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        values[usize::try_from(number).expect("the number of a value")]
    }

    fn number(&self, current: SlotValue) -> u64 {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let known = values.iter().position(|value| *value == current);
        let number = known.unwrap_or(values.len());
        if known.is_none() {
            values.push(current);
        }
        u64::try_from(number).expect("fewer values than memory")
    }
}
