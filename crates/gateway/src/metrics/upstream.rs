//! What is counted of one upstream, and of the health checks of its addresses.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::owners::{Owner, OwnerName, Owners};
use super::{Errors, RetryLabels};

type AddressLabels = [(&'static str, String); 2];
type CheckLabels = [(&'static str, String); 3];

/// Those of all health checks.
#[derive(Clone, Debug, Default)]
pub(super) struct Checks {
    pub(super) healthy: Family<AddressLabels, Gauge>,
    pub(super) done: Family<CheckLabels, Counter>,
}

/// Those of one address's health checks.
#[derive(Debug)]
pub(crate) struct CheckMetrics {
    healthy: Gauge,
    passed: Counter,
    failed: Counter,
}

/// Those of one upstream.
#[derive(Debug)]
pub(crate) struct UpstreamMetrics {
    pub(super) name: String,
    pub(super) errors: Errors,
    pub(super) seconds: Histogram,
    pub(super) checks: Checks,
    pub(super) retries: Family<RetryLabels, Counter>,
    pub(super) owner: Arc<Owner>,
    pub(super) owners: Arc<Owners>,
}

// === impl UpstreamMetrics ===

impl UpstreamMetrics {
    /// An upstream has answered after this time.
    pub(crate) fn record_answer(&self, took: Duration) {
        self.seconds.observe(took.as_secs_f64());
    }

    /// A request would be sent again: it is, or it is not.
    pub(crate) fn count_retry(&self, outcome: &'static str) {
        let labels = [
            ("upstream", self.name.clone()),
            ("outcome", outcome.to_owned()),
        ];
        self.owner.count(&self.retries, &labels);
    }

    /// Those of the health checks of one of its addresses.
    pub(crate) fn checks(&self, address: &str) -> CheckMetrics {
        let place = || {
            [
                ("upstream", self.name.clone()),
                ("address", address.to_owned()),
            ]
        };
        let owner = self.owners.of(OwnerName::Checked {
            upstream: self.name.clone(),
            address: address.to_owned(),
        });
        let counter = |outcome: &str| {
            let [upstream, address] = place();
            let labels = [upstream, address, ("outcome", outcome.to_owned())];
            owner.create(&self.checks.done, &labels)
        };
        let (passed, failed) = (counter("passed"), counter("failed"));
        let healthy = owner.create(&self.checks.healthy, &place());
        // Requests go there until a check has failed.
        healthy.set(1);
        CheckMetrics {
            healthy,
            passed,
            failed,
        }
    }

    /// An upstream has not answered, or not completely.
    pub(crate) fn count_failure(&self, kind: &'static str) {
        let labels = [("upstream", self.name.clone()), ("kind", kind.to_owned())];
        self.owner.count(&self.errors, &labels);
    }
}

// === impl CheckMetrics ===

impl CheckMetrics {
    /// A check has ended.
    pub(crate) fn record(&self, passed: bool) {
        match passed {
            true => self.passed.inc(),
            false => self.failed.inc(),
        };
    }

    /// Requests go to the address from now on, or not any more.
    pub(crate) fn set_healthy(&self, is_healthy: bool) {
        self.healthy.set(i64::from(is_healthy));
    }
}
