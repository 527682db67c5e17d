//! Sends metrics at an interval, until the process ends.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use tollgate_core::Clock;

use crate::exporter::Sending;
use crate::message::metrics::{MetricsRequest, ResourceMetrics, ScopeMetrics};
use crate::message::{Resource, Scope};
use crate::open_metrics::{Period, read};
use crate::span_message::nanos;
use crate::tracer::now;

/// An export is tried once: the next one has everything that it had.
const ATTEMPTS: u32 = 1;

/// Writes all metrics, as text of OpenMetrics.
pub(crate) type Source = Arc<dyn Fn() -> String + Send + Sync>;

/// Sends metrics, once their source is known.
pub(crate) struct MetricExporter {
    pub(crate) sending: Sending,
    pub(crate) resource: Resource,
    pub(crate) interval: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    /// When the process began to count.
    pub(crate) start: Duration,
}

// === impl MetricExporter ===

impl MetricExporter {
    /// Sends metrics until the process ends, and then once more.
    pub(crate) async fn run(mut self, source: Source) {
        let mut ticks = interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first one is at once.
        ticks.tick().await;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.sending.wait_until_closing() => {}
            }
            let is_closing = self.sending.is_closing();
            self.export(Arc::clone(&source)).await;
            if is_closing {
                return;
            }
        }
    }

    /// Sends what the source writes now.
    async fn export(&mut self, source: Source) {
        let (resource, clock) = (self.resource.clone(), Arc::clone(&self.clock));
        let (start, encoding) = (self.start, self.sending.export_format());
        // On a thread that may block: a store may have to count its keys one by one, and the text
        // may have many thousands of lines.
        let encoded = spawn_blocking(move || {
            let text = source();
            let period = Period {
                start_nanos: nanos(start),
                at_nanos: nanos(now(&*clock)),
            };
            encoding.encode(&metrics_request(&text, period, resource))
        });
        let Ok(body) = encoded.await else {
            return;
        };
        if let Some(taken) = self.sending.send(body, ATTEMPTS).await {
            self.sending.warn_of_rejected(&taken);
        }
    }
}

/// The export of all metrics in a text.
fn metrics_request(text: &str, period: Period, resource: Resource) -> MetricsRequest {
    let scope = ScopeMetrics {
        scope: Some(Scope::own()),
        metrics: read(text, period),
    };
    MetricsRequest {
        resources: vec![ResourceMetrics {
            resource: Some(resource),
            scopes: vec![scope],
        }],
    }
}

impl fmt::Debug for MetricExporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("MetricExporter");
        shown
            .field("interval", &self.interval)
            .finish_non_exhaustive()
    }
}
