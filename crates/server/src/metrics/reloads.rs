//! Reloads, and the rules in effect, at each scrape.

use std::fmt::Error;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tollgate_engine::{Engine, Outcome};

/// Writes how often rules were loaded, whether some have errors, and how many are in effect.
pub(super) fn write(engine: &Engine, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let help = "Loads of the rules: ok, or failed if some or all rules have errors";
    let mut metric = encoder.encode_descriptor("reloads", help, None, MetricType::Counter)?;
    let reloads = engine.reload_counts();
    for (outcome, count) in [
        (Outcome::InEffect, reloads.ok),
        (Outcome::Failed, reloads.failed),
    ] {
        if count > 0 {
            let labels = [("outcome", outcome.name())];
            ConstCounter::new(count).encode(metric.encode_family(&labels)?)?;
        }
    }
    let (rules, domains) = engine.rule_and_domain_counts();
    let rejected = "1 while some or all rules of the files have errors and are not in effect";
    for (name, help, count) in [
        ("rules_rejected", rejected, usize::from(reloads.is_failing)),
        ("rules", "Rules in effect", rules),
        ("domains", "Domains in effect", domains),
    ] {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(count).encode(metric)?;
    }
    Ok(())
}
