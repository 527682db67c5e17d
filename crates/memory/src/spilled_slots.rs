//! The set of slots with a state in the arena, so that a victim is found without a scan of the
//! table.
//!
//! There is a bit for each slot, and a summary with a bit for each word of those, so a search skips
//! 4096 slots that have none with a single load. A bit may outlast its slot's state: the search
//! that finds it clears it. A slot whose state is in the arena always has its bit once the decision
//! that put it there has ended: [`SpilledSlots::insert`] comes after the state was published, and
//! [`SpilledSlots::remove`] reads the slot once more after the bit was cleared.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of a word.
const BITS: usize = 64;

/// A set of slots, by number.
#[derive(Debug)]
pub(crate) struct SpilledSlots {
    slots: Box<[AtomicU64]>,
    /// A bit for each word of `slots` that may not be zero.
    words: Box<[AtomicU64]>,
    /// How many words searches have loaded: their work.
    #[cfg(test)]
    loads: AtomicU64,
}

// === impl SpilledSlots ===

impl SpilledSlots {
    /// An empty set for a table of this many slots.
    pub(crate) fn for_slots(slots: usize) -> SpilledSlots {
        let zeroes = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        let words = slots.div_ceil(BITS);
        SpilledSlots {
            slots: zeroes(words),
            words: zeroes(words.div_ceil(BITS)),
            #[cfg(test)]
            loads: AtomicU64::new(0),
        }
    }

    /// Bytes of the set of a table of this many slots.
    pub(crate) const fn bytes_for(slots: usize) -> usize {
        let words = slots.div_ceil(BITS);
        (words + words.div_ceil(BITS)) * size_of::<AtomicU64>()
    }

    /// Bytes of the set.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.slots) + size_of_val(&*self.words)
    }

    /// Adds a slot whose state was published in the arena before.
    pub(crate) fn insert(&self, slot: usize) {
        let (word, bit) = place(slot);
        // Release, here and below: a thread that clears this bit later sees what was published.
        self.slots[word].fetch_or(bit, Ordering::AcqRel);
        let (above, bit) = place(word);
        self.words[above].fetch_or(bit, Ordering::AcqRel);
    }

    /// Removes a slot that was seen without a state in the arena; `is_spilled` reads it again.
    pub(crate) fn remove(&self, slot: usize, is_spilled: impl FnOnce() -> bool) {
        let (word, bit) = place(slot);
        let left = self.slots[word].fetch_and(!bit, Ordering::AcqRel) & !bit;
        if is_spilled() {
            self.insert(slot);
        } else if left == 0 {
            let (above, bit) = place(word);
            self.words[above].fetch_and(!bit, Ordering::AcqRel);
            if self.slots[word].load(Ordering::Acquire) != 0 {
                self.words[above].fetch_or(bit, Ordering::AcqRel);
            }
        }
    }

    /// The first slot from this one on that is in the set.
    pub(crate) fn next(&self, from: usize) -> Option<usize> {
        let (word, bit) = place(from);
        let here = self.load(self.slots.get(word)?) & from_bit(bit);
        if here != 0 {
            return Some(word * BITS + lowest_bit(here));
        }
        let mut word = word + 1;
        while let Some(next) = self.next_word(word) {
            let here = self.load(&self.slots[next]);
            if here != 0 {
                return Some(next * BITS + lowest_bit(here));
            }
            word = next + 1;
        }
        None
    }

    fn next_word(&self, from: usize) -> Option<usize> {
        let (above, bit) = place(from);
        let mut wanted = from_bit(bit);
        for (number, words) in self.words.iter().enumerate().skip(above) {
            let here = self.load(words) & wanted;
            if here != 0 {
                return Some(number * BITS + lowest_bit(here));
            }
            wanted = u64::MAX;
        }
        None
    }

    /// Loads a word for a search.
    fn load(&self, word: &AtomicU64) -> u64 {
        #[cfg(test)]
        self.loads.fetch_add(1, Ordering::Relaxed);
        word.load(Ordering::Acquire)
    }

    #[cfg(test)]
    pub(crate) fn loads(&self) -> u64 {
        self.loads.load(Ordering::Relaxed)
    }
}

/// The word of a bit with this number, and the bit in it.
const fn place(number: usize) -> (usize, u64) {
    (number / BITS, 1 << (number % BITS))
}

/// This bit and all above.
const fn from_bit(bit: u64) -> u64 {
    !(bit - 1)
}

fn lowest_bit(word: u64) -> usize {
    usize::try_from(word.trailing_zeros()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_next_slot_is_found_from_anywhere() {
        let numbers = [0, 1, 63, 64, 4_095, 4_096, 70_000, 99_999];
        let set = SpilledSlots::for_slots(100_000);
        assert_eq!(set.next(0), None);
        numbers.iter().for_each(|number| set.insert(*number));
        for from in [0, 1, 2, 63, 64, 65, 4_096, 4_097, 70_001, 99_999] {
            let next = numbers.iter().copied().find(|number| *number >= from);
            assert_eq!(set.next(from), next, "from {from}");
        }
        for number in numbers {
            set.remove(number, || false);
            assert_ne!(set.next(number), Some(number));
        }
        assert_eq!(set.next(0), None);
        assert_eq!(set.next(100_000), None);
    }

    #[test]
    fn a_slot_that_spills_while_it_is_removed_stays() {
        let set = SpilledSlots::for_slots(100);
        set.insert(7);
        set.remove(7, || true);
        assert_eq!(set.next(0), Some(7));
    }
}
