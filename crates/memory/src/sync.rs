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
/// For how many spin-loop hints a decision backs off from the first losses.
#[cfg(not(tollgate_loom))]
const SPINS_AT_FIRST: u32 = 16;
/// After how many losses that doubles, and how often: enough for sixty processors.
#[cfg(not(tollgate_loom))]
const LOSSES_A_DOUBLING: u32 = 4;
#[cfg(not(tollgate_loom))]
const DOUBLINGS_MAX: u32 = 4;

/// How long a decision has backed off from other threads so far.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    /// How often it has waited for a lock.
    waits: u32,
    /// How often it has lost a compare-and-swap.
    losses: u32,
}

// === impl Backoff ===

impl Backoff {
    /// Waits a moment for another thread to unlock: spins, then yields, then sleeps. Fails if it
    /// has waited [`WAITS_MAX`] times.
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

    /// Spins a moment after another thread has committed first, longer the more often that was so.
    /// That thread has made progress, so this never fails.
    ///
    /// To fetch a slot's cache line from another processor takes longer than ten decisions on it:
    /// if all threads retry at once, the line does nothing but travel.
    #[inline]
    pub(crate) fn spin(&mut self) {
        #[cfg(tollgate_loom)]
        loom::thread::yield_now();
        #[cfg(not(tollgate_loom))]
        for _ in 0..SPINS_AT_FIRST << (self.losses / LOSSES_A_DOUBLING).min(DOUBLINGS_MAX) {
            std::hint::spin_loop();
        }
        self.losses = self.losses.saturating_add(1);
    }
}
