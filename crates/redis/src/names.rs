//! Names of reservations and leases, which no other has.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::random::{is_seeded, random_word};

/// More milliseconds than two to this power are never reserved for: 24 days, by when any wait is
/// over.
const POWER_MAX: u32 = 31;

/// A name that no other reservation or lease has: 64 bits, random for each process and counted
/// within it.
pub(crate) fn unique_name() -> u64 {
    // What a simulation draws does not depend on what else the process has named.
    let name = if is_seeded() {
        random_word()
    } else {
        next_in_process()
    };
    // So that nothing begins with a byte of 255, as marks do.
    name & !(1 << 62)
}

fn next_in_process() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    static FIRST: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    let count = NEXT.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
    FIRST.get_or_init(random_word).wrapping_add(count)
}

/// A name for a reservation that lasts so many microseconds: its first byte says, as a power of two
/// in milliseconds, how long that is at most.
pub(crate) fn reservation_name(lasts: u64) -> u64 {
    let millis = lasts.div_ceil(1_000).max(1);
    // So many bits that the number below it has.
    let power = u64::BITS - (millis - 1).leading_zeros();
    u64::from(power.min(POWER_MAX)) << 56 | unique_name() >> 8
}
