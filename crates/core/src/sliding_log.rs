//! Sliding logs: the moment of each allowed unit.

use std::collections::VecDeque;

use crate::limit::Limit;
use crate::moment::Moment;
use crate::span::Span;
use crate::usage::Usage;

/// A refund of units that are not the newest writes all newer entries again, while other decisions
/// wait for the key: it refunds nothing if there are more than this. As in the store over Redis.
const NEWER_MAX: usize = 10_000;

/// Units allowed at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub at: Moment,
    /// How many.
    pub units: u32,
}

/// The storage of a log's entries, oldest first. Each store chooses how compact it is.
pub trait Entries {
    /// All units in all entries.
    fn units(&self) -> u64;
    /// The oldest entry.
    fn oldest(&self) -> Option<Entry>;
    /// When the oldest entry was made.
    fn oldest_at(&self) -> Option<Moment> {
        self.oldest().map(|entry| entry.at)
    }
    /// The newest entry.
    fn newest(&self) -> Option<Entry>;
    /// All entries, oldest first.
    fn iter(&self) -> impl Iterator<Item = Entry>;
    /// Adds an entry that is not older than the newest.
    fn push_newest(&mut self, entry: Entry);
    /// Removes the newest entry.
    fn pop_newest(&mut self) -> Option<Entry>;
    /// Removes the oldest entry.
    fn pop_oldest(&mut self) -> Option<Entry>;
    /// Makes every entry older by `span`.
    fn age(&mut self, span: Span);
}

/// The allowed units of one window, each with its moment. Exact; its size grows with the limit.
///
/// # Example
///
/// Two per second, allowed at 100 and 200 ms: at 300 ms the first still counts for 800 ms.
///
/// ```
/// use tollgate_core::{Cost, Limit, Moment, OnDenial, SlidingLog, Span, Wait, step};
///
/// let limit = Limit::sliding_log(2, Span::SECOND)?;
/// let mut usage: SlidingLog = SlidingLog::default();
/// let mut ask = |millis| {
///     let now = Moment::ZERO + Span::from_millis(millis);
///     step(&mut usage, &limit, now, Cost::ONE, OnDenial::Keep)
/// };
/// assert!(ask(100).is_allowed() && ask(200).is_allowed());
/// assert_eq!(ask(300).wait(), Some(Wait::For(Span::from_millis(800))));
/// assert!(ask(1_100).is_allowed());
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlidingLog<E = Plain> {
    /// Where the units are stored.
    pub entries: E,
}

/// Entries in a plain list, 16 bytes each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plain {
    entries: VecDeque<Entry>,
    units: u64,
}

// === impl SlidingLog ===

impl<E: Entries> SlidingLog<E> {
    /// Refunds up to `units` of those consumed at `at`; returns how many: none if more than
    /// [`NEWER_MAX`] entries are newer.
    pub(crate) fn refund_at(&mut self, limit: &Limit, now: Moment, at: Moment, units: u64) -> u64 {
        let is_before = |oldest_at: Moment| oldest_at > at;
        let has_none = self.entries.oldest_at().is_none_or(is_before);
        if units == 0 || now.since(at) >= limit.window() || has_none {
            return 0;
        }
        let mut newer = Vec::new();
        // The newest entry that remains, which is not newer unless there are too many.
        let mut last = self.entries.pop_newest();
        while let Some(entry) = last.filter(|entry| entry.at > at && newer.len() < NEWER_MAX) {
            newer.push(entry);
            last = self.entries.pop_newest();
        }
        let mut refunded = 0;
        if let Some(entry) = last {
            let consumed = if entry.at == at { entry.units } else { 0 };
            let back = u32::try_from(units).map_or(consumed, |units| units.min(consumed));
            let left = entry.units - back;
            if left > 0 {
                self.entries.push_newest(Entry {
                    units: left,
                    ..entry
                });
            }
            refunded = u64::from(back);
        }
        let newer = newer.into_iter().rev();
        newer.for_each(|entry| self.entries.push_newest(entry));
        refunded
    }
}

impl<E: Entries> Usage for SlidingLog<E> {
    fn settle(&mut self, limit: &Limit, now: Moment) {
        let Some(newest) = self.entries.newest() else {
            return;
        };
        self.entries.age(newest.at.since(now));
        // A unit that is exactly one window old no longer counts.
        while let Some(oldest_at) = self.entries.oldest_at()
            && now.since(oldest_at) >= limit.window()
        {
            self.entries.pop_oldest();
        }
    }

    fn not_before(&self, _limit: &Limit) -> Moment {
        let newest = self.entries.newest();
        newest.map_or(Moment::ZERO, |newest| newest.at)
    }

    fn wait(&self, limit: &Limit, now: Moment, units: u32) -> Span {
        let room = u64::from(limit.available() - units);
        let mut used = self.entries.units();
        if used <= room {
            return Span::ZERO;
        }
        for entry in self.entries.iter() {
            used -= u64::from(entry.units);
            if used <= room {
                return limit.window().minus(now.since(entry.at));
            }
        }
        Span::ZERO
    }

    fn remaining(&self, limit: &Limit, _now: Moment) -> u32 {
        let free = u64::from(limit.available()).saturating_sub(self.entries.units());
        u32::try_from(free).unwrap_or(u32::MAX)
    }

    fn reset(&self, limit: &Limit, now: Moment) -> Span {
        self.expires_at(limit).since(now)
    }

    fn take(&mut self, _limit: &Limit, now: Moment, units: u32) {
        if units == 0 {
            return;
        }
        let same = self.entries.newest().filter(|newest| newest.at == now);
        let units = units + same.map_or(0, |newest| newest.units);
        if same.is_some() {
            self.entries.pop_newest();
        }
        self.entries.push_newest(Entry { at: now, units });
    }

    fn refund(&mut self, _limit: &Limit, _now: Moment, units: u64) {
        let mut units = units;
        while units > 0 {
            let Some(newest) = self.entries.pop_newest() else {
                return;
            };
            let has = u64::from(newest.units);
            if has > units {
                let left = u32::try_from(has - units).unwrap_or(u32::MAX);
                self.entries.push_newest(Entry {
                    units: left,
                    ..newest
                });
            }
            units = units.saturating_sub(has);
        }
    }

    fn expires_at(&self, limit: &Limit) -> Moment {
        self.entries
            .newest()
            .map_or(Moment::ZERO, |newest| newest.at + limit.window())
    }
}

// === impl Plain ===

impl Entries for Plain {
    fn units(&self) -> u64 {
        self.units
    }

    fn oldest(&self) -> Option<Entry> {
        self.entries.front().copied()
    }

    fn newest(&self) -> Option<Entry> {
        self.entries.back().copied()
    }

    fn iter(&self) -> impl Iterator<Item = Entry> {
        self.entries.iter().copied()
    }

    fn push_newest(&mut self, entry: Entry) {
        self.units += u64::from(entry.units);
        self.entries.push_back(entry);
    }

    fn pop_newest(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_back()?;
        self.units -= u64::from(entry.units);
        Some(entry)
    }

    fn pop_oldest(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.units -= u64::from(entry.units);
        Some(entry)
    }

    fn age(&mut self, span: Span) {
        if !span.is_zero() {
            self.entries
                .iter_mut()
                .for_each(|entry| entry.at = entry.at - span);
        }
    }
}
