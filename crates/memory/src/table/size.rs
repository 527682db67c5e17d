//! How many buckets fit into a number of bytes, and how many bytes a table takes, without
//! building it.

use super::{BUCKETS_MIN, INSERT_LOCKS, Table};
use crate::cache_line::{CacheLine, SLOTS};
use crate::ghosts::{BUCKETS_PER_GHOST, Ghosts};
use crate::spilled_slots::SpilledSlots;

/// Bytes that a table of any size takes beside its buckets.
pub(crate) const FIXED_BYTES: usize = INSERT_LOCKS + size_of::<Table>() + 2 * size_of::<u64>();
/// Bytes of a bucket, with its clock hand, its share of the ghosts and a bit for each slot.
const BUCKET_BYTES: usize = 2 * size_of::<CacheLine>() + 1 + 4 / BUCKETS_PER_GHOST + 2 * SLOTS / 8;
/// The summary of the slots' bits takes one byte in 2^13.
const WORDS_SHIFT: u32 = 13;

/// The buckets of a table of at most `bytes`; at least [`BUCKETS_MIN`].
pub(super) fn buckets(bytes: usize) -> usize {
    let bytes = bytes.saturating_sub(FIXED_BYTES);
    ((bytes - (bytes >> WORDS_SHIFT)) / BUCKET_BYTES).max(BUCKETS_MIN)
}

/// Bytes of the table that [`Table::with_bytes`] builds from the same number.
pub(crate) fn table_bytes(bytes: usize) -> usize {
    let buckets = buckets(bytes);
    let lines = 2 * buckets * size_of::<CacheLine>();
    let spilled = SpilledSlots::bytes_for(2 * buckets * SLOTS);
    lines + buckets + Ghosts::bytes_for(buckets) + spilled + FIXED_BYTES
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_table_takes_the_bytes_that_are_computed() {
        for bytes in [0, 20_000, 65_536, 1_000_003, 23_625_000] {
            let table = Table::with_bytes(bytes);
            assert_eq!(table.bytes(), table_bytes(bytes), "{bytes}");
        }
    }
}
