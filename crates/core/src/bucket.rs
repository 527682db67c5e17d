//! Token and leaky buckets: one word, the moment at which the bucket will be full again.
//!
//! This is the generic cell rate algorithm (GCRA, ITU-T I.371), and the word is its theoretical
//! arrival time. Consumed units are a debt of time, `full_at - now`: each unit costs one interval.
//! A leaky bucket reads the same word as a queue: the debt ahead of a request is its delay.
//!
//! The debt is expressed in intervals of the limit that charged last. Another limit on the same key
//! (the rule has changed, or another instance runs another version of it) must not erase what that
//! limit counted. If its capacity is smaller, it therefore reads the debt in the interval that made
//! it, and switches to its own interval when it charges ([`Bucket::migrate`]).

use crate::limit::{Algorithm, Limit};
use crate::moment::{Moment, Timeline};
use crate::span::Span;
use crate::usage::Usage;

/// The moment at which the bucket will be full again. Zero or any past moment is a full bucket.
///
/// # Example
///
/// A queue of ten that releases two a second: the fourth request waits for the three before it.
///
/// ```
/// use tollgate_core::{Bucket, Cost, Decision, Limit, Moment, OnDenial, Span, step};
///
/// let limit = Limit::leaky_bucket(2, Span::SECOND)?.with_burst(10)?;
/// let mut usage = Bucket::default();
/// for turn in 0..10 {
///     let decision = step(&mut usage, &limit, Moment::ZERO, Cost::ONE, OnDenial::Keep);
///     let Decision::Allow(grant) = decision else { panic!("ten fit") };
///     assert_eq!(grant.delay, Span::from_millis(500 * turn));
/// }
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    full_at: Moment,
    /// Those of the limit that charged last. `None` if only the word is known, which is then read
    /// in the interval of the deciding limit.
    terms: Option<Terms>,
}

/// The parts of a limit that a debt depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Terms {
    interval: Span,
    capacity: u64,
}

// === impl Bucket ===

impl Bucket {
    /// The bucket that is full again at `full_at`, charged by an unknown limit.
    pub const fn full_at(full_at: Moment) -> Bucket {
        Bucket {
            full_at,
            terms: None,
        }
    }

    /// The bucket that is full again at `full_at`, last charged by a limit with this interval and
    /// capacity.
    pub fn with_terms(full_at: Moment, interval: Span, capacity: u32) -> Bucket {
        let terms = Terms {
            interval,
            capacity: u64::from(capacity),
        };
        Bucket {
            full_at,
            terms: if interval.is_zero() {
                None
            } else {
                Some(terms)
            },
        }
    }

    /// The bucket as one word.
    pub const fn word(self) -> u64 {
        self.full_at.as_nanos()
    }

    /// Whether the debt is in the interval of `limit`.
    pub fn is_priced_by(self, limit: &Limit) -> bool {
        let interval = limit.interval().unwrap_or(Span::ZERO);
        self.terms.is_none_or(|terms| terms.interval == interval)
    }

    /// Whether [`Bucket::word`] is the whole state under `limit`: it was charged last by a limit
    /// with this interval and capacity, or is full.
    pub(crate) fn is_word_of(self, limit: &Limit) -> bool {
        self.terms.is_none() || self.terms == Terms::of(limit)
    }

    #[inline]
    const fn debt(self, now: Moment) -> Span {
        self.full_at.since(now)
    }

    /// The interval that the debt is expressed in.
    #[inline]
    fn interval(self, limit: &Limit) -> Span {
        match self.terms {
            Some(terms) => terms.interval,
            None => limit.interval().unwrap_or(Span::ZERO),
        }
    }

    /// The debt of `units`.
    #[inline]
    fn price(self, limit: &Limit, units: u32) -> Span {
        match self.terms {
            Some(terms) => terms.interval.times(u64::from(units)),
            None => limit.price(units),
        }
    }

    /// The debt of a `limit` of which all available units are consumed.
    #[inline]
    fn room(self, limit: &Limit) -> Span {
        match self.terms {
            Some(terms) => terms.interval.times(u64::from(limit.available())),
            None => limit.available_refill(),
        }
    }

