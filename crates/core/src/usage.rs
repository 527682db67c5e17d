//! What a limit remembers about a key, and the one order in which it is asked.

use crate::limit::Limit;
use crate::moment::{Moment, Span};

/// What one limit remembers about one key: the units consumed that still count.
///
/// Every algorithm is an implementation of this trait, pure: the caller owns the moment and the
/// atomicity. [`Usage::settle`] comes first; the other calls mean "at the moment of the last
/// settling". A fresh key is `Default`.
pub trait Usage {
    /// Forgets what no longer counts at `now`.
    ///
    /// A usage written by a clock ahead of `now` is moved back as a whole, its newest part to
    /// `now`, so that it neither wins time nor locks the key for longer than the limit remembers.
    fn settle(&mut self, limit: &Limit, now: Moment);

    /// The earliest moment at which this can have been written.
    fn not_before(&self, limit: &Limit) -> Moment;

    /// Whether this was written by a clock ahead of `now`, which [`Usage::settle`] would mend. A
    /// store whose clock never goes back reads it again instead.
    #[inline]
    fn is_ahead(&self, limit: &Limit, now: Moment) -> bool {
        self.not_before(limit) > now
    }

    /// How long until `units` fit; zero if they fit now. `units` are at most the capacity.
    fn wait(&self, limit: &Limit, now: Moment, units: u32) -> Span;

    /// The largest cost that fits now, rounded down.
    fn remaining(&self, limit: &Limit, now: Moment) -> u32;

    /// See [`crate::Grant::reset`].
    fn reset(&self, limit: &Limit, now: Moment) -> Span {
        self.wait(limit, now, limit.capacity())
    }

    /// Whether what is consumed exceeds the nominal limit.
    fn is_over_nominal(&self, limit: &Limit, now: Moment) -> bool {
        limit.capacity() - self.remaining(limit, now) > limit.nominal()
    }

    /// How long a request that is admitted now is held before its turn.
    fn delay(&self, _limit: &Limit, _now: Moment) -> Span {
        Span::ZERO
    }

    /// Consumes `units`, which fit.
    fn take(&mut self, limit: &Limit, now: Moment, units: u32);

    /// Consumes `units` of a refused request, which do not all fit, up to "exhausted now".
    fn penalise(&mut self, limit: &Limit, now: Moment, units: u32) {
        let left = self.remaining(limit, now);
        self.take(limit, now, units.min(left));
    }

    /// Gives back up to `units`, the newest first.
    fn refund(&mut self, limit: &Limit, now: Moment, units: u64);

    /// The moment from which on this equals a key never seen.
    fn expires_at(&self, limit: &Limit) -> Moment;
}
