//! What is counted of reservations that are not settled.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::owners::Owner;

pub(super) type UnsettledLabels = [(&'static str, String); 2];

/// Counts requests of a route that were charged what they had reserved, because it is not known
/// what they cost.
#[derive(Clone, Debug)]
pub(crate) struct Unsettled {
    route: Arc<str>,
    counters: Family<UnsettledLabels, Counter>,
    owner: Arc<Owner>,
}

// === impl Unsettled ===

impl Unsettled {
    pub(super) fn new(
        route: &str,
        counters: Family<UnsettledLabels, Counter>,
        owner: Arc<Owner>,
    ) -> Unsettled {
        Unsettled {
            route: route.into(),
            counters,
            owner,
        }
    }

    /// A request was charged what it had reserved, for this reason.
    pub(crate) fn count(&self, reason: &'static str) {
        self.owner.count(&self.counters, &self.labels(reason));
    }

    /// How many were, for this reason.
    #[cfg(test)]
    pub(crate) fn value(&self, reason: &'static str) -> u64 {
        self.counters.get_or_create(&self.labels(reason)).get()
    }

    fn labels(&self, reason: &'static str) -> UnsettledLabels {
        [
            ("route", self.route.as_ref().to_owned()),
            ("reason", reason.to_owned()),
        ]
    }
}