    /// The debt of an exhausted `limit`.
    #[inline]
    fn whole_room(self, limit: &Limit) -> Span {
        match self.terms {
            Some(terms) => terms.interval.times(u64::from(limit.capacity())),
            None => limit.refill(),
        }
    }

    /// The consumed units that still count, rounded up.
    pub(crate) fn used(self, limit: &Limit, now: Moment) -> u64 {
        let interval = self.interval(limit).as_nanos();
        self.debt(now).as_nanos().div_ceil(interval.max(1))
    }

    /// The debt converted to the interval of `limit`, rounded up, fractions of a unit included.
    fn debt_at_price_of(self, limit: &Limit, now: Moment) -> Span {
        let debt = self.debt(now);
        let (Some(terms), Some(is)) = (self.terms, limit.interval()) else {
            return debt;
        };
        if terms.interval == is {
            return debt;
        }
        let debt = u128::from(debt.as_nanos()) * u128::from(is.as_nanos());
        let debt = debt.div_ceil(u128::from(terms.interval.as_nanos()));
        Span::from_nanos(u64::try_from(debt).unwrap_or(u64::MAX))
    }

    /// The same units in the interval of `limit`, as if it charged now.
    #[must_use]
    fn rescale(self, limit: &Limit, now: Moment) -> Bucket {
        Bucket {
            full_at: now + self.debt_at_price_of(limit, now),
            terms: Terms::of(limit),
        }
    }

    /// Charges units that were not judged under `limit`, beyond its capacity as well. Alone, they
    /// would have made the bucket full again at `alone`, which this bucket may not be able to
    /// derive.
    ///
    /// Units beyond its capacity, on top of what a larger limit has counted, keep the interval of
    /// the larger one: at another interval, all of its units could take longer than the memory of
    /// either limit.
    pub fn take_unjudged(&mut self, limit: &Limit, now: Moment, units: u64, alone: Moment) {
        let capacity = u64::from(limit.capacity());
        let is_larger = self.terms.is_some_and(|terms| terms.capacity > capacity);
        let is_beyond = self.used(limit, now).saturating_add(units) > capacity;
        let mut alone = alone;
        if self.full_at <= now {
            self.terms = None;
        } else if is_larger && is_beyond {
            alone = alone.min(now + self.interval(limit).times(units.max(capacity)));
        } else {
            *self = self.rescale(limit, now);
        }
        self.full_at = (self.full_at + self.interval(limit).times(units)).max(alone);
    }

    /// Refunds up to `units` of a charge that was made at `charged_at` and left this `debt`.
    /// Returns how many, rounded up: of a unit that has refilled in part, the rest is refunded, so
    /// nothing of it stays charged.
    ///
    /// Units refill in the order in which they were consumed, so what is left of the debt bounds
    /// what is refunded. `limits` have counted since then, the one that was charged first. When one
    /// replaced the other is unknown, so the debt counts as if it had shrunk at the fastest rate of
    /// all of them.
    pub(crate) fn refund_of<'a>(
        &mut self,
        limit: &Limit,
        limits: impl Iterator<Item = &'a Limit>,
        (charged_at, debt): (Moment, Span),
        now: Moment,
        units: u64,
    ) -> u64 {
        let is = self.interval(limit);
        let mut intervals = limits.filter_map(Limit::interval);
        let Some(charged) = intervals.next().filter(|_| !is.is_zero()) else {
            return 0;
        };
        let fastest = intervals.fold(charged, Span::min);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let debt = rescale(debt, charged, is, u128::div_euclid);
        let refilled = rescale(now.since(charged_at), fastest, is, u128::div_ceil);
        let left = debt.minus(refilled);
        let refunded = left.min(is.times(u64::from(units))).min(self.debt(now));
        self.full_at = self.full_at - refunded;
        self.settle(limit, now);
        refunded.as_nanos().div_ceil(is.as_nanos())
    }

    /// Migrates this bucket from the limit `old` to `new`, and keeps its units.
    ///
    /// The debt switches to the interval of `new` at once, so that the units refill at its rate
    /// from this decision on. If the capacity of `new` is smaller, units beyond it are dropped if
    /// the window has changed as well. Otherwise all are kept for a larger limit that may follow,
    /// and the debt switches when `new` first charges: a switch in between would change the retry
    /// time of a denial.
    pub(crate) fn migrate(mut self, old: &Limit, new: &Limit, now: Moment) -> Bucket {
        self.terms = self.terms.or(Terms::of(old));
        let (Some(was), Some(is)) = (self.terms, Terms::of(new)) else {
            return self;
        };
        if is.capacity < was.capacity && old.window() == new.window() {
            return self;
        }
        let mut migrated = self.rescale(new, now);
        migrated.settle(new, now);
        migrated
    }
}

