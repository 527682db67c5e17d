//! What the stores do: keys in memory, and for each store in Redis its calls, leases and losses.

use std::fmt::Error;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType::{self, Counter, Gauge};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tollgate_redis::{BATCH_SIZES, CALL_MICROS, Counts, ErrorCount, Histogram, Redis};

use crate::stores::Stores;
use crate::vigil::is_there;

/// A metric of a store in Redis: its kind and name, what it counts, and where the count is.
type Metric = (MetricType, &'static str, &'static str, Count);
type Count = fn(&Seen<'_>) -> u64;
/// A histogram: its name, what it counts, and how a size is shown.
type Measured = (&'static str, &'static str, Shown);
type Shown = fn(u64) -> f64;

#[rustfmt::skip] // A metric reads as one row.
const METRICS: [Metric; 23] = [
    (Gauge, "store_up", "1 while Redis answers decisions", |seen| u64::from(seen.is_there)),
    (Gauge, "store_nodes", "Services over this store, itself among them, as Redis last told",
        |seen| seen.nodes.into()),
    (Gauge, "store_leases_held", "Keys of which this service holds leases",
        |seen| seen.counts.leases_held),
    (Gauge, "store_write_back_keys", "Keys that this service counts itself",
        |seen| seen.counts.write_back_keys),
    (Counter, "store_questions", "Questions to Redis: decisions, leases given back, keys reported",
        |seen| seen.counts.questions),
    (Counter, "store_calls", "Script calls that carried them", |seen| seen.counts.calls),
    (Counter, "store_writes", "Times that calls were written to a connection: round trips",
        |seen| seen.counts.writes),
    (Counter, "store_lost", "Questions that were sent to Redis and got no answer in time",
        |seen| seen.counts.lost),
    (Counter, "store_connections", "Connections that were opened", |seen| seen.counts.connections),
    (Counter, "store_breaker_openings", "Times that decisions no longer waited for Redis",
        |seen| seen.counts.breaker_openings),
    (Counter, "store_redirections", "Questions that another node of the Cluster had to answer",
        |seen| seen.counts.redirections),
    (Counter, "store_scripts_loaded", "Times that Redis had forgotten the scripts",
        |seen| seen.counts.scripts_loaded),
    (Counter, "store_local_refusals", "Decisions refused here, as Redis had refused the key",
        |seen| seen.counts.local_refusals),
    (Counter, "store_leases", "Times that units were leased", |seen| seen.counts.leases),
    (Counter, "store_units_leased", "Units that were leased", |seen| seen.counts.units_leased),
    (Counter, "store_units_spent", "Leased units that were spent, once their lease has ended",
        |seen| seen.counts.units_spent),
    (Counter, "store_units_returned", "Leased units that were given back",
        |seen| seen.counts.units_returned),
    (Counter, "store_lease_decisions", "Decisions on leased units, without asking",
        |seen| seen.counts.lease_decisions),
    (Counter, "store_leases_returned", "Leases given back because nobody used them",
        |seen| seen.counts.leases_returned),
    (Counter, "store_write_back_decisions", "Decisions on this service's own count, without asking",
        |seen| seen.counts.write_back_decisions),
    (Counter, "store_reports", "Messages that reported own counts to Redis",
        |seen| seen.counts.reports),
    (Counter, "store_keys_reported", "Keys that they concerned", |seen| seen.counts.keys_reported),
    (Counter, "store_reports_lost", "Reports whose connection broke before they were answered",
        |seen| seen.counts.reports_lost),
];

/// What stood in for Redis, by the word in a rules file.
const FALLBACKS: [(&str, Count); 4] = [
    ("allow", |seen| seen.counts.fallbacks_allowed),
    ("deny", |seen| seen.counts.fallbacks_denied),
    ("error", |seen| seen.counts.fallbacks_failed),
    ("local", |seen| seen.counts.fallbacks_local),
];

/// One store in Redis at a scrape.
struct Seen<'s> {
    store: &'s str,
    is_there: bool,
    nodes: u32,
    counts: Counts,
    errors: Vec<ErrorCount>,
}

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
        let encoder = &mut encoder;
        memory(&self.0, encoder)?;
        let seen: Vec<Seen<'_>> = self.0.in_redis().map(Seen::of).collect();
        // A metric without a series is legal, and only puzzles.
        if seen.is_empty() {
            return Ok(());
        }
        for metric in METRICS {
            numbers(encoder, &seen, metric)?;
        }
        fallbacks(encoder, &seen)?;
        error_replies(encoder, &seen)?;
        let sizes = seen
            .iter()
            .map(|seen| (seen.store, &seen.counts.batch_sizes));
        let help = "Questions that shared a script call";
        histograms(
            encoder,
            ("store_call_decisions", help, whole),
            sizes,
            &BATCH_SIZES,
        )?;
        let times = seen
            .iter()
            .map(|seen| (seen.store, &seen.counts.call_times));
        let help = "Time from the writing of a script call to its reply";
        histograms(
            encoder,
            ("store_call_seconds", help, seconds),
            times,
            &CALL_MICROS,
        )
    }
}

