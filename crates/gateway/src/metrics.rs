//! What the gateway counts: requests by route and outcome, errors and times of upstreams.

use std::collections::BTreeSet;
use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// The name of the counter of requests, with the labels `route` and `outcome`.
pub const REQUESTS: &str = "gateway_requests";
/// The name of the counter of attempts, each retry included, that an upstream did not answer, with
/// the labels `upstream` and `kind`.
pub const UPSTREAM_ERRORS: &str = "gateway_upstream_errors";
/// The name of the histogram of the times of answers, with the label `upstream`.
pub const UPSTREAM_SECONDS: &str = "gateway_upstream_seconds";

/// The label `route` of requests that match no route.
const NO_ROUTE: &str = "";

mod clients;

mod lists;

mod load;

mod owners;

mod unsettled;

mod upstream;

use clients::{ClientLabels, ClientMetrics};
pub(crate) use lists::ListMetrics;
use load::AllLoadMetrics;
pub(crate) use load::LoadMetrics;
pub(crate) use owners::OwnerName;
use owners::{Owner, Owners};
pub(crate) use unsettled::Unsettled;
use unsettled::UnsettledLabels;
use upstream::Checks;
pub(crate) use upstream::{CheckMetrics, UpstreamMetrics};

/// All metrics of a gateway.
#[derive(Debug)]
pub(crate) struct Metrics {
    requests: Requests,
    errors: Errors,
    seconds: Family<UpstreamLabel, Histogram, fn() -> Histogram>,
    tunnels: Family<RouteLabel, Gauge>,
    unsettled: Family<UnsettledLabels, Counter>,
    clients: Family<ClientLabels, Counter>,
    checks: Checks,
    retries: Family<RetryLabels, Counter>,
    dropped_lines: Family<ReasonLabel, Counter>,
    reloads: Family<OutcomeLabel, Counter>,
    in_flight: Family<LimitLabel, Gauge>,
    lists: ListMetrics,
    load: AllLoadMetrics,
    in_flight_denied: Family<LimitLabel, Counter>,
    owners: Arc<Owners>,
}

