//! What changes of a limiter over Redis.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::Limit;

use crate::limiter::CurrentTerms;

/// What changes of a limiter, which its reservations share: they may outlive it.
#[derive(Debug)]
pub(in crate::redis) struct State {
    pub(in crate::redis) terms: CurrentTerms,
    failures: AtomicU64,
}

// === impl State ===

impl State {
    pub(super) fn new(limit: Limit) -> State {
        State {
            terms: CurrentTerms::new(limit),
            failures: AtomicU64::new(0),
        }
    }

    /// How often there was no decision and no settlement.
    pub(super) fn failures(&self) -> u64 {
        // Relaxed, here and below: a count for reports, which publishes nothing.
        self.failures.load(Ordering::Relaxed)
    }

    pub(in crate::redis) fn count_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }
}
