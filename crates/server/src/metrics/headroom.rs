//! Metrics of elastic limits: whether there is headroom, and what they allow.

use std::collections::BTreeMap;
use std::fmt::Error;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType::Gauge;
use prometheus_client::metrics::gauge::ConstGauge;
use tollgate_engine::Engine;
use tollgate_rules::RuleView;

/// Reads the engine at each scrape.
pub(super) struct Scrape(pub(super) Arc<Engine>);

// === impl Scrape ===

impl std::fmt::Debug for Scrape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scrape")
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let rules = self.0.elastic_rules();
        // A metric without a series is legal, but confusing.
        if rules.is_empty() {
            return Ok(());
        }
        write_headroom(&self.0, &rules, &mut encoder)?;
        let help =
            "What an elastic limit allows now without priority: more while there is headroom";
        let mut family = encoder.encode_descriptor("elastic_limit", help, None, Gauge)?;
        for view in &rules {
            let labels = [("domain", &*view.rule.domain), ("rule", view.rule.shown())];
            let metric = family.encode_family(&labels)?;
            ConstGauge::new(i64::from(view.available().unwrap_or(0))).encode(metric)?;
        }
        Ok(())
    }
}

/// By domain with elastic limits, whether headroom is reported for it.
fn write_headroom(
    engine: &Engine,
    rules: &[RuleView],
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), Error> {
    let domains = rules.iter().map(|view| (&*view.rule.domain, false));
    let mut domains: BTreeMap<&str, bool> = domains.collect();
    let reports = engine.headroom_reports();
    for report in reports.iter().filter(|report| report.has_headroom) {
        if let Some(has_headroom) = domains.get_mut(&*report.domain) {
            *has_headroom = true;
        }
    }
    let help = "Whether headroom is reported for the elastic limits of a domain: 1 or 0";
    let mut family = encoder.encode_descriptor("headroom", help, None, Gauge)?;
    for (domain, has_headroom) in domains {
        let labels = [("source", "reported"), ("domain", domain)];
        let metric = family.encode_family(&labels)?;
        ConstGauge::new(i64::from(has_headroom)).encode(metric)?;
    }
    Ok(())
}
