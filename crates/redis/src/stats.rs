//! What a store has done so far.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::trouble::Trouble;

/// The ends of the buckets of [`Counts::batch_sizes`], in decisions.
pub const BATCH_SIZES: [u64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 250];
/// The ends of the buckets of [`Counts::call_times`], in microseconds.
pub const CALL_MICROS: [u64; 12] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 1_000_000,
];

/// Observations by size, as Prometheus has them: every bucket counts all that are no larger than
/// its end; the bucket without an end is [`Histogram::count`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram<const N: usize> {
    /// How many were at most as large as each end.
    pub cumulative: [u64; N],
    /// How many there were.
    pub count: u64,
    /// The sum of all of them.
    pub sum: u64,
}

/// A histogram that is counted.
#[derive(Debug)]
struct Tally<const N: usize> {
    ends: &'static [u64; N],
    /// Those above the end before and not above this one.
    buckets: [AtomicU64; N],
    /// Those above all ends.
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
    /// Decisions that were sent to Redis; those sent again after a redirection count again. Leases
    /// that are given back count as well.
    pub requests: u64,
    /// Script calls that carried them.
    pub calls: u64,
    /// Decisions of each script call; the ends are [`BATCH_SIZES`].
    pub batch_sizes: Histogram<9>,
    /// Times that something was written to a connection.
    pub writes: u64,
    /// Microseconds from the writing of a script call to its reply; the ends are [`CALL_MICROS`].
    pub call_times: Histogram<12>,
    /// Decisions that were sent and got no answer in time.
    pub lost: u64,
    /// Connections that were opened.
    pub connections: u64,
    /// Times that a breaker opened.
    pub breaker_openings: u64,
    /// Decisions that another node had to make.
    pub redirections: u64,
    /// Times that the scripts had to be loaded again.
    pub scripts_loaded: u64,
    /// Decisions that were denied without asking Redis, which had denied them lately.
    pub local_denials: u64,
    /// Times that units were leased.
    pub leases: u64,
    /// Units that were leased.
    pub units_leased: u64,
    /// Leased units that were spent; counted once their lease is renewed or returned.
    pub units_spent: u64,
    /// Leased units that went back unspent. What is missing beside those leased and those spent is
    /// still out, or ended with its lease and was charged.
    pub units_returned: u64,
    /// Decisions that were made on leased units, without asking Redis.
    pub lease_decisions: u64,
    /// Keys of which this node holds leases now.
    pub leases_held: u64,
    /// Leases that went back because nobody used them.
    pub leases_returned: u64,
    /// Decisions that were made on this node's own count, without asking Redis.
    pub write_back_decisions: u64,
    /// Keys that this node counts itself now.
    pub write_back_keys: u64,
    /// Messages that reported what was counted here, or asked what to count from.
    pub reports: u64,
    /// Keys that they concerned.
    pub keys_reported: u64,
    /// Script requests of reports whose connection broke before they were answered; they are not
    /// repeated.
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

    /// Connections that were opened.
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

    pub(crate) fn count_script_load(&self) {
        self.scripts_loaded.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_local_denial(&self) {
        self.denied_here.fetch_add(1, Ordering::Relaxed);
    }

    /// Units were leased.
    pub(crate) fn count_lease(&self, units: u64) {
        self.leases.fetch_add(1, Ordering::Relaxed);
        self.units_leased.fetch_add(units, Ordering::Relaxed);
    }

    /// Of a lease so many units were spent, and so many went back.
    pub(crate) fn count_settled_units(&self, spent: u64, returned: u64) {
        self.units_spent.fetch_add(spent, Ordering::Relaxed);
        self.units_returned.fetch_add(returned, Ordering::Relaxed);
    }

    pub(crate) fn count_lease_return(&self) {
        self.lease_returned.fetch_add(1, Ordering::Relaxed);
    }

    /// So many messages reported so many keys.
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

    /// All but what leases and own counts count themselves.
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
