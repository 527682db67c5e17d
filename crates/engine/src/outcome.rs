//! The outcome of reading rules again, and how often each outcome occurred.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The outcome of reading rules again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All rules are in effect, changed or not.
    InEffect,
    /// Domains with errors stay as they were; if the files cannot be read, all domains do. The log
    /// has the reasons.
    Failed,
}

/// How often rules were read, the first time included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReloadCounts {
    /// How often all rules came into effect.
    pub ok: u64,
    /// How often some or all rules stayed as they were because of errors.
    pub failed: u64,
    /// Whether that is so since they were read last.
    pub is_failing: bool,
}

/// The counters that [`ReloadCounts`] is read from.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    ok: AtomicU64,
    failed: AtomicU64,
    is_failing: AtomicBool,
}

// === impl Outcome ===

impl Outcome {
    /// Its name in metrics and in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::InEffect => "ok",
            Outcome::Failed => "failed",
        }
    }
}

// === impl Reloads ===

impl Reloads {
    pub(crate) fn add(&self, outcome: Outcome) {
        let counter = match outcome {
            Outcome::InEffect => &self.ok,
            Outcome::Failed => &self.failed,
        };
        // Relaxed: a count publishes nothing else.
        counter.fetch_add(1, Ordering::Relaxed);
        let is_failing = outcome == Outcome::Failed;
        self.is_failing.store(is_failing, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> ReloadCounts {
        ReloadCounts {
            ok: self.ok.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            is_failing: self.is_failing.load(Ordering::Relaxed),
        }
    }
}
