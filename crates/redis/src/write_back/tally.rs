//! The local count of one key, which may exceed its limit.
//!
//! The algorithms are core's. What is added is debt: units that the instances together allowed
//! beyond a limit stay in the count, and nothing is allowed until they are paid back. The general
//! script counts in the same way.

use tollgate_core::{Account, Bucket, Limit, Moment, SlidingWindow, Span, Usage};

use crate::fit::{FittedLimit, GRAIN};
use crate::marked_window::MarkedWindow;
use crate::snapshot::{Snapshot, moment};

/// The count of one key, and the part of it that is not reported yet.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    count: Count,
    /// For a bucket, the time at which it is full again by Redis's last reply, in microseconds.
    base: u64,
    parts: Vec<Part>,
}

/// Units allowed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// For a fixed window its end, for a sliding one the number of the segment. For a bucket, the
    /// time at which it would be full again if it had been full before these units. In
    /// microseconds.
    pub(crate) at: u64,
    pub(crate) units: u64,
}

#[derive(Clone, Debug)]
enum Count {
    Bucket(Bucket),
    FixedWindow(MarkedWindow),
    SlidingWindow(Box<SlidingWindow>),
}

// === impl Tally ===

impl Tally {
    /// A key with nothing consumed. For algorithms without local counts, a full bucket.
    pub(crate) fn fresh(limit: &Limit) -> Tally {
        Tally {
            count: Count::of(Snapshot::Account(Account::fresh(limit))),
            base: 0,
            parts: Vec::new(),
        }
    }

    /// Whether everything was reported.
    pub(crate) const fn is_reported(&self) -> bool {
        self.parts.is_empty()
    }

    /// Takes the units allowed since the last call, and the base that they start from.
    pub(crate) fn gather(&mut self) -> (u64, Vec<Part>) {
        (self.base, std::mem::take(&mut self.parts))
    }

    /// Notes that Redis has charged everything that is counted here.
    pub(crate) fn note_charged(&mut self) {
        self.parts.clear();
        self.note_base();
    }

    /// Notes that the count is what Redis has.
    fn note_base(&mut self) {
        if let Count::Bucket(bucket) = self.count {
            self.base = bucket.word() / GRAIN.as_nanos();
        }
    }

    /// Puts back parts that were gathered and are known not to be charged.
    pub(crate) fn put_back(&mut self, fitted: &FittedLimit, parts: Vec<Part>) {
        let later = std::mem::replace(&mut self.parts, parts);
        for part in later {
            self.note(fitted, part);
        }
    }

    /// Redis's clock was set back to `now`, by so many microseconds: dates units that are not
    /// reported yet no later than that. Otherwise they would fill a bucket for as long, and erase
    /// the segments of a window.
    pub(crate) fn set_back(&mut self, fitted: &FittedLimit, micros: u64, now: Moment) {
        let mut unused = Tally::fresh(&fitted.limit);
        unused.count.settle(&fitted.limit, now);
        let newest = unused.part(&fitted.limit, now, 0).at;
        for part in &mut self.parts {
            part.at = match fitted.kind.is_bucket() {
                true => part.at.saturating_sub(micros),
                false => part.at.min(newest),
            };
        }
    }

    /// Applies the count in Redis's reply at `now`, which includes the gathered units, and adds the
    /// units allowed here since.
    pub(crate) fn apply_reply(
        &mut self,
        mut snapshot: Snapshot,
        fitted: &FittedLimit,
        now: Moment,
    ) {
        if let Snapshot::Account(Account::Bucket(bucket)) = &mut snapshot {
            // A bucket charged under another version of the rule keeps its price, as it does in
            // Redis.
            if bucket.is_priced_by(&fitted.limit) {
                *bucket = Bucket::full_at(Moment::from_nanos(bucket.word()));
            }
        }
        self.count = Count::of(snapshot);
        self.note_base();
        for part in &mut self.parts {
            self.count.add(fitted, part, now);
        }
    }

    /// Notes units that were allowed.
    fn note(&mut self, fitted: &FittedLimit, part: Part) {
        let Some(last) = self.parts.last_mut() else {
            self.parts.push(part);
            return;
        };
        if fitted.kind.is_bucket() {
            let debt = fitted.span.saturating_mul(part.units);
            last.at = part.at.max(last.at.saturating_add(debt));
            last.units = last.units.saturating_add(part.units);
            return;
        }
        if last.at >= part.at {
            // In the same window, or Redis's clock was set back.
            last.units = last.units.saturating_add(part.units);
            return;
        }
        self.parts.push(part);
        // Older parts no longer count.
        let oldest = match fitted.segments {
            0 => part.at.saturating_sub(fitted.span),
            segments => part.at.saturating_sub(u64::from(segments)),
        };
        self.parts.retain(|part| part.at >= oldest);
    }

    /// The part for taking `units` now.
    fn part(&self, limit: &Limit, now: Moment, units: u32) -> Part {
        let micros = |moment: Moment| moment.as_nanos() / GRAIN.as_nanos();
        let at = match &self.count {
            Count::Bucket(_) => {
                let mut alone = Bucket::default();
                alone.take(limit, now, units);
                micros(Moment::from_nanos(alone.word()))
            }
            Count::FixedWindow(window) => micros(window.window().end()),
            Count::SlidingWindow(window) => window.newest(),
        };
        Part {
            at,
            units: u64::from(units),
        }
    }
}

