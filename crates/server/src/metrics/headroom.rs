//! Metrics of elastic limits: whether there is headroom, what they allow, and how much the host is
//! used, if a limit depends on that.

use std::collections::BTreeMap;
use std::fmt::Error;
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tollgate_engine::Engine;
use tollgate_rules::{HeadroomSource, RuleView};

use crate::host::{HostPressure, Resource};

/// Writes what limits with an elastic part allow, and the last samples of the host.
pub(super) fn write(
    engine: &Engine,
    host: &HostPressure,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), Error> {
    let rules = engine.elastic_rules();
    // A metric without a series is legal, but confusing.
    if rules.is_empty() {
        return Ok(());
    }
    write_headroom(&rules, encoder)?;
    let help = "What an elastic limit allows now without priority: more while there is headroom";
    let mut family = encoder.encode_descriptor("elastic_limit", help, None, MetricType::Gauge)?;
    for ((domain, rule), available) in least_available(&rules) {
        let labels = [("domain", domain), ("rule", rule)];
        let metric = family.encode_family(&labels)?;
        ConstGauge::new(i64::from(available)).encode(metric)?;
    }
    let mut sources = rules.iter().flat_map(|view| &view.sources);
    match sources.any(|(source, _)| *source == HeadroomSource::Host) {
        true => write_host(host, encoder),
        false => Ok(()),
    }
}

/// What is allowed by domain and path, the labels of the decisions. Two rules can have one path,
/// and a scrape in which a series comes twice is rejected: the least counts.
fn least_available(rules: &[RuleView]) -> BTreeMap<(&str, &str), u32> {
    let mut least = BTreeMap::new();
    for view in rules {
        let available = view.available().unwrap_or(0);
        let series = (&*view.rule.domain, &*view.rule.path);
        let known = least.entry(series).or_insert(available);
        *known = available.min(*known);
    }
    least
}

/// By domain and source that its elastic limits name, whether that one reports headroom.
fn write_headroom(rules: &[RuleView], encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let sources = rules.iter().flat_map(|view| {
        let sources = view.sources.iter();
        sources.map(|(source, reports)| ((source.as_str(), &*view.rule.domain), *reports))
    });
    let sources: BTreeMap<(&str, &str), bool> = sources.collect();
    let help = "Whether a source reports headroom for the elastic limits of a domain: 1 or 0";
    let mut family = encoder.encode_descriptor("headroom", help, None, MetricType::Gauge)?;
    for ((source, domain), has_headroom) in sources {
        let labels = [("source", source), ("domain", domain)];
        let metric = family.encode_family(&labels)?;
        ConstGauge::new(i64::from(has_headroom)).encode(metric)?;
    }
    Ok(())
}

/// The use of each resource that could be read, and how often one could not.
fn write_host(host: &HostPressure, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let help = "The use of a resource of the host, as a share of what there is";
    let mut family = encoder.encode_descriptor("host_use", help, None, MetricType::Gauge)?;
    for resource in Resource::ALL {
        let Some(pressure) = host.pressure(resource) else {
            continue;
        };
        let labels = [("resource", resource.name())];
        let metric = family.encode_family(&labels)?;
        // Thousandths, as milliseconds are of a second.
        let share = Duration::from_millis(u64::from(pressure)).as_secs_f64();
        ConstGauge::new(share).encode(metric)?;
    }
    let help = "How often the use of a resource of the host could not be read";
    let mut family =
        encoder.encode_descriptor("host_use_errors", help, None, MetricType::Counter)?;
    for resource in Resource::ALL {
        let labels = [("resource", resource.name())];
        let metric = family.encode_family(&labels)?;
        ConstCounter::new(host.failed_samples(resource)).encode(metric)?;
    }
    Ok(())
}
