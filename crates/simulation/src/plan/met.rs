//! The limits of a counter, as requests meet them.

use tollgate_core::Limit;

use super::{Counter, View};

// === impl Counter ===

impl Counter {
    /// Whether a share of the limit is kept for requests with priority.
    pub(crate) fn keeps_share(&self) -> bool {
        self.limits[0].priority_percent() != 0
    }

    /// Whether a part of the limit is there only while there is headroom.
    pub(crate) fn is_elastic(&self) -> bool {
        self.limits[0].elastic_percent() != 0
    }

    /// A version of the limit, as such requests meet it.
    pub(crate) fn as_met(&self, limit: &Limit, view: View) -> Limit {
        let mut met = *limit;
        if self.keeps_share() && view.has_priority {
            met = met.for_priority();
        }
        if self.is_elastic() && view.has_headroom {
            met = met.with_headroom();
        }
        met
    }

    /// The version of the limit that a request has met so, as such requests would meet it.
    pub(crate) fn meet_again(&self, met: &Limit, view: View) -> Limit {
        let is_version = |limit: &&Limit| {
            let mut views = View::ALL.into_iter();
            views.any(|view| self.as_met(limit, view) == *met)
        };
        let version = self.limits.iter().find(is_version);
        self.as_met(version.unwrap_or(met), view)
    }

    /// Whether such requests can use all of the limit, in every version.
    pub(crate) fn is_whole(&self, view: View) -> bool {
        let mut limits = self.limits.iter();
        limits.all(|limit| self.as_met(limit, view).unavailable() == 0)
    }
}
