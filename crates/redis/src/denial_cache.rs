//! The stage that denies locally, from the denial cache.

use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;

use crate::denials::Denials;
use crate::leases::Spend;
use crate::stage::{Request, Stage};
use crate::stats::Stats;

/// Denies keys that Redis denied recently.
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

    /// Denies a request that Redis would certainly deny.
    pub(crate) fn decide(&self, request: &Request<'_>, spend: &Spend) -> Stage<()> {
        // A denial must not drop a renewal that holds leased units.
        let only = request.only.as_ref().filter(|_| !spend.holds_units());
        match only.and_then(|only| self.denials.deny(only, request.since)) {
            Some(verdict) => Break(Ok(verdict)),
            None => Continue(()),
        }
    }

    /// The cached denials.
    pub(crate) const fn denials(&self) -> &Denials {
        &self.denials
    }
}
