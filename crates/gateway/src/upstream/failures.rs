//! The failures of an upstream, counted and logged.

use std::io::{self, ErrorKind};

use tracing::warn;

use super::Upstream;
use crate::connection_pool::ConnectionPool;
use crate::failure::Failure;
use crate::upstream_tls::TlsError;

impl Upstream {
    /// Counts an upstream's failure, and logs it now and then. Failures of clients are not counted
    /// here.
    pub(super) fn report_failure(&self, failure: Failure, pool: &ConnectionPool) -> Failure {
        if failure.is_of_upstream() {
            self.report(failure.kind(), pool, None);
        }
        failure
    }

    pub(super) fn report_unconnected(&self, pool: &ConnectionPool, error: &io::Error) -> Failure {
        let failure = match error.kind() {
            ErrorKind::ResourceBusy => Failure::Busy,
            ErrorKind::TimedOut => Failure::SlowConnect,
            _ if error.get_ref().is_some_and(|cause| cause.is::<TlsError>()) => Failure::Tls,
            _ => Failure::Unreachable,
        };
        if failure.is_of_upstream() {
            self.report(failure.kind(), pool, Some(error));
        }
        failure
    }

    /// Counts a failure of an address, and logs it now and then.
    fn report(&self, kind: &'static str, pool: &ConnectionPool, reason: Option<&io::Error>) {
        self.metrics.count_failure(kind);
        let (upstream, address) = (self.name.as_str(), pool.address());
        let avoided_for = pool.health.record_failure();
        if let Some(avoided_for) = avoided_for.filter(|_| self.pools.len() > 1) {
            warn!(
                upstream,
                address,
                ?avoided_for,
                "an address failed several times, so others are tried first"
            );
        }
        if let Some(withheld) = self.warnings.allow() {
            let reason = reason.map(tracing::field::display);
            warn!(
                upstream,
                address, kind, reason, withheld, "no answer from an upstream"
            );
        }
    }
}
