//! Counters, gauges and histograms, for Prometheus.

use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tollgate_core::DESCRIPTORS_MAX;
use tollgate_engine::Engine;
use tollgate_gateway::Gateway;
use tollgate_listen::{Budget, Limits};
use tollgate_telemetry::{RequestSpan, TelemetryCounts};
use tracing::warn;

use crate::config::ListenerKind;
use crate::host::HostPressure;
use crate::redis_protocol::ThrottleStore;

use exemplars::Exemplars;
pub(crate) use gateway::GatewayFigures;

mod budget;

mod decisions;

mod exemplars;

mod headroom;

mod gateway;

mod latency;

mod log;

mod process;

mod reloads;

mod scrape;

mod stores;

mod telemetry;

mod text;

mod throttles;

/// All metrics.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    latency: Family<ListenerLabel, Histogram, fn() -> Histogram>,
    exemplars: Exemplars,
    /// Those of `latency`, each found without hashing the label and without a lock.
    latency_of: [OnceLock<Histogram>; ListenerKind::ALL.len()],
    /// The same alone, to read it without all others.
    latency_alone: Registry,
    /// What a dashboard shows of the gateway, if there is one.
    gateway_alone: Option<Registry>,
    errors: Family<ErrorLabel, Counter>,
    left_out: Family<ListenerLabel, Counter>,
    auth_fallbacks: Family<[(&'static str, &'static str); 1], Counter>,
    connections: Family<ListenerLabel, Gauge>,
    closed: Family<ClosedLabel, Counter>,
    responses_reset: Family<ListenerLabel, Counter>,
    certificate_expiry: Family<ListenerLabel, Gauge>,
    certificate_loads: Family<LoadLabel, Counter>,
    certificate_rejected: Family<ListenerLabel, Gauge>,
    settings_rejected: Gauge,
}

/// A listener, by its name in the settings.
pub(crate) type ListenerName = &'static str;