/// A tally under a limit, as core's algorithms use it.
#[derive(Debug)]
pub(crate) struct Counting<'t> {
    pub(crate) tally: &'t mut Tally,
    pub(crate) fitted: &'t FittedLimit,
}

impl Usage for Counting<'_> {
    fn settle(&mut self, limit: &Limit, now: Moment) {
        self.tally.count.settle(limit, now);
    }

    fn not_before(&self, limit: &Limit) -> Moment {
        self.tally.count.usage().not_before(limit)
    }

    fn wait(&self, limit: &Limit, now: Moment, units: u32) -> Span {
        self.tally.count.usage().wait(limit, now, units)
    }

    fn remaining(&self, limit: &Limit, now: Moment) -> u32 {
        self.tally.count.usage().remaining(limit, now)
    }

    fn reset(&self, limit: &Limit, now: Moment) -> Span {
        self.tally.count.usage().reset(limit, now)
    }

    fn is_over_nominal(&self, limit: &Limit, now: Moment) -> bool {
        self.tally.count.usage().is_over_nominal(limit, now)
    }

    fn take(&mut self, limit: &Limit, now: Moment, units: u32) {
        let part = self.tally.part(limit, now, units);
        self.tally.count.usage_mut().take(limit, now, units);
        self.tally.note(self.fitted, part);
    }

    fn penalise(&mut self, limit: &Limit, now: Moment, units: u32) {
        let Count::Bucket(bucket) = &mut self.tally.count else {
            let left = self.remaining(limit, now);
            return self.take(limit, now, units.min(left));
        };
        let before = *bucket;
        bucket.penalise(limit, now, units);
        if *bucket == before {
            // It was exhausted already.
            return;
        }
        let exhausted = now + limit.refill();
        if Moment::from_nanos(bucket.word()) < exhausted {
            *bucket = before;
            return self.take(limit, now, units);
        }
        // Exhausted now, which is not a number of units.
        let at = exhausted.as_nanos() / GRAIN.as_nanos();
        self.tally.note(self.fitted, Part { at, units: 0 });
    }

    /// Redis makes refunds, and its next reply contains them.
    fn refund(&mut self, _limit: &Limit, _now: Moment, _units: u64) {}

    fn expires_at(&self, limit: &Limit) -> Moment {
        self.tally.count.usage().expires_at(limit)
    }
}

// === impl Count ===

impl Count {
    fn of(snapshot: Snapshot) -> Count {
        match snapshot {
            Snapshot::Account(Account::Bucket(bucket)) => Count::Bucket(bucket),
            Snapshot::Account(Account::FixedWindow(window)) => {
                Count::FixedWindow(MarkedWindow::without_debt(window))
            }
            Snapshot::Marked(window) => Count::FixedWindow(window),
            Snapshot::Account(Account::SlidingWindow(window)) => {
                Count::SlidingWindow(Box::new(window))
            }
            // Logs have no local counts.
            Snapshot::Account(Account::SlidingLog(_)) | Snapshot::Log(_) => {
                Count::Bucket(Bucket::default())
            }
        }
    }

    fn usage(&self) -> &dyn Usage {
        match self {
            Count::Bucket(bucket) => bucket,
            Count::FixedWindow(window) => window,
            Count::SlidingWindow(window) => &**window,
        }
    }

    fn usage_mut(&mut self) -> &mut dyn Usage {
        match self {
            Count::Bucket(bucket) => bucket,
            Count::FixedWindow(window) => window,
            Count::SlidingWindow(window) => &mut **window,
        }
    }

    /// As in core, but debt stays: the time here does not go back.
    fn settle(&mut self, limit: &Limit, now: Moment) {
        match self {
            Count::Bucket(bucket) => {
                if Moment::from_nanos(bucket.word()) <= now {
                    *bucket = Bucket::full_at(now);
                }
            }
            Count::FixedWindow(window) => window.settle(limit, now),
            Count::SlidingWindow(window) => window.settle(limit, now),
        }
    }

    /// Adds units allowed here to the count in Redis's reply at `now`, whether they fit or not.
    fn add(&mut self, fitted: &FittedLimit, part: &mut Part, now: Moment) {
        match self {
            Count::Bucket(bucket) => {
                bucket.take_unjudged(&fitted.limit, now, part.units, moment(part.at));
            }
            Count::FixedWindow(marked) => {
                let units = u32::try_from(part.units).unwrap_or(u32::MAX);
                if moment(part.at) <= now {
                    // It is over: the next reply contains its over-admission.
                    return;
                }
                let window = marked.window();
                if window.used() > 0 && window.end() > now {
                    // Another instance has started the window.
                    part.at = window.end().as_nanos() / GRAIN.as_nanos();
                }
                marked.add(&fitted.limit, units, moment(part.at));
            }
            Count::SlidingWindow(window) => {
                let limit = &fitted.limit;
                if part.at > window.newest() {
                    window.settle(limit, moment(part.at.saturating_mul(fitted.span)));
                }
                let age = usize::try_from(window.newest() - part.at).unwrap_or(usize::MAX);
                let mut counters = window.counters(limit).to_vec();
                if let Some(counter) = counters.get_mut(age) {
                    let units = u32::try_from(part.units).unwrap_or(u32::MAX);
                    *counter = counter.saturating_add(units);
                    **window = SlidingWindow::new(window.newest(), &counters);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
