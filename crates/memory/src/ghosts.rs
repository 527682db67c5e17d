//! Keys that were denied and have lost their slots since (the ghost entries of cache literature).
//!
//! The key of a client that hammers expires now and then, and in a flood the next new key takes its
//! slot at once. When it comes back it looks as new as the flood, and would be evicted again, which
//! lets the client start over. So a few bits of every denied key that lost its slot are stored, and
//! a key that returns is protected from the start. Two keys may be mistaken for each other here: no
//! decision depends on it, only the order of eviction.

use std::sync::atomic::{AtomicU32, Ordering};

/// Buckets of the table for each ghost: 4 bytes for 512.
pub(crate) const BUCKETS_PER_GHOST: usize = 4;
const GHOSTS_MIN: usize = 16;
/// Marks in a page of memory.
const MARKS_A_PAGE: usize = 1024;

/// A part of the fingerprint of some denied keys, the latest at each index.
#[derive(Debug)]
pub(crate) struct Ghosts {
    marks: Box<[AtomicU32]>,
}

// === impl Ghosts ===

impl Ghosts {
    /// Room in proportion to a table of this many buckets.
    pub(crate) fn for_buckets(buckets: usize) -> Ghosts {
        let count = Ghosts::count_for(buckets);
        let marks: Box<[AtomicU32]> = (0..count).map(|_| AtomicU32::new(0)).collect();
        // As in the table: touch the pages now.
        marks
            .iter()
            .step_by(MARKS_A_PAGE)
            .for_each(|mark| mark.store(0, Ordering::Relaxed));
        Ghosts { marks }
    }

    const fn count_for(buckets: usize) -> usize {
        let count = buckets / BUCKETS_PER_GHOST;
        if count < GHOSTS_MIN {
            GHOSTS_MIN
        } else {
            count
        }
    }

    /// Bytes of the ghosts of a table of this many buckets.
    pub(crate) const fn bytes_for(buckets: usize) -> usize {
        Ghosts::count_for(buckets) * size_of::<AtomicU32>()
    }

    /// Bytes of all ghosts.
    pub(crate) fn bytes(&self) -> usize {
        self.marks.len() * size_of::<AtomicU32>()
    }

    /// Adds a denied key that has lost its slot.
    pub(crate) fn insert(&self, fingerprint: u64) {
        let (mark, bits) = self.mark(fingerprint);
        mark.store(bits, Ordering::Relaxed);
    }

    /// Whether this key may have been added.
    pub(crate) fn contains(&self, fingerprint: u64) -> bool {
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
