//! Distinct byte strings, each stored once and identified by a number.

use std::hash::{BuildHasher, RandomState};

/// An empty slot, so this number cannot be a string's.
const EMPTY: u32 = u32::MAX;
/// The fewest slots of a table that is not empty.
const SLOTS_MIN: usize = 64;

/// Byte strings in order of insertion, contiguous in memory, and a hash table of their numbers:
/// about 14 bytes per string beside its own.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    bytes: Vec<u8>,
    /// Where each string ends.
    ends: Vec<usize>,
    /// Open addressing with linear probing; a power of two, at most three quarters full.
    slots: Vec<u32>,
    hasher: RandomState,
}

/// Every number is in use: no further string can be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

// === impl Interner ===

impl Interner {
    /// The string of this number.
    pub(crate) fn get(&self, number: u32) -> &[u8] {
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[index]]
    }

    /// The number of a string, if it is known.
    pub(crate) fn find(&self, text: &[u8]) -> Option<u32> {
        let number = *self.slots.get(self.slot_of(text)?)?;
        (number != EMPTY).then_some(number)
    }

    /// The number of a string, which is added if it is new.
    pub(crate) fn intern(&mut self, text: &[u8]) -> Result<u32, Full> {
        if let Some(number) = self.find(text) {
            return Ok(number);
        }
        let number = u32::try_from(self.ends.len()).unwrap_or(EMPTY);
        if number == EMPTY {
            return Err(Full);
        }
        if (self.ends.len() + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        if let Some(slot) = self.slot_of(text) {
            self.slots[slot] = number;
        }
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
        Ok(number)
    }

    pub(crate) const fn len(&self) -> usize {
        self.ends.len()
    }

    /// The slot that holds the string or would; `None` in an empty table.
    fn slot_of(&self, text: &[u8]) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        // The low half of the hash is sufficient, and fits 32-bit platforms.
        let hash = usize::try_from(self.hasher.hash_one(text) & u64::from(u32::MAX));
        let mut slot = hash.unwrap_or_default() & mask;
        loop {
            match self.slots[slot] {
                EMPTY => return Some(slot),
                number if self.get(number) == text => return Some(slot),
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    fn grow(&mut self) {
        let count = (self.slots.len() * 2).max(SLOTS_MIN);
        self.slots = vec![EMPTY; count];
        for number in (0..).take(self.ends.len()) {
            if let Some(slot) = self.slot_of(self.get(number)) {
                self.slots[slot] = number;
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn every_string_has_one_number() {
        let mut interner = Interner::default();
        let mut model: HashMap<Vec<u8>, u32> = HashMap::new();
        assert_eq!(interner.find(b""), None);
        for step in 0..20_000_u32 {
            let text = (step.wrapping_mul(2_654_435_761) >> 19)
                .to_string()
                .into_bytes();
            let next = u32::try_from(model.len()).unwrap();
            let expected = *model.entry(text.clone()).or_insert(next);
            assert_eq!(interner.intern(&text), Ok(expected));
            assert_eq!(interner.get(expected), text);
        }
        assert_eq!(interner.len(), model.len());
        for (text, number) in &model {
            assert_eq!(interner.find(text), Some(*number));
        }
        assert_eq!(interner.find(b"never"), None);
        let empty = interner.intern(b"").unwrap();
        assert_eq!(
            (interner.get(empty), interner.find(b"")),
            (&b""[..], Some(empty))
        );
    }
}
