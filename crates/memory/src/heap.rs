//! The process's heap: returns memory that the system's allocator holds back.
//!
//! glibc retains freed memory in up to eight arenas for each processor, each of which reserves
//! 64 MiB of the address space. After a peak of load a service would stay at its peak size, and in
//! a small address space the arenas alone would fill it. With other allocators these functions do
//! nothing.

#![cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(
        unsafe_code,
        reason = "the allocator's own functions have no other form"
    )
)]

/// How much of the address space an arena reserves at a time, beside the main one. While it
/// reserves, it takes twice as much.
const ARENA_BYTES: u64 = 64 << 20;
/// At most this part of a limited address space is reserved for arenas at their start.
const ARENAS_PART: u64 = 8;
/// From this size on, a block is mapped for itself and returned as soon as it is freed; an arena
/// may have as much free at its end. These are glibc's initial values.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const RETURNED_BYTES: libc::c_int = 128 << 10;

/// Returns the free memory of all arenas to the system; `true` if there was any.
///
/// Takes each arena's lock in turn: milliseconds for each hundred megabytes, so run this on a
/// thread that nothing waits for.
pub fn give_back() -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: `malloc_trim` may be called by any thread at any time; it takes the allocator's
        // own locks and touches only pages that the allocator holds as free.
        let released = unsafe { libc::malloc_trim(0) };
        released == 1
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    false
}

/// Keeps the sizes from which free memory is returned at their initial values. Call it before any
/// thread is started.
///
/// By itself glibc raises them with the largest block that was ever freed (mallopt(3)): to 32 MiB,
/// and to 64 MiB for what an arena keeps free at its end until the next [`give_back`]. Thus one
/// client with large requests would make the service keep more memory for ever.
pub fn fix_thresholds() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for threshold in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        // SAFETY: `mallopt` stores the number in the allocator's parameters, under its lock.
        let _result = unsafe { libc::mallopt(threshold, RETURNED_BYTES) };
    }
}

/// Limits the number of arenas for a process whose address space is limited to `bytes`, and returns
/// that number. Call it before any thread is started.
pub fn fit_address_space(bytes: u64) -> u64 {
    let arenas = (bytes / ARENAS_PART / ARENA_BYTES).max(1);
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let most = libc::c_int::try_from(arenas).unwrap_or(libc::c_int::MAX);
        // SAFETY: `mallopt` stores the number in the allocator's parameters, under its lock.
        let _result = unsafe { libc::mallopt(libc::M_ARENA_MAX, most) };
    }
    arenas
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn arenas_take_an_eighth_of_the_address_space_at_most() {
        assert_eq!(fit_address_space(1 << 30), 2);
        assert_eq!(fit_address_space(512 << 20), 1);
        assert_eq!(fit_address_space(64 << 20), 1);
        assert_eq!(fit_address_space(u64::MAX), (1 << 35) - 1);
    }
}
