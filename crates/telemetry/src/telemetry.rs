//! Everything that is exported, from the start of a process to its end.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate_core::Clock;
use tracing::{info, warn};

use crate::client::Client;
use crate::exporter::{Sending, SpanExporter};
use crate::metric_exporter::MetricExporter;
use crate::settings::{InvalidTelemetry, Settings, TelemetryConfig};
use crate::span_id_source::IdSource;
use crate::span_message::resource;
use crate::span_queue::{Counts, Signal, SpanQueue};
use crate::tracer::{Tracer, Tracing, now};

/// How long the end of a process waits for the last exports.
pub const FLUSH_WITHIN: Duration = Duration::from_secs(5);

/// Exports spans and metrics. Without an endpoint in its settings it does nothing.
#[derive(Debug, Default)]
pub struct Telemetry {
    tracing: Tracing,
    counts: Option<Arc<Counts>>,
    closing: watch::Sender<bool>,
    exporters: JoinSet<()>,
    /// Until the source of the metrics is known.
    metrics: Option<MetricExporter>,
}

/// Reads how many spans were sent and lost, and how many exports there were.
#[derive(Clone, Debug)]
pub struct TelemetryCounts(Arc<Counts>);

// === impl Telemetry ===

impl Telemetry {
    /// Begins to export, in tasks of their own. `clock` tells when spans begin.
    ///
    /// # Errors
    ///
    /// [`InvalidTelemetry`] is the first setting that cannot be used.
    ///
    /// # Panics
    ///
    /// Outside of a runtime of tokio.
    pub fn start(
        config: &TelemetryConfig,
        clock: &Arc<dyn Clock>,
    ) -> Result<Telemetry, InvalidTelemetry> {
        let Some(mut settings) = config.resolve() else {
            return Ok(Telemetry::default());
        };
        let ids = Arc::new(IdSource::new()?);
        describe_process(&mut settings, &ids);
        let counts = Arc::new(Counts::default());
        let mut telemetry = Telemetry {
            counts: Some(Arc::clone(&counts)),
            ..Telemetry::default()
        };
        if let Some(export) = &settings.traces {
            let client = Client::new(export.endpoint.clone(), &settings)?;
            info!(endpoint = %export.endpoint, "spans are exported");
            let (queue, spans) = SpanQueue::new(&counts);
            let closing = telemetry.closing.subscribe();
            let exporter = SpanExporter {
                spans,
                sending: Sending::new(client, Signal::Traces, Arc::clone(&counts), closing),
                resource: resource(&settings.resource),
                interval: export.interval,
            };
            telemetry.exporters.spawn(exporter.run());
            let sampling = (settings.sample, settings.trust_context.clone());
            let tracer = Tracer::new(ids, sampling, queue, Arc::clone(clock));
            telemetry.tracing = Tracing::new(tracer);
        }
        if let Some(export) = &settings.metrics {
            let client = Client::new(export.endpoint.clone(), &settings)?;
            info!(endpoint = %export.endpoint, "metrics are exported");
            let closing = telemetry.closing.subscribe();
            telemetry.metrics = Some(MetricExporter {
                sending: Sending::new(client, Signal::Metrics, counts, closing),
                resource: resource(&settings.resource),
                interval: export.interval,
                clock: Arc::clone(clock),
                start: now(&**clock),
            });
        }
        Ok(telemetry)
    }

    /// Checks settings without using them. Reads the file of the authorities.
    ///
    /// # Errors
    ///
    /// As [`Telemetry::start`].
    pub fn check(config: &TelemetryConfig) -> Result<(), InvalidTelemetry> {
        let Some(settings) = config.resolve() else {
            return Ok(());
        };
        let exports = [&settings.traces, &settings.metrics];
        exports
            .into_iter()
            .flatten()
            .try_for_each(|export| Client::new(export.endpoint.clone(), &settings).map(drop))
    }

    /// What begins the spans of requests.
    pub fn tracer(&self) -> Tracing {
        self.tracing.clone()
    }

    /// Begins to export metrics, if the settings say so. `source` writes all of them, as text of
    /// OpenMetrics.
    ///
    /// # Panics
    ///
    /// Outside of a runtime of tokio.
    pub fn export_metrics(&mut self, source: impl Fn() -> String + Send + Sync + 'static) {
        if let Some(exporter) = self.metrics.take() {
            self.exporters.spawn(exporter.run(Arc::new(source)));
        }
    }

    /// What was sent and lost, if anything is exported.
    pub fn counts(&self) -> Option<TelemetryCounts> {
        self.counts.clone().map(TelemetryCounts)
    }

    /// Sends what is left, within [`FLUSH_WITHIN`]. What is not sent by then is lost, and logged.
    pub async fn close(&mut self) {
        self.closing.send_replace(true);
        let end = async { while self.exporters.join_next().await.is_some() {} };
        if timeout(FLUSH_WITHIN, end).await.is_err() {
            self.exporters.abort_all();
            warn!("the last spans and metrics are lost: the collector did not take them in time");
        }
    }
}

/// Adds the attributes that tell this process from others, unless the settings have them.
fn describe_process(settings: &mut Settings, ids: &IdSource) {
    let own = [
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", ids.instance()),
        ("telemetry.sdk.name", "tollgate".to_owned()),
        ("telemetry.sdk.language", "rust".to_owned()),
        (
            "telemetry.sdk.version",
            env!("CARGO_PKG_VERSION").to_owned(),
        ),
    ];
    for (key, value) in own {
        settings.resource.entry(key.to_owned()).or_insert(value);
    }
}

// === impl TelemetryCounts ===

impl TelemetryCounts {
    /// How many spans the collector has taken.
    pub fn count_sent(&self) -> u64 {
        self.0.count_sent()
    }

    /// How many spans were lost, by reason.
    pub fn count_lost(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.count_lost()
    }

    /// How many attempts to export there were: the signal, whether it succeeded, and how many.
    pub fn exports(&self) -> impl Iterator<Item = (&'static str, bool, u64)> {
        self.0.exports()
    }
}
