//! Units that are charged before it is known how many will be used.
//!
//! An estimate is charged as any cost. When the actual number is known, only units that still count
//! are refunded: those of an earlier window, or those that a bucket has refilled since, are
//! available again already, and refunding them would refund units of other requests.

use crate::account::Account;
use crate::charge::Charge;
use crate::cost::Cost;
use crate::decision::Grant;
use crate::limit::Limit;
use crate::moment::{Moment, Now};
use crate::sliding_log::Entries;
use crate::span::Span;
use crate::step::units_to_exhaust;
use crate::usage::Usage;

/// The units that a request was charged as an estimate, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    units: u64,
    /// When they were charged.
    at: Moment,
    /// [`Grant::reset`] of the charge: for a bucket, its debt.
    reset: Span,
    /// The revision of the limit that was charged.
    revision: u8,
}

/// What a settled reservation was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settlement {
    /// The units that this request was charged in total. More than were used if some of the
    /// reserved units no longer count and so are not refunded; fewer if the limit is exhausted.
    pub charged: u64,
    /// The largest cost that would be allowed now, as [`Grant::remaining`].
    pub remaining: u32,
}

// === impl Reserved ===

impl Reserved {
    /// The units of `charge`, which was allowed at `now` with this `grant`.
    pub const fn new(charge: &Charge<'_>, grant: &Grant, now: Now) -> Reserved {
        let units = match charge.cost {
            Cost::Take(units) => units,
            Cost::Peek(_) | Cost::Refund(_) => 0,
        };
        Reserved {
            units,
            at: now.on(charge.limit.timeline()),
            reset: grant.reset,
            revision: charge.history.revision(),
        }
    }

    /// How many units.
    pub const fn units(&self) -> u64 {
        self.units
    }

    /// The limits under which these units have counted, the one that was charged first. `None` if
    /// one of them counted in another way, or if the history does not go back as far: which of the
    /// consumed units are these is not known then.
    fn limits<'a>(&self, charge: &Charge<'a>) -> Option<impl Iterator<Item = &'a Limit> + use<'a>> {
        let current = charge.limit;
        let is_alike = |limit: &Limit| {
            let is_same_window = current.is_bucket() || limit.window() == current.window();
            limit.algorithm() == current.algorithm() && is_same_window
        };
        let former = charge.history.limits_since(self.revision)?;
        let are_alike = former.iter().all(is_alike);
        are_alike.then(|| former.iter().chain([current]))
    }
}

// === impl Settlement ===

impl Settlement {
    /// A settlement, for stores and tests.
    pub const fn new(charged: u64, remaining: u32) -> Settlement {
        Settlement { charged, remaining }
    }
}

// === impl Account ===

impl<E: Entries> Account<E> {
    /// Charges `actual` units in place of the `reserved` ones.
    ///
    /// If they are fewer, refunds the difference, as far as its units still count. If they are
    /// more, charges the difference even where the limit would deny it, until the limit is
    /// exhausted: for a request without priority, until none of its available units is left.
    /// `charge` says the key and its limit in effect; its cost is not read.
    pub fn settle_reserved(
        &mut self,
        charge: &Charge<'_>,
        now: Now,
        reserved: &Reserved,
        actual: u64,
    ) -> Settlement {
        let limit = charge.limit;
        let moment = now.on(limit.timeline());
        self.settle(limit, moment);
        let units = reserved.units;
        let charged = if actual > units {
            units.saturating_add(self.charge_excess(limit, moment, actual - units))
        } else {
            units - self.refund_reserved(charge, moment, reserved, units - actual)
        };
        Settlement::new(charged, self.remaining(limit, moment))
    }

    /// Charges as many of `units` as fit; returns how many.
    fn charge_excess(&mut self, limit: &Limit, now: Moment, units: u64) -> u64 {
        let room = u64::from(self.remaining(limit, now));
        self.penalise(limit, now, units_to_exhaust(limit, units));
        room.min(units)
    }

    /// Refunds up to `units` of the reserved ones; returns how many, rounded up.
    fn refund_reserved(
        &mut self,
        charge: &Charge<'_>,
        now: Moment,
        reserved: &Reserved,
        units: u64,
    ) -> u64 {
        let Some(limits) = reserved.limits(charge) else {
            return 0;
        };
        match self {
            Account::Bucket(bucket) => bucket.refund_of(
                charge.limit,
                limits,
                (reserved.at, reserved.reset),
                now,
                units,
            ),
            Account::FixedWindow(window) => {
                window.refund_of(reserved.at + reserved.reset, charge.limit, now, units)
            }
            Account::SlidingWindow(window) => window.refund_at(charge.limit, reserved.at, units),
            Account::SlidingLog(log) => log.refund_at(charge.limit, now, reserved.at, units),
        }
    }
}
