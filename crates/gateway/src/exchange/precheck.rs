//! What a request must pass before the rules are asked.

use http::request::Parts;
use tollgate_core::RuleName;
use tollgate_http::{Identity, Problem};

use super::{Passage, Stop};
use crate::concurrency_limit::{Exceeded, Permits};
use crate::failure::Failure;
use crate::log_record::LogRecord;

/// The outcome of a request that a concurrency limit denies.
const IN_FLIGHT: &str = "in_flight";

impl Passage<'_> {
    /// The permits that the route's concurrency limits demand.
    pub(super) fn acquire_permits(
        &self,
        identity: &Identity<'_>,
        head: &Parts,
        record: &mut LogRecord,
    ) -> Result<Permits, Stop> {
        let route = self.route;
        match route.in_flight.acquire(identity) {
            Ok(permits) => Ok(permits),
            Err(Exceeded::Keys) => Err(Failure::ManyKeys.into()),
            Err(Exceeded::Limit { name, most }) => {
                let problem = Problem::in_flight(&name, most);
                record.set_rule(|| RuleName {
                    domain: route.domain.clone(),
                    path: format!("{IN_FLIGHT}.{name}"),
                    name: None,
                });
                let response = route.responder.deny_with(problem, &head.headers);
                Err(Stop::Rejected(IN_FLIGHT, Box::new(response)))
            }
        }
    }
}
