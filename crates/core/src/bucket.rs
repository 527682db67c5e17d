//! Token and leaky buckets: one word, the moment at which the bucket will be full again.
//!
//! This is the generic cell rate algorithm (ITU-T I.371) in the form with a theoretical arrival
//! time: what is consumed is a debt of time, `full_at - now`, and a unit costs one interval. A
//! leaky bucket is the same word read as a queue: the debt before a request is its delay.

use crate::limit::{Algorithm, Limit};
use crate::moment::{Moment, Span};
use crate::usage::Usage;

/// The moment at which the bucket will be full again; zero, as any moment past, is a full bucket.
///
/// # Example
///
/// A queue of ten that lets two a second go: who comes fourth waits for three turns.
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
}

// === impl Bucket ===

impl Bucket {
    /// The bucket that is full again at `full_at`.
    pub const fn full_at(full_at: Moment) -> Bucket {
        Bucket { full_at }
    }

    /// The bucket as one word.
    pub const fn word(self) -> u64 {
        self.full_at.as_nanos()
    }

    const fn debt(self, now: Moment) -> Span {
        self.full_at.since(now)
    }

    /// This bucket after its rule changed from `old` to `new`: the same units, part units included
    /// and rounded up, at the new price, up to the new capacity.
    pub(crate) fn repriced(self, old: &Limit, new: &Limit, now: Moment) -> Bucket {
        let (Some(was), Some(is)) = (old.interval(), new.interval()) else {
            return Bucket::default();
        };
        let debt = u128::from(self.debt(now).as_nanos()) * u128::from(is.as_nanos());
        let debt = debt.div_ceil(u128::from(was.as_nanos()));
        let debt = Span::from_nanos(u64::try_from(debt).unwrap_or(u64::MAX));
        Bucket {
            full_at: now + debt.min(new.refill()),
        }
    }
}

impl Usage for Bucket {
    #[inline]
    fn settle(&mut self, limit: &Limit, now: Moment) {
        self.full_at = self.full_at.min(now + limit.refill()).max(now);
    }

    #[inline]
    fn not_before(&self, limit: &Limit) -> Moment {
        self.full_at - limit.refill()
    }

    #[inline]
    fn wait(&self, limit: &Limit, now: Moment, units: u32) -> Span {
        let free = limit.refill().minus(limit.price(units));
        self.debt(now).minus(free)
    }

    #[inline]
    fn remaining(&self, limit: &Limit, now: Moment) -> u32 {
        let Some(interval) = limit.interval() else {
            return 0;
        };
        // Down: a part of a token is no token.
        let free = limit.refill().minus(self.debt(now));
        u32::try_from(free.as_nanos() / interval.as_nanos()).unwrap_or(u32::MAX)
    }

    #[inline]
    fn reset(&self, _limit: &Limit, now: Moment) -> Span {
        self.debt(now)
    }

    #[inline]
    fn is_over_nominal(&self, limit: &Limit, now: Moment) -> bool {
        self.debt(now) > limit.nominal_refill()
    }

    #[inline]
    fn delay(&self, limit: &Limit, now: Moment) -> Span {
        match limit.algorithm() {
            Algorithm::LeakyBucket => self.debt(now),
            _ => Span::ZERO,
        }
    }

    #[inline]
    fn take(&mut self, limit: &Limit, now: Moment, units: u32) {
        self.full_at = self.full_at.max(now) + limit.price(units);
    }

    fn penalise(&mut self, limit: &Limit, now: Moment, units: u32) {
        let debt = self.debt(now) + limit.price(units);
        self.full_at = now + debt.min(limit.refill());
    }

    fn refund(&mut self, limit: &Limit, now: Moment, units: u64) {
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        self.full_at = (self.full_at - limit.price(units)).max(now);
    }

    fn forget_at(&self, _limit: &Limit) -> Moment {
        self.full_at
    }
}