// === impl Seen ===

impl<'s> Seen<'s> {
    fn of((store, redis): (&'s str, &Redis)) -> Seen<'s> {
        let counts = redis.counts();
        Seen {
            store,
            is_there: is_there(redis, &counts),
            nodes: redis.nodes(),
            counts,
            errors: redis.error_replies(),
        }
    }
}

/// How many keys the store in memory remembers.
fn memory(stores: &Stores, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let stats = stores.memory().stats();
    let help = "Keys that have consumed something and not yet recovered";
    let metric = encoder.encode_descriptor("keys", help, None, Gauge)?;
    number(Gauge, stats.live_keys, metric)?;
    let help = "Keys forgotten at the store's bound before they had recovered";
    let metric = encoder.encode_descriptor("keys_evicted", help, None, Counter)?;
    number(Counter, stats.evicted_keys, metric)
}

/// A metric's number of each store.
fn numbers(
    encoder: &mut DescriptorEncoder<'_>,
    stores: &[Seen<'_>],
    (kind, name, help, count): Metric,
) -> Result<(), Error> {
    let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
    for seen in stores {
        let labels = [("store", seen.store)];
        number(kind, count(seen), metric.encode_family(&labels)?)?;
    }
    Ok(())
}

fn fallbacks(encoder: &mut DescriptorEncoder<'_>, stores: &[Seen<'_>]) -> Result<(), Error> {
    let (name, help) = ("store_fallbacks", "Requests decided by `on_store_error`");
    let mut metric = encoder.encode_descriptor(name, help, None, Counter)?;
    for seen in stores {
        for (choice, count) in FALLBACKS {
            let labels = [("store", seen.store), ("choice", choice)];
            number(Counter, count(seen), metric.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn error_replies(encoder: &mut DescriptorEncoder<'_>, stores: &[Seen<'_>]) -> Result<(), Error> {
    let (name, help) = (
        "store_errors",
        "Error replies of Redis, by Redis node and code",
    );
    let mut metric = encoder.encode_descriptor(name, help, None, Counter)?;
    for seen in stores {
        for error in &seen.errors {
            let labels = [
                ("store", seen.store),
                ("node", &error.node),
                ("code", error.code),
            ];
            number(Counter, error.count, metric.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn number(kind: MetricType, number: u64, encoder: MetricEncoder<'_>) -> Result<(), Error> {
    match kind {
        Gauge => ConstGauge::new(number).encode(encoder),
        _ => ConstCounter::new(number).encode(encoder),
    }
}

fn histograms<'s, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, shown): Measured,
    stores: impl Iterator<Item = (&'s str, &'s Histogram<N>)>,
    ends: &[u64; N],
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

/// A number as metrics have it.
#[expect(
    clippy::as_conversions,
    reason = "there is no other way, and a metric may be rounded"
)]
pub(super) fn whole(number: u64) -> f64 {
    number as f64
}

fn seconds(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64()
}
