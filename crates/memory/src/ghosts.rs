//! Keys that were refused and have lost their slots since.
//!
//! A key that hammers recovers now and then, and in a flood its slot is taken by the next new key
//! at once. When it comes back it looks as new as the flood, and would be pushed out with its first
//! charge unpaid. So a few bits of every refused key that lost its slot are kept, and a key that
//! returns is spared from the start. Two keys may be taken for each other here: no decision depends
//! on it, only who is evicted first.

use std::sync::atomic::{AtomicU32, Ordering};

/// Buckets for each ghost that is kept: 4 bytes beside 512.
pub(crate) const BUCKETS_PER_GHOST: usize = 4;
const GHOSTS_MIN: usize = 16;
/// Marks in a page of memory.
const MARKS_A_PAGE: usize = 1024;

/// A part of the fingerprint of some refused keys, the latest at each place.
#[derive(Debug)]
pub(crate) struct Ghosts {
    marks: Box<[AtomicU32]>,
}

// === impl Ghosts ===

impl Ghosts {
    /// As many as befit a table of this many buckets.
    pub(crate) fn beside(buckets: usize) -> Ghosts {
        let count = (buckets / BUCKETS_PER_GHOST).max(GHOSTS_MIN);
        let marks: Box<[AtomicU32]> = (0..count).map(|_| AtomicU32::new(0)).collect();
        // As in the table: the pages are taken now.
        marks
            .iter()
            .step_by(MARKS_A_PAGE)
            .for_each(|mark| mark.store(0, Ordering::Relaxed));
        Ghosts { marks }
    }

    /// Bytes of all that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.marks.len() * size_of::<AtomicU32>()
    }

    /// A refused key has lost its slot.
    pub(crate) fn remember(&self, fingerprint: u64) {
        let (mark, bits) = self.mark(fingerprint);
        mark.store(bits, Ordering::Relaxed);
    }

    /// Whether this key may be one of them.
    pub(crate) fn know(&self, fingerprint: u64) -> bool {
        let (mark, bits) = self.mark(fingerprint);
        mark.load(Ordering::Relaxed) == bits
    }

    fn mark(&self, fingerprint: u64) -> (&AtomicU32, u32) {
        let bytes = fingerprint.to_le_bytes();
        let bits = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) | 1;
        let place = u32::from_le_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
        let index = usize::try_from(place).unwrap_or(0) % self.marks.len();
        (&self.marks[index], bits)
    }
}
