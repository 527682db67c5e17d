//! How many units a counter's limits allow in a period of some length, wherever it begins.

use tollgate_core::{Algorithm, Anchor, Limit, Span};

use super::clock::{Clock, READ_LATE, UNSET};
use super::{MILLI, Taken};
use crate::plan::{Counter, View};

/// Units under a limit with a memory this long do not expire during a run.
const LONG: u64 = 1_000_000 * MILLI;

/// What a counter's limits allow.
pub(super) struct Bound<'p> {
    counter: &'p Counter,
    /// The world's start, in nanoseconds since 1970.
    base: u64,
    /// The clock by which all limits are decided.
    clock: &'p Clock,
    /// Whether only windows aligned to the epoch follow it, as in the memory of an instance.
    is_in_memory: bool,
    /// How the requests meet the limits.
    view: View,
}

// === impl Bound ===

impl<'p> Bound<'p> {
    pub(super) const fn new(counter: &'p Counter, base_micros: u64, clock: &'p Clock) -> Bound<'p> {
        Bound {
            counter,
            base: base_micros * 1_000,
            clock,
            is_in_memory: false,
            view: View::WHOLE,
        }
    }

    /// What they allow in the memory of an instance whose wall clock this is.
    pub(super) const fn in_memory(self) -> Bound<'p> {
        Bound {
            is_in_memory: true,
            ..self
        }
    }

    /// What they allow to requests that meet them so.
    pub(super) const fn of_view(self, view: View) -> Bound<'p> {
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

    /// Whether no unit expires during a run, also not by a clock that was set forward.
    pub(super) fn is_long(&self) -> bool {
        self.memory() >= LONG && self.clock.forward(0, u64::MAX, u64::MAX) < LONG / 2
    }

    /// The earliest moment of which a limit may still know something at `at`.
    pub(super) fn find_memory_start(&self, at: u64) -> u64 {
        self.clock.find_memory_start(at, self.memory() + READ_LATE)
    }

    /// The earliest moment of which units may explain a denial at `at`.
    pub(super) fn find_cause_start(&self, at: u64) -> u64 {
        let memory = self.memory() + READ_LATE;
        let is_bucket = |limit: &Limit| limit.interval().is_some();
        match self.counter.limits.iter().any(is_bucket) {
            true => self.clock.find_debt_start(at, memory),
            false => self.clock.find_memory_start(at, memory),
        }
    }

    /// How many units of a bucket may count at `at` that it never charged, because its clock was
    /// set back.
    pub(super) fn debt_units(&self, at: u64) -> u64 {
        let intervals = self.counter.limits.iter().filter_map(Limit::interval);
        let interval = intervals.min().map_or(u64::MAX, Span::as_nanos);
        self.clock.debt(at).div_ceil(interval.max(1))
    }

    /// How many units of a bucket are refilled from `from` to `to`, at most.
    pub(super) fn refill_units(&self, from: u64, to: u64) -> u64 {
        let intervals = self.counter.limits.iter().filter_map(Limit::interval);
        let Some(interval) = intervals.min() else {
            return 0;
        };
        let span = to - from + READ_LATE + self.clock.forward(from, to, u64::MAX);
        span / interval.as_nanos().max(1) + 1
    }

    /// The most units of all versions of the limit between two moments.
    pub(super) fn most(&self, from: u64, to: u64) -> u64 {
        let limits = self.counter.limits.iter();
        let most = limits.map(|limit| self.most_of(limit, from, to)).max();
        most.unwrap_or(0) + self.most_expired(from, to)
    }

    /// Units that one of several versions of the limit has allowed and that expired there, as the
    /// clock was set forward by its window, before another with a longer window has seen any.
    fn most_expired(&self, from: u64, to: u64) -> u64 {
        let limits = &self.counter.limits;
        let longest = limits.iter().map(Limit::window).max();
        let expires = |limit: &&Limit| {
            let window = limit.window();
            let forward = self.clock_of(limit).forward(from, to, u64::MAX);
            window.as_nanos() <= forward && Some(window) < longest
        };
        let expired = limits.iter().filter(expires);
        let most = expired.map(|limit| u64::from(self.usable(limit))).max();
        most.unwrap_or(0)
    }

    /// The clock by which a limit is decided.
    fn clock_of(&self, limit: &Limit) -> &Clock {
        match self.is_in_memory && !is_aligned(limit) {
            true => &UNSET,
            false => self.clock,
        }
    }

    /// The most that `limit` allows from `from` to `to`, whatever happened before: a full capacity,
    /// and what becomes free in that time, rounded up.
    fn most_of(&self, limit: &Limit, from: u64, to: u64) -> u64 {
        let (capacity, window) = (u64::from(self.usable(limit)), limit.window().as_nanos());
        let clock = self.clock_of(limit);
        let span = |from: u64, memory: u64| to - from + READ_LATE + clock.forward(from, to, memory);
        if let Some(interval) = limit.interval() {
            // A changed bucket keeps the time until it is full, which is more with the longer
            // interval.
            let capacities = self.counter.limits.iter().map(|limit| self.usable(limit));
            let largest = u64::from(capacities.max().unwrap_or(0));
            let interval = interval.as_nanos().max(1);
            return largest + span(from, largest * interval) / interval + 1;
        }
        let parts =
            |length: u64, most: u64| clock.parts_entered(self.base, length, (from, to), most);
        match limit.algorithm() {
            Algorithm::SlidingLog => capacity * (span(from, window) / window + 1),
            // The first window begins after the run.
            Algorithm::FixedWindow(Anchor::FirstRequest) => {
                let windows = span(from, window) / window + 2;
                capacity * windows.min(span(0, window) / window + 1)
            }
            Algorithm::SlidingWindow(segments) => {
                let segments = u64::from(segments.get());
                capacity * parts(window / segments, segments).div_ceil(segments)
            }
            _ => capacity * parts(window, 1),
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

/// Whether a limit's windows are aligned to the epoch.
const fn is_aligned(limit: &Limit) -> bool {
    let algorithm = limit.algorithm();
    matches!(
        algorithm,
        Algorithm::FixedWindow(Anchor::Clock) | Algorithm::SlidingWindow(_)
    )
}
