//! A slot on any processor, with the 16-byte atomics of `portable-atomic`.

use std::sync::atomic::Ordering;

use portable_atomic::AtomicU128;

use super::SlotValue;
use crate::tag::Tag;

#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct Pair(AtomicU128);

impl Pair {
    pub(crate) const fn is_supported() -> bool {
        true
    }

    #[inline]
    pub(crate) fn matches<const SLOTS: usize>(slots: &[Pair; SLOTS], low: u32) -> u32 {
        let bit = |(at, slot): (usize, &Pair)| u32::from(slot.load().tag.has_low(low)) << at;
        slots
            .iter()
            .enumerate()
            .map(bit)
            .fold(0, |found, bit| found | bit)
    }

    #[inline]
    pub(crate) fn load(&self) -> SlotValue {
        // Acquire: a tag that says "spilled" publishes the state in the arena.
        unpack(self.0.load(Ordering::Acquire))
    }

    /// For the thread that has locked the slot.
    #[inline]
    pub(crate) fn store(&self, new: SlotValue) {
        // Release: what was written under the lock is published.
        self.0.store(pack(new), Ordering::Release);
    }

    #[inline]
    pub(crate) fn replace(&self, old: SlotValue, new: SlotValue) -> bool {
        // Release publishes a spilled state's blocks; acquire takes over a lock.
        let (old, new) = (pack(old), pack(new));
        self.0
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

#[inline]
fn pack(current: SlotValue) -> u128 {
    (u128::from(current.word) << 64) | u128::from(current.tag.bits())
}

#[inline]
#[expect(
    clippy::as_conversions,
    reason = "both halves of a word of twice their width"
)]
const fn unpack(bits: u128) -> SlotValue {
    SlotValue {
        tag: Tag::from_bits(bits as u64),
        word: (bits >> 64) as u64,
    }
}
