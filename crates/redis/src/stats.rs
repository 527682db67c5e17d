//! Counters of a store.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::trouble::Trouble;

/// The upper bounds of the buckets of [`Counts::batch_sizes`], in decisions.
pub const BATCH_SIZES: [u64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 250];
/// The upper bounds of the buckets of [`Counts::call_times`], in microseconds.
pub const CALL_MICROS: [u64; 12] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 1_000_000,
];

/// A histogram as in Prometheus: each bucket counts all observations up to its upper bound; the
/// bucket without a bound is [`Histogram::count`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram<const N: usize> {
    /// The number of observations up to each bound.
    pub cumulative: [u64; N],
    /// The number of observations.
    pub count: u64,
    /// The sum of the observations.
    pub sum: u64,
}

/// The counters of a histogram.
#[derive(Debug)]
struct Tally<const N: usize> {
    ends: &'static [u64; N],
    /// Observations above the previous bound and up to this one.
    buckets: [AtomicU64; N],
    /// Observations above all bounds.
    above: AtomicU64,
    sum: AtomicU64,
}

/// Counters of one store, over all its connections.
#[derive(Debug)]
pub(crate) struct Stats {
    pub(crate) trouble: Trouble,
    batch_sizes: Tally<9>,
    call_times: Tally<12>,
    writes: AtomicU64,
    lost: AtomicU64,
    connected: AtomicU64,
    opened: AtomicU64,
    redirected: AtomicU64,
    split_calls: AtomicU64,
    scripts_loaded: AtomicU64,
    denied_here: AtomicU64,
    reports: AtomicU64,
    keys_reported: AtomicU64,
    reports_lost: AtomicU64,
    leases: AtomicU64,
    units_leased: AtomicU64,
    units_spent: AtomicU64,
    units_returned: AtomicU64,
    lease_returned: AtomicU64,
}

/// What a store has done since it was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Decisions sent to Redis; one that is sent again after a redirect counts again. Returned
    /// leases count as well.
    pub requests: u64,
    /// Script calls that carried these decisions.
    pub calls: u64,
    /// Decisions per script call; the bounds are [`BATCH_SIZES`].
    pub batch_sizes: Histogram<9>,
    /// Writes to connections.
    pub writes: u64,
    /// Microseconds from writing a script call to its reply; the bounds are [`CALL_MICROS`].
    pub call_times: Histogram<12>,
    /// Decisions that were sent and got no reply before the deadline: their outcome is unknown.
    pub lost: u64,
    /// Connections opened.
    pub connections: u64,
    /// Times that a circuit breaker opened.
    pub breaker_openings: u64,
    /// Redirects followed to another node of a Cluster, and retries while a slot migrates.
    pub redirections: u64,
    /// Script calls for several slots that a node of a Cluster could not execute: it does not
    /// serve one of them, or no longer has all keys of one that migrates. They are sent again slot
    /// by slot.
    pub split_calls: u64,
    /// Times that the scripts had to be loaded again.
    pub scripts_loaded: u64,
    /// Decisions denied locally, from the denial cache.
    pub local_denials: u64,
    /// Leases granted or renewed.
    pub leases: u64,
    /// Units leased.
    pub units_leased: u64,
    /// Leased units that were spent; counted when their lease is renewed or returned.
    pub units_spent: u64,
    /// Leased units returned unspent. Units that are in neither of these two counts are still held,
    /// or their lease expired and they stay charged.
    pub units_returned: u64,
    /// Decisions made on leased units, without a round trip to Redis.
    pub lease_decisions: u64,
    /// Keys of which this instance holds leases now.
    pub leases_held: u64,
    /// Leases returned because they were unused.
    pub leases_returned: u64,
    /// Decisions made on local counts, without a round trip to Redis.
    pub write_back_decisions: u64,
    /// Keys with a local count now.
    pub write_back_keys: u64,
    /// Messages that reported local counts, or fetched the state to start a local count from.
    pub reports: u64,
    /// Keys in these messages.
    pub keys_reported: u64,
    /// Script requests of reports whose connection broke before the reply; they are not repeated.
    pub reports_lost: u64,
}

// === impl Stats ===

impl Stats {
    pub(crate) fn count_call(&self, requests: usize) {
        self.batch_sizes
            .observe(u64::try_from(requests).unwrap_or(u64::MAX));
    }

