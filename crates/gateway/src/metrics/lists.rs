//! What is counted of the allow and deny lists.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tollgate_http::{AccessList, Listing};

/// How often the lists were read, what is in them, and which requests they decided.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListMetrics {
    loads: Family<[(&'static str, &'static str); 1], Counter>,
    rejected: Gauge,
    entries: Family<[(&'static str, &'static str); 1], Gauge>,
    allowed: Counter,
    denied: Counter,
}

// === impl ListMetrics ===

impl ListMetrics {
    /// Registers them, with names that begin with `gateway_list`.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "gateway_list_loads",
            "How often lists were read that had changed: ok, or failed if the previous ones stay",
            self.loads.clone(),
        );
        registry.register(
            "gateway_lists_rejected",
            "1 while a list cannot be used, so that the previous ones stay in effect",
            self.rejected.clone(),
        );
        registry.register(
            "gateway_list_entries",
            "Entries of the lists in effect",
            self.entries.clone(),
        );
        registry.register(
            "gateway_list_allowed",
            "Requests to which no limit applied, because of an allow list",
            self.allowed.clone(),
        );
        registry.register(
            "gateway_list_denied",
            "Requests that a deny list denied",
            self.denied.clone(),
        );
    }

    /// These lists are in effect.
    pub(crate) fn record_load(&self, list: &AccessList) {
        self.loads.get_or_create(&[("outcome", "ok")]).inc();
        self.rejected.set(0);
        for (name, listing) in [("allow", Listing::Allow), ("deny", Listing::Deny)] {
            let count = i64::try_from(list.count(listing)).unwrap_or(i64::MAX);
            self.entries.get_or_create(&[("list", name)]).set(count);
        }
    }

    /// The lists could not be used.
    pub(crate) fn count_failure(&self) {
        self.loads.get_or_create(&[("outcome", "failed")]).inc();
        self.rejected.set(1);
    }

    /// A request was on a list.
    pub(crate) fn count(&self, listing: Listing) {
        match listing {
            Listing::Allow => self.allowed.inc(),
            Listing::Deny => self.denied.inc(),
        };
    }
}
