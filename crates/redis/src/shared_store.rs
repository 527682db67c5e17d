//! Redis as the engine sees it: a shared store of any backend.

use tollgate_core::{SharedStore, StoreEvent, StoreMetric, StoreMetricUnit, StoreMetricValue};

use crate::stats::{BATCH_SIZES, CALL_MICROS, Counts, Histogram};
use crate::store::Redis;

/// A metric: how its value is wrapped, its name, what it counts, and where the count is.
type Metric = (Wrap, &'static str, &'static str, fn(&Counts) -> u64);
type Wrap = fn(u64) -> StoreMetricValue;

const GAUGE: Wrap = StoreMetricValue::Gauge;
const COUNTER: Wrap = StoreMetricValue::Counter;

#[rustfmt::skip] // A metric reads as one row.
const METRICS: [Metric; 21] = [
    (GAUGE, "leases_held", "Keys of which this service holds leases",
        |counts| counts.leases_held),
    (GAUGE, "write_back_keys", "Keys that this service counts itself",
        |counts| counts.write_back_keys),
    (COUNTER, "questions", "Questions to Redis: decisions, leases given back, keys reported",
        |counts| counts.requests),
    (COUNTER, "calls", "Script calls that carried them", |counts| counts.calls),
    (COUNTER, "writes", "Times that calls were written to a connection: round trips",
        |counts| counts.writes),
    (COUNTER, "lost", "Questions that were sent to Redis and got no answer in time",
        |counts| counts.lost),
    (COUNTER, "connections", "Connections that were opened", |counts| counts.connections),
    (COUNTER, "breaker_openings", "Times that decisions no longer waited for Redis",
        |counts| counts.breaker_openings),
    (COUNTER, "redirections", "Questions that another node of the Cluster had to answer",
        |counts| counts.redirections),
    (COUNTER, "scripts_loaded", "Times that Redis had forgotten the scripts",
        |counts| counts.scripts_loaded),
    (COUNTER, "local_refusals", "Decisions refused here, as Redis had refused the key",
        |counts| counts.local_denials),
    (COUNTER, "leases", "Times that units were leased", |counts| counts.leases),
    (COUNTER, "units_leased", "Units that were leased", |counts| counts.units_leased),
    (COUNTER, "units_spent", "Leased units that were spent, once their lease has ended",
        |counts| counts.units_spent),
    (COUNTER, "units_returned", "Leased units that were given back",
        |counts| counts.units_returned),
    (COUNTER, "lease_decisions", "Decisions on leased units, without asking",
        |counts| counts.lease_decisions),
    (COUNTER, "leases_returned", "Leases given back because nobody used them",
        |counts| counts.leases_returned),
    (COUNTER, "write_back_decisions", "Decisions on this service's own count, without asking",
        |counts| counts.write_back_decisions),
    (COUNTER, "reports", "Messages that reported own counts to Redis",
        |counts| counts.reports),
    (COUNTER, "keys_reported", "Keys that they concerned", |counts| counts.keys_reported),
    (COUNTER, "reports_lost", "Reports whose connection broke before they were answered",
        |counts| counts.reports_lost),
];

// === impl Redis ===

impl SharedStore for Redis {
    fn kind(&self) -> &'static str {
        "Redis"
    }

    fn join(&self) {
        self.join_nodes();
    }

    fn instances(&self) -> u32 {
        self.nodes()
    }

    /// Until the first connection is open nothing has failed, so the breakers alone do not tell.
    fn is_up(&self) -> bool {
        Redis::is_up(self) && self.counts().connections > 0
    }

    fn trouble(&self) -> Option<String> {
        Redis::trouble(self)
    }

    fn take_events(&self) -> Vec<StoreEvent> {
        self.events()
    }

    fn metrics(&self) -> Vec<StoreMetric> {
        let counts = self.counts();
        let numbers = METRICS.iter().map(|(wrap, name, help, count)| StoreMetric {
            name,
            help,
            value: wrap(count(&counts)),
        });
        let others = [
            StoreMetric {
                name: "errors",
                help: "Error replies of Redis, by Redis node and code",
                value: StoreMetricValue::Counters(error_counters(self)),
            },
            StoreMetric {
                name: "call_decisions",
                help: "Questions that shared a script call",
                value: histogram(StoreMetricUnit::Count, &counts.batch_sizes, &BATCH_SIZES),
            },
            StoreMetric {
                name: "call_seconds",
                help: "Time from the writing of a script call to its reply",
                value: histogram(StoreMetricUnit::Micros, &counts.call_times, &CALL_MICROS),
            },
        ];
        numbers.chain(others).collect()
    }

    async fn close(&self) {
        Redis::close(self).await;
    }
}

fn error_counters(redis: &Redis) -> Vec<(Vec<(&'static str, String)>, u64)> {
    let errors = redis.error_replies().into_iter();
    let counters = errors.map(|error| {
        let labels = vec![("node", error.node), ("code", error.code.to_owned())];
        (labels, error.count)
    });
    counters.collect()
}

fn histogram<const N: usize>(
    unit: StoreMetricUnit,
    histogram: &Histogram<N>,
    bounds: &[u64; N],
) -> StoreMetricValue {
    StoreMetricValue::Histogram {
        unit,
        buckets: bounds.iter().copied().zip(histogram.cumulative).collect(),
        count: histogram.count,
        sum: histogram.sum,
    }
}
