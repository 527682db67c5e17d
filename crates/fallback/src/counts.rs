//! How many requests the shared store did not decide.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::OnStoreError;

/// How many requests were decided without the shared store, by what decided them.
///
/// A request with several limits counts once: as denied if a limit denies it, otherwise as decided
/// locally if a limit asks for that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FallbackCounts {
    /// Allowed without a decision: `on_store_error: allow`.
    pub allowed: u64,
    /// Denied: `deny`.
    pub denied: u64,
    /// Answered with the store's error: `error`.
    pub failed: u64,
    /// Decided on this instance's share: `local`.
    pub local: u64,
}

/// The counters that [`FallbackCounts`] is read from.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    allowed: AtomicU64,
    denied: AtomicU64,
    failed: AtomicU64,
    local: AtomicU64,
}

// === impl FallbackCounts ===

impl FallbackCounts {
    /// The sum of all counts.
    pub const fn total(&self) -> u64 {
        self.allowed + self.denied + self.failed + self.local
    }
}

// === impl Counters ===

impl Counters {
    pub(crate) fn add(&self, choice: OnStoreError) {
        let counter = match choice {
            OnStoreError::Allow => &self.allowed,
            OnStoreError::Deny => &self.denied,
            OnStoreError::Error => &self.failed,
            OnStoreError::Local => &self.local,
        };
        // Relaxed: a count publishes nothing else.
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> FallbackCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FallbackCounts {
            allowed: read(&self.allowed),
            denied: read(&self.denied),
            failed: read(&self.failed),
            local: read(&self.local),
        }
    }
}
