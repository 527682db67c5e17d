//! Unique names of reservations and leases.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::random::{is_seeded, random_word};

/// No reservation lasts longer than two to this power of milliseconds: 24 days, longer than any
/// request waits.
const POWER_MAX: u32 = 31;

/// A name that no other reservation or lease has: 64 bits, from a random start in each process and
/// counted within it.
pub(crate) fn unique_name() -> u64 {
    // In a simulation, the names must not depend on what else the process has named.
    let name = if is_seeded() {
        random_word()
    } else {
        next_in_process()
    };
    // So that no name begins with a byte of 255, as markers do.
    name & !(1 << 62)
}

fn next_in_process() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    static FIRST: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    let count = NEXT.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
    FIRST.get_or_init(random_word).wrapping_add(count)
}

/// A name for a reservation that lasts this many microseconds. The first byte is its lifetime,
/// rounded up to a power of two in milliseconds.
pub(crate) fn reservation_name(lasts: u64) -> u64 {
    let millis = lasts.div_ceil(1_000).max(1);
    // The number of bits of the number below it.
    let power = u64::BITS - (millis - 1).leading_zeros();
    u64::from(power.min(POWER_MAX)) << 56 | unique_name() >> 8
}