/// The debt of as many units at another interval, rounded by `divide`.
fn rescale(debt: Span, was: Span, is: Span, divide: impl Fn(u128, u128) -> u128) -> Span {
    let debt = u128::from(debt.as_nanos()) * u128::from(is.as_nanos());
    let debt = divide(debt, u128::from(was.as_nanos()));
    Span::from_nanos(u64::try_from(debt).unwrap_or(u64::MAX))
}

// === impl Terms ===

impl Terms {
    /// `None` if the limit never allows, and so never charges, anything.
    fn of(limit: &Limit) -> Option<Terms> {
        let interval = limit.interval()?;
        Some(Terms {
            interval,
            capacity: u64::from(limit.capacity()),
        })
    }

    /// The longest debt under these terms.
    const fn refill(self) -> Span {
        self.interval.times(self.capacity)
    }
}

impl Usage for Bucket {
    #[inline]
    fn timeline(_limit: &Limit) -> Timeline {
        Timeline::Monotonic
    }

    #[inline]
    fn settle(&mut self, _limit: &Limit, now: Moment) {
        // Bounded by its own terms: a smaller limit must not erase what was counted.
        if let Some(terms) = self.terms {
            self.full_at = self.full_at.min(now + terms.refill());
        }
        if self.full_at <= now {
            *self = Bucket::default();
        }
    }

    #[inline]
    fn not_before(&self, limit: &Limit) -> Moment {
        self.full_at - self.terms.map_or(limit.refill(), Terms::refill)
    }

    #[inline]
    fn wait(&self, limit: &Limit, now: Moment, units: u32) -> Span {
        let free = self.room(limit).minus(self.price(limit, units));
        self.debt(now).minus(free)
    }

    #[inline]
    fn remaining(&self, limit: &Limit, now: Moment) -> u32 {
        let interval = self.interval(limit);
        if interval.is_zero() {
            return 0;
        }
        // Rounded down: a fraction of a token cannot be spent.
        let free = self.room(limit).minus(self.debt(now));
        u32::try_from(free.as_nanos() / interval.as_nanos()).unwrap_or(u32::MAX)
    }

    #[inline]
    fn reset(&self, _limit: &Limit, now: Moment) -> Span {
        self.debt(now)
    }

    #[inline]
    fn is_over_nominal(&self, limit: &Limit, now: Moment) -> bool {
        let nominal = match self.terms {
            Some(terms) => terms.interval.times(u64::from(limit.nominal())),
            None => limit.nominal_refill(),
        };
        self.debt(now).min(self.whole_room(limit)) > nominal
    }

    #[inline]
    fn delay(&self, limit: &Limit, now: Moment) -> Span {
        match limit.algorithm() {
            Algorithm::LeakyBucket => self.debt_at_price_of(limit, now),
            _ => Span::ZERO,
        }
    }

    #[inline]
    fn take(&mut self, limit: &Limit, now: Moment, units: u32) {
        let debt = self.debt_at_price_of(limit, now);
        self.full_at = now + (debt + limit.price(units));
        self.terms = Terms::of(limit);
    }

    fn penalise(&mut self, limit: &Limit, now: Moment, units: u32) {
        if units > 0 && self.debt(now) < self.room(limit) {
            let debt = self.debt_at_price_of(limit, now) + limit.price(units);
            self.full_at = now + debt.min(limit.available_refill());
            self.terms = Terms::of(limit);
        }
    }

    fn refund(&mut self, limit: &Limit, now: Moment, units: u64) {
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        self.full_at = self.full_at - self.price(limit, units);
        self.settle(limit, now);
    }

    fn expires_at(&self, _limit: &Limit) -> Moment {
        self.full_at
    }
}