type Requests = Family<[(&'static str, String); 2], Counter>;
type Errors = Family<[(&'static str, String); 2], Counter>;
type RetryLabels = [(&'static str, String); 2];
type OutcomeLabel = [(&'static str, &'static str); 1];
type ReasonLabel = [(&'static str, &'static str); 1];
type LimitLabel = [(&'static str, String); 1];
type UpstreamLabel = [(&'static str, String); 1];
type RouteLabel = [(&'static str, String); 1];

/// Those of one route.
#[derive(Debug)]
pub(crate) struct RouteMetrics {
    name: String,
    requests: Requests,
    forwarded: Counter,
    denied: Counter,
    canceled: Counter,
    tunnels: Gauge,
    unsettled: Unsettled,
    clients: ClientMetrics,
    owner: Arc<Owner>,
}

// === impl Metrics ===

impl Metrics {
    pub(crate) fn new() -> Metrics {
        Metrics {
            requests: Family::default(),
            errors: Family::default(),
            seconds: Family::new_with_constructor(latency_buckets),
            tunnels: Family::default(),
            unsettled: Family::default(),
            clients: Family::default(),
            checks: Checks::default(),
            retries: Family::default(),
            dropped_lines: Family::default(),
            reloads: Family::default(),
            in_flight: Family::default(),
            lists: ListMetrics::default(),
            load: AllLoadMetrics::default(),
            in_flight_denied: Family::default(),
            owners: Arc::default(),
        }
    }

    /// Removes the series of routes, upstreams, addresses and concurrency limits that have none of
    /// these names. Requests that began before do not make them again.
    pub(crate) fn retain(&self, names: &BTreeSet<OwnerName>) {
        self.owners.retain(names);
    }

    /// Registers the requests by route, and the errors and times of upstreams.
    pub(crate) fn register_main(&self, registry: &mut Registry) {
        registry.register(
            REQUESTS,
            "Requests to the gateway, by route and outcome",
            self.requests.clone(),
        );
        registry.register(
            UPSTREAM_ERRORS,
            "Attempts, each retry included, that an upstream did not answer, by upstream and kind",
            self.errors.clone(),
        );
        registry.register(
            UPSTREAM_SECONDS,
            "Time from passing on a request to the head of its response",
            self.seconds.clone(),
        );
    }

    /// Registers all metrics, whose names begin with `gateway`.
    pub(crate) fn register(&self, registry: &mut Registry) {
        self.register_main(registry);
        registry.register(
            "gateway_tunnels",
            "Connections that have switched protocols and are open, by route",
            self.tunnels.clone(),
        );
        registry.register(
            "gateway_unsettled",
            "Requests that were charged what they had reserved, by route and reason",
            self.unsettled.clone(),
        );
        registry.register(
            "gateway_client_fallbacks",
            "Requests whose client is taken to be the connection's peer, by route and reason",
            self.clients.clone(),
        );
        registry.register(
            "gateway_upstream_retries",
            "Retries of requests, by upstream and outcome: sent or over_budget",
            self.retries.clone(),
        );
        registry.register(
            "gateway_upstream_healthy",
            "Whether requests go to an address whose health is checked: 1 or 0",
            self.checks.healthy.clone(),
        );
        registry.register(
            "gateway_health_checks",
            "Health checks, by address and outcome: passed or failed",
            self.checks.done.clone(),
        );
        registry.register(
            "gateway_access_log_dropped",
            "Lines missing in the access log, by reason: queue_full or write_error",
            self.dropped_lines.clone(),
        );
        self.lists.register(registry);
        self.load.register(registry);
        registry.register(
            "gateway_reloads",
            "Changed settings of the gateway: in_effect, or failed",
            self.reloads.clone(),
        );
        registry.register(
            "gateway_in_flight",
            "Requests in flight that a concurrency limit counts",
            self.in_flight.clone(),
        );
        registry.register(
            "gateway_in_flight_denied",
            "Requests that a concurrency limit denied",
            self.in_flight_denied.clone(),
        );
    }

    /// Changed settings were applied, or could not be used.
    pub(crate) fn count_reload(&self, is_in_effect: bool) {
        let outcome = if is_in_effect { "in_effect" } else { "failed" };
        self.reloads.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// The counter of lines that the access log lacks for this reason.
    pub(crate) fn dropped_lines(&self, reason: &'static str) -> Counter {
        self.dropped_lines
            .get_or_create_owned(&[("reason", reason)])
    }

    /// Those of the allow and deny lists.
    pub(crate) fn lists(&self) -> ListMetrics {
        self.lists.clone()
    }

    /// The gauge of the requests in flight under a concurrency limit.
    pub(crate) fn in_flight(&self, limit: &str) -> Gauge {
        let owner = self.owners.of(OwnerName::InFlight(limit.to_owned()));
        owner.create(&self.in_flight, &[("limit", limit.to_owned())])
    }

    /// The counter of its denials.
    pub(crate) fn in_flight_denied(&self, limit: &str) -> Counter {
        let owner = self.owners.of(OwnerName::InFlight(limit.to_owned()));
        owner.create(&self.in_flight_denied, &[("limit", limit.to_owned())])
    }

    pub(crate) fn route(&self, name: &str) -> RouteMetrics {
        let owner = self.owners.of(OwnerName::Route(name.to_owned()));
        let counter = |outcome| owner.create(&self.requests, &labels(name, outcome));
        RouteMetrics {
            name: name.to_owned(),
            requests: self.requests.clone(),
            forwarded: counter("forwarded"),
            denied: counter("denied"),
            canceled: counter("canceled"),
            tunnels: owner.create(&self.tunnels, &[("route", name.to_owned())]),
            unsettled: Unsettled::new(name, self.unsettled.clone(), Arc::clone(&owner)),
            clients: ClientMetrics::new(name, self.clients.clone(), Arc::clone(&owner)),
            owner,
        }
    }

    pub(crate) fn upstream(&self, name: &str) -> UpstreamMetrics {
        let owner = self.owners.of(OwnerName::Upstream(name.to_owned()));
        UpstreamMetrics {
            name: name.to_owned(),
            errors: self.errors.clone(),
            checks: self.checks.clone(),
            retries: self.retries.clone(),
            seconds: owner.create(&self.seconds, &[("upstream", name.to_owned())]),
            owner,
            owners: Arc::clone(&self.owners),
        }
    }

    /// Those of an upstream's load.
    pub(crate) fn load(&self, upstream: &str) -> LoadMetrics {
        self.load.of(upstream)
    }

    /// Counts a request that failed before its route was known.
    pub(crate) fn count_failure(&self, kind: &'static str) {
        self.requests.get_or_create(&labels(NO_ROUTE, kind)).inc();
    }
}

fn labels(route: &str, outcome: &str) -> [(&'static str, String); 2] {
    [("route", route.to_owned()), ("outcome", outcome.to_owned())]
}

/// From 0.5 ms to about 16 s, each bucket twice as wide as the one before.
fn latency_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.000_5, 2.0, 16))
}

// === impl RouteMetrics ===

impl RouteMetrics {
    /// The route's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What counts reservations that are not settled.
    pub(crate) fn unsettled_counter(&self) -> Unsettled {
        self.unsettled.clone()
    }

    /// What counts clients that the settings do not find.
    pub(crate) const fn clients(&self) -> &ClientMetrics {
        &self.clients
    }

    /// An upstream has answered.
    pub(crate) fn count_forwarded(&self) {
        self.forwarded.inc();
    }

    /// A limit denied the request.
    pub(crate) fn count_denial(&self) {
        self.denied.inc();
    }

    /// The client went away before there was an answer.
    pub(crate) fn count_canceled(&self) {
        self.canceled.inc();
    }

    /// How many of its connections have switched protocols and are open.
    pub(crate) const fn tunnels(&self) -> &Gauge {
        &self.tunnels
    }

    /// The gateway has answered, for this reason.
    pub(crate) fn count_failure(&self, kind: &'static str) {
        let labels = labels(&self.name, kind);
        self.owner.count(&self.requests, &labels);
    }
}

#[cfg(test)]
mod tests;