    pub(crate) fn count_write(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn observe_call_time(&self, after: std::time::Duration) {
        self.call_times
            .observe(u64::try_from(after.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn count_lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Connections opened so far.
    pub(crate) fn connections(&self) -> u64 {
        self.connected.load(Ordering::Relaxed)
    }

    pub(crate) fn count_connection(&self) {
        self.connected.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_breaker_opening(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_redirection(&self) {
        self.redirected.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_split_call(&self) {
        self.split_calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_script_load(&self) {
        self.scripts_loaded.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_local_denial(&self) {
        self.denied_here.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a lease of this many units.
    pub(crate) fn count_lease(&self, units: u64) {
        self.leases.fetch_add(1, Ordering::Relaxed);
        self.units_leased.fetch_add(units, Ordering::Relaxed);
    }

    /// Counts how many units of a lease were spent and returned.
    pub(crate) fn count_settled_units(&self, spent: u64, returned: u64) {
        self.units_spent.fetch_add(spent, Ordering::Relaxed);
        self.units_returned.fetch_add(returned, Ordering::Relaxed);
    }

    pub(crate) fn count_lease_return(&self) {
        self.lease_returned.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the messages of a report and the keys in them.
    pub(crate) fn count_report(&self, messages: usize, keys: usize) {
        let add = |counter: &AtomicU64, count| {
            counter.fetch_add(u64::try_from(count).unwrap_or(0), Ordering::Relaxed);
        };
        add(&self.reports, messages);
        add(&self.keys_reported, keys);
    }

    pub(crate) fn count_lost_report(&self) {
        self.reports_lost.fetch_add(1, Ordering::Relaxed);
    }

    /// All counts except those that leases and local counts keep themselves.
    pub(crate) fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let batch_sizes = self.batch_sizes.snapshot();
        Counts {
            requests: batch_sizes.sum,
            calls: batch_sizes.count,
            batch_sizes,
            writes: read(&self.writes),
            call_times: self.call_times.snapshot(),
            lost: read(&self.lost),
            connections: read(&self.connected),
            breaker_openings: read(&self.opened),
            redirections: read(&self.redirected),
            split_calls: read(&self.split_calls),
            scripts_loaded: read(&self.scripts_loaded),
            local_denials: read(&self.denied_here),
            leases: read(&self.leases),
            units_leased: read(&self.units_leased),
            units_spent: read(&self.units_spent),
            units_returned: read(&self.units_returned),
            lease_decisions: 0,
            leases_held: 0,
            leases_returned: read(&self.lease_returned),
            write_back_decisions: 0,
            write_back_keys: 0,
            reports: read(&self.reports),
            keys_reported: read(&self.keys_reported),
            reports_lost: read(&self.reports_lost),
        }
    }
}

impl Default for Stats {
    fn default() -> Stats {
        Stats {
            trouble: Trouble::default(),
            batch_sizes: Tally::new(&BATCH_SIZES),
            call_times: Tally::new(&CALL_MICROS),
            writes: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            connected: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            redirected: AtomicU64::new(0),
            split_calls: AtomicU64::new(0),
            scripts_loaded: AtomicU64::new(0),
            denied_here: AtomicU64::new(0),
            reports: AtomicU64::new(0),
            keys_reported: AtomicU64::new(0),
            reports_lost: AtomicU64::new(0),
            leases: AtomicU64::new(0),
            units_leased: AtomicU64::new(0),
            units_spent: AtomicU64::new(0),
            units_returned: AtomicU64::new(0),
            lease_returned: AtomicU64::new(0),
        }
    }
}

// === impl Tally ===

impl<const N: usize> Tally<N> {
    fn new(ends: &'static [u64; N]) -> Tally<N> {
        Tally {
            ends,
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            above: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }

    fn observe(&self, size: u64) {
        let bucket = self.ends.partition_point(|end| *end < size);
        let bucket = self.buckets.get(bucket).unwrap_or(&self.above);
        bucket.fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(size, Ordering::Relaxed);
    }

    fn snapshot(&self) -> Histogram<N> {
        let mut count = 0;
        let cumulative = self.buckets.each_ref().map(|bucket| {
            count += bucket.load(Ordering::Relaxed);
            count
        });
        Histogram {
            cumulative,
            count: count + self.above.load(Ordering::Relaxed),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

// === impl Histogram ===

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Histogram<N> {
        Histogram {
            cumulative: [0; N],
            count: 0,
            sum: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_counts_all_that_are_no_larger() {
        let stats = Stats::default();
        for requests in [1, 1, 2, 3, 250, 251] {
            stats.count_call(requests);
        }
        let counts = stats.counts();
        assert_eq!(counts.batch_sizes.cumulative, [2, 3, 4, 4, 4, 4, 4, 4, 5]);
        assert_eq!((counts.calls, counts.requests), (6, 508));
    }
}
