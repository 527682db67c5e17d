//! What a request must pass before the rules are asked.

use http::StatusCode;
use http::request::Parts;
use tollgate_core::RuleName;
use tollgate_http::{Identity, Listing, Problem};

use super::{Passage, Stop};
use crate::concurrency_limit::{Exceeded, Permits};
use crate::failure::Failure;
use crate::log_record::LogRecord;

/// The outcome of a request that a concurrency limit denies.
const IN_FLIGHT: &str = "in_flight";

/// The outcome of a request that a deny list denies.
const DENY_LISTED: &str = "deny_listed";

impl Passage<'_> {
    /// Which list the client's address is on. Denies it before anything else of the request is
    /// read.
    pub(super) fn check_address(
        &self,
        head: &Parts,
        record: &mut LogRecord,
    ) -> Result<Option<Listing>, Stop> {
        let Some(lists) = self.terms.lists() else {
            return Ok(None);
        };
        let Some(address) = self.client.address else {
            return Ok(None);
        };
        let list = lists.current();
        let mut found = list.find_address(address);
        // The limits see the IPv4 address that it stands for.
        let addresses = self.route.classifier.client_address();
        let unmapped = addresses.unmap(address);
        if unmapped != address {
            found = prefer(found, list.find_address(unmapped));
        }
        match found {
            Some(Listing::Deny) => Err(self.deny_listed("address", head, record)),
            found => Ok(found),
        }
    }

    /// The same for its descriptors. A denial beats the list that the address is on.
    pub(super) fn check_descriptors(
        &self,
        of_address: Option<Listing>,
        identity: &Identity<'_>,
        head: &Parts,
        record: &mut LogRecord,
    ) -> Result<Option<Listing>, Stop> {
        let Some(lists) = self.terms.lists() else {
            return Ok(None);
        };
        let list = lists.current();
        let mut found = of_address;
        let descriptors = identity.descriptors.iter();
        for entry in descriptors.flat_map(|one| &one.entries) {
            let listing = list.find_entry(entry.key.as_bytes(), &entry.value);
            if listing == Some(Listing::Deny) {
                return Err(self.deny_listed(entry.key, head, record));
            }
            found = found.or(listing);
        }
        if let Some(listing) = found {
            lists.metrics().count(listing);
        }
        Ok(found)
    }

    /// What a client on a deny list gets, because of what it is called `by`.
    fn deny_listed(&self, by: &str, head: &Parts, record: &mut LogRecord) -> Stop {
        if let Some(lists) = self.terms.lists() {
            lists.metrics().count(Listing::Deny);
        }
        record.set_rule(|| RuleName {
            domain: self.route.domain.clone(),
            path: format!("{DENY_LISTED}.{by}"),
            name: None,
        });
        let problem = Problem::new(StatusCode::FORBIDDEN, "this client is on a deny list");
        let response = self
            .route
            .responder
            .fail(&problem, &head.method, &head.headers);
        Stop::Rejected(DENY_LISTED, Box::new(response))
    }

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
                let response = route
                    .responder
                    .deny_with(problem, &head.method, &head.headers);
                Err(Stop::Rejected(IN_FLIGHT, Box::new(response)))
            }
        }
    }
}

/// A denial, or else any listing.
fn prefer(one: Option<Listing>, other: Option<Listing>) -> Option<Listing> {
    match (one, other) {
        (Some(Listing::Deny), _) | (_, Some(Listing::Deny)) => Some(Listing::Deny),
        _ => one.or(other),
    }
}
