//! Decisions by domain, rule and outcome, at each scrape.

use std::fmt::Error;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use tollgate_engine::Engine;

/// Reads the engine's counts at each scrape.
pub(super) struct Scrape(pub(super) Arc<Engine>);

// === impl Scrape ===

impl std::fmt::Debug for Scrape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scrape")
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "Descriptors decided, by domain, rule and outcome";
        let name = "decisions";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        // A scrape in which a series comes twice is rejected; the visit excludes that.
        self.0.visit_decisions(|domain, rule, outcome, count| {
            let labels = [("domain", domain), ("rule", rule), ("outcome", outcome)];
            ConstCounter::new(count).encode(metric.encode_family(&labels)?)
        })
    }
}
