//! What the stores do: keys in memory, and for each store in Redis its calls, leases and losses.

use std::fmt::Error;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tollgate_redis::{BATCH_SIZES, CALL_MICROS, Counts, Histogram};

use crate::stores::Stores;
use crate::vigil::is_there;

/// A metric: its name, what it counts, and where the count is.
type Counted = (&'static str, &'static str, Count);
type Count = fn(&Counts) -> u64;

const COUNTERS: [Counted; 19] = [
    (
        "store_questions",
        "Questions to Redis: decisions, leases given back, keys reported",
        |counts| counts.questions,
    ),
    ("store_calls", "Script calls that carried them", |counts| {
        counts.calls
    }),
    (
        "store_writes",
        "Times that calls were written to a connection: round trips",
        |counts| counts.writes,
    ),
    (
        "store_lost",
        "Questions that were sent to Redis and got no answer in time",
        |counts| counts.lost,
    ),
    (
        "store_connections",
        "Connections that were opened",
        |counts| counts.connections,
    ),
    (
        "store_breaker_openings",
        "Times that a connection was given up and decisions no longer waited for it",
        |counts| counts.breaker_openings,
    ),
    (
        "store_redirections",
        "Questions that another node of the Cluster had to answer",
        |counts| counts.redirections,
    ),
    (
        "store_scripts_loaded",
        "Times that Redis had forgotten the scripts",
        |counts| counts.scripts_loaded,
    ),
    (
        "store_local_refusals",
        "Decisions refused without asking Redis, which had refused the key before",
        |counts| counts.local_refusals,
    ),
    ("store_leases", "Times that units were leased", |counts| {
        counts.leases
    }),
    ("store_units_leased", "Units that were leased", |counts| {
        counts.units_leased
    }),
    (
        "store_units_spent",
        "Leased units that were spent, once their lease has ended",
        |counts| counts.units_spent,
    ),
    (
        "store_units_returned",
        "Leased units that were given back",
        |counts| counts.units_returned,
    ),
    (
        "store_lease_decisions",
        "Decisions made on leased units, without asking Redis",
        |counts| counts.lease_decisions,
    ),
    (
        "store_leases_returned",
        "Leases given back because nobody used them",
        |counts| counts.leases_returned,
    ),
    (
        "store_write_back_decisions",
        "Decisions made on this service's own count, without asking Redis",
        |counts| counts.write_back_decisions,
    ),
    (
        "store_reports",
        "Messages that reported own counts to Redis",
        |counts| counts.reports,
    ),
    (
        "store_keys_reported",
        "Keys that they concerned",
        |counts| counts.keys_reported,
    ),
    (
        "store_reports_lost",
        "Reports that got no answer in time, and are not told again",
        |counts| counts.reports_lost,
    ),
];

const GAUGES: [Counted; 2] = [
    (
        "store_leases_held",
        "Keys of which this service holds leases",
        |counts| counts.leases_held,
    ),
    (
        "store_write_back_keys",
        "Keys that this service counts itself",
        |counts| counts.write_back_keys,
    ),
];

/// What stood in for Redis, by the word in a rules file.
const FALLBACKS: [(&str, Count); 3] = [
    ("allow", |counts| counts.fallbacks_allowed),
    ("deny", |counts| counts.fallbacks_denied),
    ("local", |counts| counts.fallbacks_local),
];

/// Asks the stores at each scrape.
#[derive(Clone)]
pub(super) struct Scrape(pub(super) Arc<Stores>);

// === impl Scrape ===

impl std::fmt::Debug for Scrape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scrape")
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        memory(&self.0, &mut encoder)?;
        let stores: Vec<(&str, bool, Counts)> = self
            .0
            .in_redis()
            .map(|(name, redis)| (name, is_there(redis), redis.counts()))
            .collect();
        // A metric without a series is legal, and only puzzles.
        if stores.is_empty() {
            return Ok(());
        }
        let help = "1 while Redis answers";
        let mut metric = encoder.encode_descriptor("store_up", help, None, MetricType::Gauge)?;
        for (store, is_there, _) in &stores {
            let labels = [("store", *store)];
            let up = ConstGauge::new(i64::from(*is_there));
            up.encode(metric.encode_family(&labels)?)?;
        }
        for (name, help, count) in GAUGES {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (store, _, counts) in &stores {
                let labels = [("store", *store)];
                let now = ConstGauge::new(i64::try_from(count(counts)).unwrap_or(i64::MAX));
                now.encode(metric.encode_family(&labels)?)?;
            }
        }
        let (name, help) = ("store_fallbacks", "Requests decided by `on_store_error`");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (store, _, counts) in &stores {
            for (choice, count) in FALLBACKS {
                let labels = [("store", *store), ("choice", choice)];
                ConstCounter::new(count(counts)).encode(metric.encode_family(&labels)?)?;
            }
        }
        for (name, help, count) in COUNTERS {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (store, _, counts) in &stores {
                let labels = [("store", *store)];
                ConstCounter::new(count(counts)).encode(metric.encode_family(&labels)?)?;
            }
        }
        let stores = || stores.iter().map(|(store, _, counts)| (*store, counts));
        let sizes = stores().map(|(store, counts)| (store, &counts.batch_sizes));
        let help = "Decisions that shared a script call";
        histograms(
            &mut encoder,
            "store_call_decisions",
            help,
            sizes,
            &BATCH_SIZES,
            whole,
        )?;
        let times = stores().map(|(store, counts)| (store, &counts.call_times));
        let help = "Time from the writing of a script call to its reply";
        histograms(
            &mut encoder,
            "store_call_seconds",
            help,
            times,
            &CALL_MICROS,
            seconds,
        )
    }
}

/// How many keys the store in memory remembers.
fn memory(stores: &Stores, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let stats = stores.memory().stats();
    let help = "Keys that have consumed something and not yet recovered";
    let live = ConstGauge::new(i64::try_from(stats.live_keys).unwrap_or(i64::MAX));
    let metric = encoder.encode_descriptor("keys", help, None, MetricType::Gauge)?;
    live.encode(metric)?;
    let help = "Keys forgotten at the store's bound before they had recovered";
    let metric = encoder.encode_descriptor("keys_evicted", help, None, MetricType::Counter)?;
    ConstCounter::new(stats.evicted_keys).encode(metric)
}

fn histograms<'s, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    stores: impl Iterator<Item = (&'s str, &'s Histogram<N>)>,
    ends: &[u64; N],
    shown: fn(u64) -> f64,
) -> Result<(), Error> {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (store, histogram) in stores {
        let mut below = 0;
        let mut buckets = Vec::with_capacity(N + 1);
        for (end, cumulative) in ends.iter().zip(histogram.cumulative) {
            buckets.push((shown(*end), cumulative.saturating_sub(below)));
            below = cumulative;
        }
        // The counts were read one after the other, and more may have come meanwhile.
        let count = histogram.count.max(below);
        buckets.push((f64::INFINITY, count - below));
        let labels = [("store", store)];
        let mut metric = metric.encode_family(&labels)?;
        let sum = shown(histogram.sum);
        metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
    }
    Ok(())
}

#[expect(
    clippy::as_conversions,
    reason = "there is no other way, and a metric may be rounded"
)]
fn whole(number: u64) -> f64 {
    number as f64
}

fn seconds(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64()
}
