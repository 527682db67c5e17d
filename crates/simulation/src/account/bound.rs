//! How many units a counter's limits allow in a period of some length, wherever it begins.

use tollgate_core::{Algorithm, Anchor, Limit, Span};

use super::{MILLI, Taken};
use crate::plan::{Counter, View};

/// Units under a limit with a memory this long do not expire during a run.
const LONG: u64 = 1_000_000 * MILLI;

/// What a counter's limits allow.
pub(super) struct Bound<'p> {
    counter: &'p Counter,
    /// The world's start, in nanoseconds since 1970.
    base: u64,
    /// Whether windows may begin at other times because a clock was set.
    is_skewed: bool,
    /// How the requests meet the limits.
    view: View,
}

// === impl Bound ===

impl<'p> Bound<'p> {
    pub(super) const fn new(counter: &'p Counter, base_micros: u64, jumps: &[u64]) -> Bound<'p> {
        Bound {
            counter,
            base: base_micros * 1_000,
            is_skewed: !jumps.is_empty(),
            view: View::WHOLE,
        }
    }

    /// What they allow to requests that meet them so.
    pub(super) fn of_view(self, view: View) -> Bound<'p> {
        Bound { view, ..self }
    }

    /// What of a limit the requests can use.
    fn usable(&self, limit: &Limit) -> u32 {
        self.counter.as_met(limit, self.view).available()
    }

    /// How long consumed units may matter.
    ///
    /// Versions of a bucket share one debt: as many units as the largest allows, which take the
    /// interval of one version and then of another. So each unit may take the longest interval.
    pub(super) fn memory(&self) -> u64 {
        let limits = || self.counter.limits.iter();
        let intervals = limits().filter_map(|limit| limit.interval());
        let shared = intervals.max().map_or(0, Span::as_nanos) * self.counter.capacity();
        shared.max(self.longest_lock())
    }

    /// How long a key may be locked from now on: for as long as the version of its limit remembers
    /// that remembers longest.
    pub(super) fn longest_lock(&self) -> u64 {
        let limits = self.counter.limits.iter();
        let locks = limits.map(|limit| match limit.interval() {
            Some(interval) => interval.as_nanos() * u64::from(limit.capacity()),
            None => 2 * limit.window().as_nanos(),
        });
        locks.max().unwrap_or(0)
    }

    /// Whether no unit expires during a run.
    pub(super) fn is_long(&self) -> bool {
        self.memory() >= LONG
    }

    /// The most units of all versions of the limit between two moments.
    pub(super) fn most(&self, from: u64, to: u64) -> u64 {
        let limits = self.counter.limits.iter();
        limits
            .map(|limit| self.most_of(limit, from, to))
            .max()
            .unwrap_or(0)
    }

    /// The most that `limit` allows from `from` to `to`, whatever happened before: a full capacity,
    /// and what becomes free in that time, rounded up.
    fn most_of(&self, limit: &Limit, from: u64, to: u64) -> u64 {
        let (capacity, window) = (u64::from(self.usable(limit)), limit.window().as_nanos());
        // Redis's clock may read up to a millisecond more.
        let span = to - from + 2 * MILLI;
        if let Some(interval) = limit.interval() {
            // A changed bucket keeps the time until it is full, which is more with the longer
            // interval.
            let capacities = self.counter.limits.iter().map(|limit| self.usable(limit));
            let largest = u64::from(capacities.max().unwrap_or(0));
            return largest + span / interval.as_nanos().max(1) + 1;
        }
        let parts = |length: u64| {
            let index = |at: u64| (self.base + at) / length;
            index(to + 2 * MILLI) - index(from) + 1 + u64::from(self.is_skewed)
        };
        match limit.algorithm() {
            Algorithm::SlidingLog => capacity * (span / window + 1),
            // The first window begins after the run.
            Algorithm::FixedWindow(Anchor::FirstRequest) => {
                capacity * (span / window + 2).min(to / window + 1 + u64::from(self.is_skewed))
            }
            Algorithm::SlidingWindow(segments) => {
                let segments = u64::from(segments.get());
                capacity * parts(window / segments).div_ceil(segments)
            }
            _ => capacity * parts(window),
        }
    }

    /// Units that a change of the algorithm or the window may drop: at most the smaller capacity is
    /// kept, and a third version, of the shape of that one, may be larger. A bucket knows its
    /// capacity, so there Redis looks at what it still has of the other shape.
    pub(super) fn most_dropped(&self) -> u64 {
        let limits = &self.counter.limits;
        let shape = |limit: &Limit| (limit.algorithm(), limit.window());
        let other_shapes = |small: &Limit| {
            let others = limits.iter().filter(|limit| shape(limit) != shape(small));
            others.map(Limit::capacity).max().unwrap_or(0)
        };
        let is_outgrown = |small: &Limit| {
            let mut same = limits.iter().filter(|limit| shape(limit) == shape(small));
            small.interval().is_none() && same.any(|limit| limit.capacity() > small.capacity())
        };
        let small = limits.iter().filter(|small| is_outgrown(small));
        let dropped = small.map(|small| other_shapes(small).saturating_sub(small.capacity()));
        u64::from(dropped.max().unwrap_or(0))
    }

    /// How `last` and the decisions before it break the bound, if they do; `extra` is how many more
    /// units may be allowed since some moment.
    pub(super) fn find_violation(
        &self,
        all: &[Taken],
        last: Taken,
        extra: impl Fn(u64) -> u64,
    ) -> Option<String> {
        let mut sum = 0;
        for (index, taken) in all.iter().enumerate().rev() {
            if taken.to > last.to {
                continue;
            }
            sum += taken.units;
            // The previous one began at the same moment, so both count together.
            if index > 0 && all[index - 1].from == taken.from {
                continue;
            }
            let most = self.most(taken.from, last.to);
            let extra = extra(taken.from);
            if sum > most + extra {
                let length = (last.to - taken.from) / MILLI;
                return Some(format!(
                    "{sum} units were allowed within {length} ms, where {most} and {extra} are \
                     explained"
                ));
            }
        }
        None
    }
}
