//! Decisions by domain, rule and outcome, at each scrape.

use std::fmt::Error;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use tollgate_engine::Engine;

/// Writes the engine's counts.
pub(super) fn write(engine: &Engine, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let help = "Descriptors decided, by domain, rule and outcome";
    let name = "decisions";
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    // A scrape in which a series comes twice is rejected; the visit excludes that.
    engine.visit_decisions(|domain, rule, outcome, count| {
        let labels = [("domain", domain), ("rule", rule), ("outcome", outcome)];
        ConstCounter::new(count).encode(metric.encode_family(&labels)?)
    })
}
