//! Metrics of stores: keys in memory, and the counts of each shared store.

use std::fmt::Error;
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType::{self, Counter, Gauge};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tollgate_core::{StoreMetric, StoreMetricUnit, StoreMetricValue};
use tollgate_engine::{Engine, FallbackCounts, StoreSnapshot};
use tollgate_memory::Stats;

/// The counts of fallbacks, by the word in a rules file.
type Fallback = (&'static str, fn(&FallbackCounts) -> u64);

const FALLBACKS: [Fallback; 4] = [
    ("allow", |counts| counts.allowed),
    ("deny", |counts| counts.denied),
    ("error", |counts| counts.failed),
    ("local", |counts| counts.local),
];

/// Writes the metrics of the store in memory and of all shared stores.
pub(super) fn write(engine: &Engine, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    memory(engine.memory_stats(), encoder)?;
    reservations(engine.reservation_counts(), encoder)?;
    let stores = engine.shared_stores();
    // A metric without a series is legal, but confusing.
    if stores.is_empty() {
        return Ok(());
    }
    health(encoder, &stores)?;
    fallbacks(encoder, &stores)?;
    families(encoder, &stores)
}

/// How many keys the store in memory holds.
fn memory(stats: Stats, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let help = "Live keys in memory: those with units that are not yet refilled or reset";
    let metric = encoder.encode_descriptor("keys", help, None, Gauge)?;
    number(Gauge, stats.live_keys, metric)?;
    let help = "Live keys that were evicted because the table was full";
    let metric = encoder.encode_descriptor("keys_evicted", help, None, Counter)?;
    number(Counter, stats.evicted_keys, metric)
}

/// How many reservations are open, and how many may be.
fn reservations(
    (open, max): (usize, usize),
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), Error> {
    let help = "Reservations that are neither settled nor expired";
    let metric = encoder.encode_descriptor("reservations", help, None, Gauge)?;
    number(Gauge, u64::try_from(open).unwrap_or(u64::MAX), metric)?;
    let help = "The most reservations that may be open";
    let metric = encoder.encode_descriptor("reservations_max", help, None, Gauge)?;
    number(Gauge, u64::try_from(max).unwrap_or(u64::MAX), metric)
}

/// Encodes for each store whether it answers, and how many instances share it.
fn health(encoder: &mut DescriptorEncoder<'_>, stores: &[StoreSnapshot<'_>]) -> Result<(), Error> {
    let help = "1 while the store decides, 0 while it is unavailable";
    let mut metric = encoder.encode_descriptor("store_up", help, None, Gauge)?;
    for store in stores {
        let labels = [("store", store.name)];
        number(
            Gauge,
            u64::from(store.is_up),
            metric.encode_family(&labels)?,
        )?;
    }
    let help = "Instances that share the store, this one included, as last reported by the store";
    let mut metric = encoder.encode_descriptor("store_instances", help, None, Gauge)?;
    for store in stores {
        let labels = [("store", store.name)];
        number(
            Gauge,
            store.instances.into(),
            metric.encode_family(&labels)?,
        )?;
    }
    Ok(())
}

fn fallbacks(
    encoder: &mut DescriptorEncoder<'_>,
    stores: &[StoreSnapshot<'_>],
) -> Result<(), Error> {
    let (name, help) = ("store_fallbacks", "Requests decided by `on_store_error`");
    let mut metric = encoder.encode_descriptor(name, help, None, Counter)?;
    for store in stores {
        for (choice, count) in FALLBACKS {
            let labels = [("store", store.name), ("choice", choice)];
            number(
                Counter,
                count(&store.fallbacks),
                metric.encode_family(&labels)?,
            )?;
        }
    }
    Ok(())
}

/// The counts that backends keep. The series of all stores for one metric are written together.
fn families(
    encoder: &mut DescriptorEncoder<'_>,
    stores: &[StoreSnapshot<'_>],
) -> Result<(), Error> {
    let mut written: Vec<&str> = Vec::new();
    for metric in stores.iter().flat_map(|store| &store.metrics) {
        if written.contains(&metric.name) {
            continue;
        }
        written.push(metric.name);
        let kind = kind(&metric.value);
        let name = format!("store_{}", metric.name);
        let mut encoder = encoder.encode_descriptor(&name, metric.help, None, kind)?;
        for store in stores {
            let same = |other: &&StoreMetric| other.name == metric.name;
            for other in store.metrics.iter().filter(same) {
                series(&mut encoder, kind, store.name, &other.value)?;
            }
        }
    }
    Ok(())
}

const fn kind(value: &StoreMetricValue) -> MetricType {
    match value {
        StoreMetricValue::Gauge(_) => Gauge,
        StoreMetricValue::Histogram { .. } => MetricType::Histogram,
        _ => Counter,
    }
}

/// The series of one store. If two backends give one name to metrics of different kinds, those of
/// the first kind are written and the others are left out.
fn series(
    encoder: &mut MetricEncoder<'_>,
    kind: MetricType,
    store: &str,
    value: &StoreMetricValue,
) -> Result<(), Error> {
    let labels = [("store", store)];
    match (value, kind) {
        (StoreMetricValue::Gauge(value), Gauge) | (StoreMetricValue::Counter(value), Counter) => {
            number(kind, *value, encoder.encode_family(&labels)?)
        }
        (StoreMetricValue::Counters(counters), Counter) => {
            counters.iter().try_for_each(|(more, count)| {
                let more = more.iter().map(|(name, value)| (*name, value.as_str()));
                let labels: Vec<(&str, &str)> = labels.into_iter().chain(more).collect();
                number(Counter, *count, encoder.encode_family(&labels)?)
            })
        }
        (
            StoreMetricValue::Histogram {
                unit,
                buckets,
                count,
                sum,
            },
            MetricType::Histogram,
        ) => {
            let shown = match unit {
                StoreMetricUnit::Count => whole,
                StoreMetricUnit::Micros => seconds,
            };
            let encoder = encoder.encode_family(&labels)?;
            histogram(encoder, shown, buckets, *count, *sum)
        }
        _ => Ok(()),
    }
}

fn number(kind: MetricType, number: u64, encoder: MetricEncoder<'_>) -> Result<(), Error> {
    match kind {
        Gauge => ConstGauge::new(number).encode(encoder),
        _ => ConstCounter::new(number).encode(encoder),
    }
}

fn histogram(
    mut encoder: MetricEncoder<'_>,
    shown: fn(u64) -> f64,
    cumulative: &[(u64, u64)],
    count: u64,
    sum: u64,
) -> Result<(), Error> {
    let mut below = 0;
    let mut buckets = Vec::with_capacity(cumulative.len() + 1);
    for (bound, cumulative) in cumulative {
        buckets.push((shown(*bound), cumulative.saturating_sub(below)));
        below = *cumulative;
    }
    // The counts are not read atomically, so the buckets may already have more than `count`.
    let count = count.max(below);
    buckets.push((f64::INFINITY, count - below));
    encoder.encode_histogram::<NoLabelSet>(shown(sum), count, &buckets, None)
}

/// Converts a number for a metric.
#[expect(
    clippy::as_conversions,
    reason = "no conversion without `as` exists, and a metric may be rounded"
)]
pub(super) fn whole(number: u64) -> f64 {
    number as f64
}

fn seconds(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64()
}
