//! The atomics of this crate: the standard library's, or the model checker's under
//! `--cfg tollgate_loom`.

#[cfg(tollgate_loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(tollgate_loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use tollgate_core::StoreError;

/// How often a thread waits for another thread's lock before it fails.
///
/// A lock is held for well under a microsecond, unless its owner was suspended meanwhile. All waits
/// together last for a second or two.
#[cfg(not(tollgate_loom))]
pub(crate) const WAITS_MAX: u32 = SPINS_MAX + YIELDS_MAX + SLEEPS_MAX;
#[cfg(tollgate_loom)]
pub(crate) const WAITS_MAX: u32 = 1 << 13;
/// How many of these waits spin.
#[cfg(not(tollgate_loom))]
const SPINS_MAX: u32 = 64;
/// How many after those yield the processor.
#[cfg(not(tollgate_loom))]
const YIELDS_MAX: u32 = 256;
/// How many after those sleep, so that many waiting threads leave the processors to the lock's
/// owner.
#[cfg(not(tollgate_loom))]
const SLEEPS_MAX: u32 = 1 << 13;
#[cfg(not(tollgate_loom))]
const SLEEP: std::time::Duration = std::time::Duration::from_micros(100);
/// How many spin-loop hints the first retries back off for.
#[cfg(not(tollgate_loom))]
const SPINS_AT_FIRST: u32 = 16;
/// After how many retries that doubles, and how often: enough for sixty processors.
#[cfg(not(tollgate_loom))]
const RETRIES_A_DOUBLING: u32 = 4;
#[cfg(not(tollgate_loom))]
const DOUBLINGS_MAX: u32 = 4;

/// A bounded wait for another thread: spins, then yields, then sleeps.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    waits: u32,
}

/// Backs off from a contended slot, longer the more retries there were.
///
/// To fetch its cache line from another processor takes longer than ten decisions on it: if all
/// threads retry at once, the line does nothing but travel.
pub(crate) fn back_off(retry: u32) {
    #[cfg(tollgate_loom)]
    {
        let _ = retry;
        loom::thread::yield_now();
    }
    #[cfg(not(tollgate_loom))]
    for _ in 0..SPINS_AT_FIRST << (retry / RETRIES_A_DOUBLING).min(DOUBLINGS_MAX) {
        std::hint::spin_loop();
    }
}

// === impl Backoff ===

impl Backoff {
    /// Waits a moment; fails if it has waited [`WAITS_MAX`] times.
    #[expect(
        clippy::disallowed_methods,
        reason = "the last stage of a backoff: another thread holds the lock"
    )]
    pub(crate) fn wait(&mut self) -> Result<(), StoreError> {
        if self.waits == WAITS_MAX {
            return Err(StoreError::Contended);
        }
        self.waits += 1;
        #[cfg(tollgate_loom)]
        loom::thread::yield_now();
        #[cfg(not(tollgate_loom))]
        if self.waits < SPINS_MAX {
            std::hint::spin_loop();
        } else if self.waits < SPINS_MAX + YIELDS_MAX {
            std::thread::yield_now();
        } else {
            std::thread::sleep(SLEEP);
        }
        Ok(())
    }
}
