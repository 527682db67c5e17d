//! What is exported to OpenTelemetry, at each scrape.

use std::fmt::Error;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use tollgate_telemetry::TelemetryCounts;

/// Writes what was sent to the collector, and what was lost.
pub(super) fn write(
    counts: &TelemetryCounts,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), Error> {
    let counter = MetricType::Counter;
    let help = "Spans that the collector has taken";
    let metric = encoder.encode_descriptor("telemetry_spans_sent", help, None, counter)?;
    ConstCounter::new(counts.count_sent()).encode(metric)?;
    let help = "Spans that were lost, by reason";
    let mut metric = encoder.encode_descriptor("telemetry_spans_lost", help, None, counter)?;
    for (reason, count) in counts.count_lost() {
        let labels = [("reason", reason)];
        ConstCounter::new(count).encode(metric.encode_family(&labels)?)?;
    }
    let help = "Attempts to export, by signal and outcome";
    let mut metric = encoder.encode_descriptor("telemetry_exports", help, None, counter)?;
    for (signal, is_ok, count) in counts.exports() {
        let outcome = if is_ok { "ok" } else { "failed" };
        let labels = [("signal", signal), ("outcome", outcome)];
        ConstCounter::new(count).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}
