//! What a store has done so far.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one store, over all its connections.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    questions: AtomicU64,
    calls: AtomicU64,
    writes: AtomicU64,
    micros: AtomicU64,
    lost: AtomicU64,
    connected: AtomicU64,
    opened: AtomicU64,
    redirected: AtomicU64,
    scripts_loaded: AtomicU64,
    refused_here: AtomicU64,
    fell_back: AtomicU64,
    leased: AtomicU64,
    lease_spent: AtomicU64,
    lease_returned: AtomicU64,
}

/// What a store has done since it was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Decisions that were sent to Redis; those sent again after a redirection count again.
    pub questions: u64,
    /// Script calls that carried them.
    pub calls: u64,
    /// Times that something was written to a connection.
    pub writes: u64,
    /// Microseconds from the writing of a call to its reply, summed over all calls.
    pub call_micros: u64,
    /// Decisions that were sent and got no answer in time.
    pub lost: u64,
    /// Connections that were opened.
    pub connections: u64,
    /// Times that a breaker opened.
    pub breaker_openings: u64,
    /// Decisions that another node had to make.
    pub redirections: u64,
    /// Times that the scripts had to be loaded again.
    pub scripts_loaded: u64,
    /// Decisions that were refused without asking Redis, which had refused them lately.
    pub local_refusals: u64,
    /// Units that were leased.
    pub units_leased: u64,
    /// Decisions that were made on leased units.
    pub lease_decisions: u64,
    /// Leases that went back because nobody used them.
    pub leases_returned: u64,
    /// Decisions that were made without Redis, because it had no answer.
    pub fallbacks: u64,
}

// === impl Stats ===

impl Stats {
    pub(crate) fn called(&self, questions: usize) {
        let questions = u64::try_from(questions).unwrap_or(u64::MAX);
        self.questions.fetch_add(questions, Ordering::Relaxed);
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn wrote(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn replied(&self, after: std::time::Duration) {
        let micros = u64::try_from(after.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connected(&self) {
        self.connected.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn breaker_opened(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn redirected(&self) {
        self.redirected.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn scripts_loaded(&self) {
        self.scripts_loaded.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused_here(&self) {
        self.refused_here.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn leased(&self, units: u64) {
        self.leased.fetch_add(units, Ordering::Relaxed);
    }

    pub(crate) fn decided_on_lease(&self) {
        self.lease_spent.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn lease_returned(&self) {
        self.lease_returned.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn fell_back(&self) {
        self.fell_back.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            questions: read(&self.questions),
            calls: read(&self.calls),
            writes: read(&self.writes),
            call_micros: read(&self.micros),
            lost: read(&self.lost),
            connections: read(&self.connected),
            breaker_openings: read(&self.opened),
            redirections: read(&self.redirected),
            scripts_loaded: read(&self.scripts_loaded),
            local_refusals: read(&self.refused_here),
            units_leased: read(&self.leased),
            lease_decisions: read(&self.lease_spent),
            leases_returned: read(&self.lease_returned),
            fallbacks: read(&self.fell_back),
        }
    }
}
