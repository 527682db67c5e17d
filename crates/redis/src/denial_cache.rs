//! The stage that denies locally, from the denial cache.

use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;

use crate::caches::Caches;
use crate::leases::Spend;
use crate::stage::{Request, Stage};

/// Denies keys that Redis denied recently.
pub(crate) struct DenialCache {
    caches: Arc<Caches>,
}

// === impl DenialCache ===

impl DenialCache {
    pub(crate) const fn new(caches: Arc<Caches>) -> DenialCache {
        DenialCache { caches }
    }

    /// Denies a request that Redis would certainly deny.
    pub(crate) fn decide(&self, request: &Request<'_>, spend: &Spend) -> Stage<()> {
        // A denial must not drop a renewal that holds leased units.
        let only = request.only.as_ref().filter(|_| !spend.holds_units());
        match only.and_then(|only| self.caches.denials().deny(only, request.turn.since)) {
            Some(verdict) => Break(Ok(verdict)),
            None => Continue(()),
        }
    }
}
