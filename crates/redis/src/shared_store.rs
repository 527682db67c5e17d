//! Redis as a shared store of the engine.

use tollgate_core::{
    Charge, KeptReservation, Key, NewReservation, ReserveVerdict, Settled, SettledCharge,
    SharedStore, StoreError, StoreEvent, StoreMetric, StoreMetricUnit, StoreMetricValue,
};

use crate::stats::{BATCH_SIZES, CALL_MICROS, Counts, Histogram};
use crate::store::Redis;

/// A metric: the type of its value, its name, its help, and its count.
type Metric = (Wrap, &'static str, &'static str, fn(&Counts) -> u64);
type Wrap = fn(u64) -> StoreMetricValue;

const GAUGE: Wrap = StoreMetricValue::Gauge;
const COUNTER: Wrap = StoreMetricValue::Counter;

#[rustfmt::skip] // A metric reads as one row.
const METRICS: [Metric; 22] = [
    (GAUGE, "leases_held", "Keys of which this instance holds leases",
        |counts| counts.leases_held),
    (GAUGE, "write_back_keys", "Keys with a local count of this instance",
        |counts| counts.write_back_keys),
    (COUNTER, "script_requests", "Requests to scripts: decisions, returned leases, reported keys",
        |counts| counts.requests),
    (COUNTER, "calls", "Script calls, each of one or more requests", |counts| counts.calls),
    (COUNTER, "writes", "Writes to connections, each of one or more script calls: round trips",
        |counts| counts.writes),
    (COUNTER, "outcome_unknown", "Requests that were sent and got no reply in time",
        |counts| counts.lost),
    (COUNTER, "connections", "Connections opened", |counts| counts.connections),
    (COUNTER, "breaker_openings", "Times that a circuit breaker opened",
        |counts| counts.breaker_openings),
    (COUNTER, "redirections", "Requests that were redirected to another Redis node",
        |counts| counts.redirections),
    (COUNTER, "split_calls", "Script calls for several slots that were sent again slot by slot",
        |counts| counts.split_calls),
    (COUNTER, "scripts_loaded", "Times that the scripts were loaded into Redis again",
        |counts| counts.scripts_loaded),
    (COUNTER, "local_denials", "Denials from the denial cache, without a request to Redis",
        |counts| counts.local_denials),
    (COUNTER, "leases", "Leases granted", |counts| counts.leases),
    (COUNTER, "units_leased", "Units of the granted leases", |counts| counts.units_leased),
    (COUNTER, "units_spent", "Leased units that were spent, counted when their lease ends",
        |counts| counts.units_spent),
    (COUNTER, "units_returned", "Leased units that were returned",
        |counts| counts.units_returned),
    (COUNTER, "lease_decisions", "Decisions on leased units, without a request to Redis",
        |counts| counts.lease_decisions),
    (COUNTER, "leases_returned", "Leases returned because they were not used",
        |counts| counts.leases_returned),
    (COUNTER, "write_back_decisions", "Decisions on a local count, without a request to Redis",
        |counts| counts.write_back_decisions),
    (COUNTER, "reports", "Reports of local counts to Redis",
        |counts| counts.reports),
    (COUNTER, "keys_reported", "Keys in these reports", |counts| counts.keys_reported),
    (COUNTER, "reports_outcome_unknown", "Reports whose connection broke before the reply",
        |counts| counts.reports_lost),
];

// === impl Redis ===

impl SharedStore for Redis {
    fn join(&self) {
        self.join_instances();
    }

    fn instances(&self) -> u32 {
        Redis::instances(self)
    }

    /// Before the first connection is open no circuit breaker is, as nothing has failed.
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
                name: "call_requests",
                help: "Requests in one script call",
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

    async fn reserve(
        &self,
        charges: &[Charge<'_>],
        new: &NewReservation<'_>,
    ) -> Result<ReserveVerdict, StoreError> {
        self.reserve_kept(charges, new).await
    }

    async fn find_reservation(
        &self,
        reservation: Key,
    ) -> Result<Option<KeptReservation>, StoreError> {
        self.find_kept(reservation).await
    }

    async fn settle_reservation(
        &self,
        reservation: Key,
        settled: &[SettledCharge<'_>],
    ) -> Result<Settled, StoreError> {
        self.settle_kept(reservation, settled).await
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
