//! Denies what Redis denied lately.

use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;

use tollgate_core::Key;

use crate::denials::Denials;
use crate::leases::Spend;
use crate::stage::{Request, Stage};
use crate::stats::Stats;

/// Denies what Redis denied lately.
pub(crate) struct DenialCache {
    denials: Denials,
}

// === impl DenialCache ===

impl DenialCache {
    pub(crate) fn new(is_enabled: bool, stats: Arc<Stats>) -> DenialCache {
        DenialCache {
            denials: Denials::new(is_enabled, stats),
        }
    }

    /// Denies what Redis would deny for sure.
    pub(crate) fn decide(&self, request: &Request<'_>, spend: &Spend) -> Stage<()> {
        // A lease that is to be renewed is not given up for a denial.
        let only = request.only.as_ref().filter(|_| !spend.holds_some());
        match only.and_then(|only| self.denials.deny(only, request.since)) {
            Some(verdict) => Break(Ok(verdict)),
            None => Continue(()),
        }
    }

    /// What is remembered.
    pub(crate) const fn denials(&self) -> &Denials {
        &self.denials
    }

    /// The key was reset.
    pub(crate) fn forget(&self, key: Key) {
        self.denials.forget(key);
    }
}