type ListenerLabel = [(&'static str, ListenerName); 1];
type ErrorLabel = [(&'static str, &'static str); 2];
type ClosedLabel = [(&'static str, &'static str); 2];
type LoadLabel = [(&'static str, &'static str); 2];

fn register_build(registry: &mut Registry) {
    let build = Family::<[(&str, &str); 1], Gauge>::default();
    build
        .get_or_create(&[("version", env!("CARGO_PKG_VERSION"))])
        .set(1);
    registry.register("build_info", "Always 1; the label has the version", build);
}

/// The metrics that are read from the engine at each scrape, but for those of elastic limits.
fn register_engine(registry: &mut Registry, engine: &Arc<Engine>) {
    let of = Arc::clone(engine);
    scrape::register(registry, move |to| reloads::write(&of, to));
    let of = Arc::clone(engine);
    scrape::register(registry, move |to| decisions::write(&of, to));
    let of = Arc::clone(engine);
    scrape::register(registry, move |to| stores::write(&of, to));
}

/// The main metrics of a gateway, in a registry that has no others.
fn register_alone(gateway: &Gateway) -> Registry {
    let mut alone = Registry::default();
    gateway.register_main(&mut alone);
    alone
}

// === impl Metrics ===

impl Metrics {
    /// Registers every metric of the service, and the collectors that read the engine and the
    /// budget when they are scraped.
    pub(crate) fn new(
        engine: &Arc<Engine>,
        budget: &Arc<Budget>,
        limits: &Limits,
        host: &Arc<HostPressure>,
        gateway: Option<&Gateway>,
        throttles: Option<&Arc<ThrottleStore>>,
    ) -> Metrics {
        let mut all = Registry::default();
        scrape::register(&mut all, process::write);
        let registry = all.sub_registry_with_prefix("tollgate");
        let mut metrics = Metrics {
            latency: Family::new_with_constructor(latency_buckets),
            exemplars: Exemplars::new(latency_bounds()),
            latency_of: Default::default(),
            errors: Family::default(),
            left_out: Family::default(),
            auth_fallbacks: Family::default(),
            connections: Family::default(),
            closed: Family::default(),
            responses_reset: Family::default(),
            certificate_expiry: Family::default(),
            certificate_loads: Family::default(),
            certificate_rejected: Family::default(),
            settings_rejected: Gauge::default(),
            latency_alone: Registry::default(),
            gateway_alone: gateway.map(register_alone),
            registry: Registry::default(),
        };
        metrics.register_requests(registry);
        let connections = metrics.connections.clone();
        registry.register("connections", "Open connections", connections);
        registry.register(
            "connections_closed",
            "Connections that the service closed, by listener and reason",
            metrics.closed.clone(),
        );
        registry.register(
            "responses_reset",
            "Responses over HTTP/2 that were reset because their client did not take them",
            metrics.responses_reset.clone(),
        );
        metrics.register_certificates(registry);
        registry.register(
            "settings_rejected",
            "1 while the settings file has errors, with which a restart would fail",
            metrics.settings_rejected.clone(),
        );
        register_engine(registry, engine);
        register_build(registry);
        scrape::register(registry, log::write);
        let (of, host) = (Arc::clone(engine), Arc::clone(host));
        scrape::register(registry, move |to| headroom::write(&of, &host, to));
        let (limits, budget) = (*limits, Arc::clone(budget));
        scrape::register(registry, move |to| budget::write(&limits, &budget, to));
        if let Some(gateway) = gateway {
            gateway.register(registry);
        }
        if let Some(throttles) = throttles {
            let throttles = Arc::clone(throttles);
            scrape::register(registry, move |to| throttles::write(&throttles, to));
        }
        metrics.register_latency_alone();
        Metrics {
            registry: all,
            ..metrics
        }
    }

    /// The same with counts of what is exported, if anything is.
    pub(crate) fn with_telemetry(mut self, counts: Option<TelemetryCounts>) -> Metrics {
        if let Some(counts) = counts {
            let registry = self.registry.sub_registry_with_prefix("tollgate");
            scrape::register(registry, move |to| telemetry::write(&counts, to));
        }
        self
    }

    /// The times of decisions by listener, as cumulative counts by upper bound in seconds.
    pub(crate) fn latency(&self) -> latency::Buckets {
        latency::buckets(&self.latency_alone)
    }

    /// What the gateway did until now; `None` without a gateway.
    pub(crate) fn gateway(&self) -> Option<GatewayFigures> {
        self.gateway_alone.as_ref().map(gateway::figures)
    }

    fn register_latency_alone(&mut self) {
        let latency = self.latency.clone();
        self.latency_alone.register(latency::NAME, "", latency);
    }

    /// Registers what is counted of requests.
    fn register_requests(&self, registry: &mut Registry) {
        registry.register(
            "decision_seconds",
            "Time from reading a request completely to its answer",
            self.latency.clone(),
        );
        registry.register(
            "request_errors",
            "Requests that were answered with an error, by listener and kind",
            self.errors.clone(),
        );
        registry.register(
            "descriptors_left_out",
            "Descriptors that were ignored, because their request has more than 128",
            self.left_out.clone(),
        );
        registry.register(
            "auth_client_fallbacks",
            "Requests at /v1/auth that count as the proxy's, because it does not name their client",
            self.auth_fallbacks.clone(),
        );
    }

    fn register_certificates(&self, registry: &mut Registry) {
        registry.register(
            "certificate_expiry_timestamp_seconds",
            "When the certificate of a listener expires, in seconds since 1970",
            self.certificate_expiry.clone(),
        );
        registry.register(
            "certificate_loads",
            "Reads of changed certificates: ok, or failed if the previous one stays in effect",
            self.certificate_loads.clone(),
        );
        registry.register(
            "certificate_rejected",
            "1 while the files of a listener's certificate cannot be used",
            self.certificate_rejected.clone(),
        );
    }

    /// All metrics with their exemplars, in OpenMetrics' text format.
    pub(crate) fn text(&self) -> String {
        self.exemplars.add_to(self.encode())
    }

    /// What writes [`Metrics::text`], on another thread.
    pub(crate) fn source(self: &Arc<Metrics>) -> impl Fn() -> String + Send + Sync + 'static {
        let metrics = Arc::clone(self);
        move || metrics.text()
    }

    fn encode(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)
            .expect("a String takes everything");
        text
    }

    /// All metrics, in Prometheus's text format.
    pub(crate) fn plain_text(&self) -> String {
        text::prometheus(&self.encode())
    }

    /// Records the time of one decision, on the request with this span.
    pub(crate) fn record_decision(
        &self,
        listener: ListenerName,
        took: Duration,
        span: &RequestSpan,
    ) {
        let found = || {
            let histogram = self.latency.get_or_create(&[("listener", listener)]);
            histogram.clone()
        };
        let mut kinds = ListenerKind::ALL.iter().zip(&self.latency_of);
        match kinds.find(|(kind, _)| kind.name() == listener) {
            Some((_, histogram)) => histogram.get_or_init(found).observe(took.as_secs_f64()),
            None => found().observe(took.as_secs_f64()),
        }
        self.exemplars.record(listener, took, span);
    }

    /// Counts a request that was answered with an error.
    pub(crate) fn count_error(&self, listener: ListenerName, kind: &'static str) {
        let labels = [("listener", listener), ("kind", kind)];
        self.errors.get_or_create(&labels).inc();
    }

    /// Counts a request at `/v1/auth` whose client is taken to be the proxy.
    pub(crate) fn count_auth_fallback(&self, reason: &'static str) {
        let labels = [("reason", reason)];
        self.auth_fallbacks.get_or_create(&labels).inc();
    }

    /// Counts the descriptors of a request that are ignored, and logs the first such request.
    pub(crate) fn count_left_out(&self, listener: ListenerName, count: usize) {
        static SAID: Once = Once::new();
        if count == 0 {
            return;
        }
        let left_out = self.left_out.get_or_create(&[("listener", listener)]);
        left_out.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
        SAID.call_once(|| {
            warn!(
                listener,
                count,
                "a request has more than {DESCRIPTORS_MAX} descriptors; only the first are \
                 decided on. See tollgate_descriptors_left_out_total"
            );
        });
    }

    /// The gauge of a listener's open connections.
    pub(crate) fn connections(&self, listener: ListenerName) -> Gauge {
        self.connections
            .get_or_create(&[("listener", listener)])
            .clone()
    }

    /// Counts a connection that the service closed.
    pub(crate) fn count_close(&self, listener: ListenerName, reason: &'static str) {
        let labels = [("listener", listener), ("reason", reason)];
        self.closed.get_or_create(&labels).inc();
    }

    /// Counts a response whose client did not take it.
    pub(crate) fn count_reset(&self, listener: ListenerName) {
        let counter = self
            .responses_reset
            .get_or_create(&[("listener", listener)]);
        counter.inc();
    }

    /// A listener has a certificate that expires at this second since 1970.
    pub(crate) fn certificate_loaded(&self, listener: ListenerName, expiry: u64) {
        let gauge = self
            .certificate_expiry
            .get_or_create(&[("listener", listener)]);
        gauge.set(i64::try_from(expiry).unwrap_or(i64::MAX));
        self.count_certificate(listener, "ok");
    }

    /// A listener keeps its certificate, because the new one cannot be used.
    pub(crate) fn certificate_rejected(&self, listener: ListenerName) {
        self.count_certificate(listener, "failed");
    }

    fn count_certificate(&self, listener: ListenerName, outcome: &'static str) {
        let labels = [("listener", listener), ("outcome", outcome)];
        self.certificate_loads.get_or_create(&labels).inc();
        let rejected = self
            .certificate_rejected
            .get_or_create(&[("listener", listener)]);
        rejected.set(i64::from(outcome == "failed"));
    }

    /// Whether the settings file cannot be used.
    pub(crate) fn settings_read(&self, is_rejected: bool) {
        self.settings_rejected.set(i64::from(is_rejected));
    }
}

/// From 1 us to 0.5 s, each bucket twice as wide as the one before.
fn latency_buckets() -> Histogram {
    Histogram::new(latency_bounds())
}

fn latency_bounds() -> impl Iterator<Item = f64> {
    exponential_buckets(0.000_001, 2.0, 20)
}
