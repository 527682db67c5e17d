//! What the last snapshots say about rates and times. Bounded, however long it is kept.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::number::Rate;
use super::snapshot::{Bound, Snapshot};
use crate::printable::Printable;

/// The most points of a chart, one a second.
pub(super) const POINTS_MAX: usize = 300;
/// The snapshots that rates and percentiles are made of.
const SNAPSHOTS_MAX: usize = 11;
/// A rate is that of so many milliseconds.
const RATE_MILLIS: u64 = 5_000;
/// Percentiles are those of so many milliseconds.
const TIMES_MILLIS: u64 = 10_000;
/// Snapshots are at most this much closer than they should be.
const JITTER_MILLIS: u64 = 500;

/// The latest snapshots, and a point for each second.
#[derive(Debug, Default)]
pub(super) struct History {
    snapshots: VecDeque<Arc<Snapshot>>,
    points: VecDeque<Point>,
    /// When the first snapshot of this history was made, in milliseconds of the process.
    first_millis: Option<u64>,
}

/// What charts show for one second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) allowed: Option<Rate>,
    pub(super) denied: Option<Rate>,
    /// The 99th percentile of times.
    pub(super) p99: Option<Duration>,
}

// === impl History ===

impl History {
    /// Adds a snapshot. One of a service that was restarted begins a new history.
    pub(super) fn push(&mut self, snapshot: Snapshot) {
        let last = self.snapshots.back();
        if last.is_some_and(|last| is_restarted(last, &snapshot)) {
            *self = History::default();
        }
        self.first_millis.get_or_insert(snapshot.uptime_millis);
        push_bounded(&mut self.snapshots, Arc::new(snapshot), SNAPSHOTS_MAX);
        let point = Point {
            allowed: self.rate_over(1_000, |one| Some(one.count(&["allowed", "over_soft"]))),
            denied: self.rate_over(1_000, |one| Some(one.denied())),
            p99: self.percentile_over(2_000, 990),
        };
        push_bounded(&mut self.points, point, POINTS_MAX);
    }

    /// The latest snapshot.
    pub(super) fn latest(&self) -> Option<&Snapshot> {
        self.snapshots.back().map(|latest| &**latest)
    }

    /// For how long there have been snapshots of this process, rounded up by as much as they may be
    /// too close.
    pub(super) fn watched_millis(&self) -> u64 {
        let latest = self.latest().map(|latest| latest.uptime_millis);
        let watched = latest.zip(self.first_millis);
        watched.map_or(0, |(latest, first)| latest - first + JITTER_MILLIS)
    }

    /// The points of the charts, the latest last.
    pub(super) fn points(&self) -> &VecDeque<Point> {
        &self.points
    }

    /// By how much a count grows in a second; `None` with a single snapshot.
    pub(super) fn rate(&self, read: impl Fn(&Snapshot) -> u64) -> Option<Rate> {
        self.rate_over(RATE_MILLIS, |one| Some(read(one)))
    }

    /// The same for a count that a snapshot may lack; `None` also if one of the two does.
    pub(super) fn try_rate(&self, read: impl Fn(&Snapshot) -> Option<u64>) -> Option<Rate> {
        self.rate_over(RATE_MILLIS, read)
    }

    /// The time that so many thousandths of the decisions of all listeners took at most, as the
    /// bound of its bucket; `None` without decisions. Those beyond the last bound are left out.
    pub(super) fn percentile(&self, thousandths: u64) -> Option<Duration> {
        self.percentile_over(TIMES_MILLIS, thousandths)
    }

    fn rate_over(&self, millis: u64, read: impl Fn(&Snapshot) -> Option<u64>) -> Option<Rate> {
        let (latest, before) = self.ends(millis)?;
        let grown = read(latest)?.saturating_sub(read(before)?);
        Some(Rate::new(
            grown,
            latest.uptime_millis - before.uptime_millis,
        ))
    }

    /// The same for other times, of which `read` finds the buckets in a snapshot; `None` also if a
    /// snapshot lacks them.
    pub(super) fn percentile_of<'s>(
        &'s self,
        thousandths: u64,
        read: impl Fn(&'s Snapshot) -> Option<&'s [(Bound, u64)]>,
    ) -> Option<Duration> {
        self.percentile_between(TIMES_MILLIS, thousandths, |one| Some(vec![read(one)?]))
    }

    fn percentile_over(&self, millis: u64, thousandths: u64) -> Option<Duration> {
        self.percentile_between(millis, thousandths, |one| {
            Some(one.latency.values().map(Vec::as_slice).collect())
        })
    }

    /// The smallest bound that enough of what is in these lists of buckets did not exceed between
    /// two snapshots, of all lists together.
    fn percentile_between<'s>(
        &'s self,
        millis: u64,
        thousandths: u64,
        read: impl Fn(&'s Snapshot) -> Option<Vec<&'s [(Bound, u64)]>>,
    ) -> Option<Duration> {
        let (latest, before) = self.ends(millis)?;
        let sum = |snapshot| {
            let mut buckets: BTreeMap<Duration, u64> = BTreeMap::new();
            for (bound, count) in read(snapshot)?.into_iter().flatten() {
                let sum = buckets.entry(bound.0).or_default();
                *sum = sum.saturating_add(*count);
            }
            Some(buckets)
        };
        let (mut buckets, earlier) = (sum(latest)?, sum(before)?);
        for (bound, count) in &mut buckets {
            *count = count.saturating_sub(earlier.get(bound).copied().unwrap_or(0));
        }
        let total = u128::from(*buckets.values().last()?);
        let reached = |count: &u64| u128::from(*count) * 1000 >= total * u128::from(thousandths);
        let mut buckets = buckets.into_iter();
        let found = buckets.find(|(_, count)| total > 0 && reached(count));
        found.map(|(bound, _)| bound)
    }

    /// The latest snapshot, and the one so many milliseconds before it, or the earliest.
    fn ends(&self, millis: u64) -> Option<(&Snapshot, &Snapshot)> {
        let latest = self.latest()?;
        let is_early = |one: &&Arc<Snapshot>| {
            latest.uptime_millis - one.uptime_millis + JITTER_MILLIS >= millis
        };
        let early = self.snapshots.iter().rev().find(is_early);
        let before = early.or(self.snapshots.front())?;
        (latest.uptime_millis > before.uptime_millis).then_some((latest, before))
    }
}

/// Whether the service was restarted between two snapshots. With a long break between them, its
/// uptime does not tell, but the times of its decisions do: unlike the outcomes, of which a reload
/// takes those of former rules, they only grow while it runs.
fn is_restarted(last: &Snapshot, next: &Snapshot) -> bool {
    let decisions = |snapshot: &Snapshot, listener: &Printable| {
        let buckets = snapshot.latency.get(listener);
        buckets.and_then(|buckets| buckets.iter().map(|(_, count)| *count).max())
    };
    let has_lost = |listener: &Printable| decisions(next, listener) < decisions(last, listener);
    next.uptime_millis <= last.uptime_millis || last.latency.keys().any(has_lost)
}

fn push_bounded<T>(queue: &mut VecDeque<T>, item: T, most: usize) {
    if queue.len() >= most {
        queue.pop_front();
    }
    queue.push_back(item);
}

#[cfg(test)]
mod tests;
