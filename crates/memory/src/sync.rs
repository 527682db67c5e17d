//! The atomics of this crate: the standard library's, or the model checker's under `--cfg loom`.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use tollgate_core::StoreError;

/// How often a thread looks again for another's unfinished decision to end before it gives up.
///
/// What is waited for takes well under a microsecond; only a thread that was suspended in the
/// middle of it makes anybody wait for longer, at most for about a second.
#[cfg(not(loom))]
pub(crate) const LOOKS_MAX: u32 = SPINS_MAX + YIELDS_MAX + SLEEPS_MAX;
#[cfg(loom)]
pub(crate) const LOOKS_MAX: u32 = 1 << 13;
/// How many of these looks are made without giving the processor away.
#[cfg(not(loom))]
const SPINS_MAX: u32 = 64;
/// How many after those give it to whoever wants it.
#[cfg(not(loom))]
const YIELDS_MAX: u32 = 256;
/// How many after those sleep, so that many who wait leave the processors to the one that they wait
/// for.
#[cfg(not(loom))]
const SLEEPS_MAX: u32 = 1 << 13;
#[cfg(not(loom))]
const SLEEP: std::time::Duration = std::time::Duration::from_micros(100);
/// Pauses of the processor for which a thread stands aside at first.
#[cfg(not(loom))]
const PAUSES: u32 = 16;
/// After how many turns that doubles, and how often: two processors need no more, sixty do.
#[cfg(not(loom))]
const TURNS_A_DOUBLING: u32 = 4;
#[cfg(not(loom))]
const DOUBLINGS_MAX: u32 = 4;

/// A bounded wait for another thread.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    looks: u32,
}

/// Leaves a contended place to the others for a moment, which is longer the more often it was
/// contended before.
///
/// Its line of memory takes longer to come from another processor than ten decisions on it take:
/// where everybody tries again at once, the line does nothing but travel.
pub(crate) fn stand_aside(turn: u32) {
    #[cfg(loom)]
    {
        let _ = turn;
        loom::thread::yield_now();
    }
    #[cfg(not(loom))]
    for _ in 0..PAUSES << (turn / TURNS_A_DOUBLING).min(DOUBLINGS_MAX) {
        std::hint::spin_loop();
    }
}

// === impl Patience ===

impl Patience {
    /// Waits a moment before the next look.
    pub(crate) fn wait(&mut self) -> Result<(), StoreError> {
        if self.looks == LOOKS_MAX {
            return Err(StoreError::Contended);
        }
        self.looks += 1;
        #[cfg(loom)]
        loom::thread::yield_now();
        #[cfg(not(loom))]
        if self.looks < SPINS_MAX {
            std::hint::spin_loop();
        } else if self.looks < SPINS_MAX + YIELDS_MAX {
            std::thread::yield_now();
        } else {
            std::thread::sleep(SLEEP);
        }
        Ok(())
    }
}
