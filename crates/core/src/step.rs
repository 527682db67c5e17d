//! The decision of one limit on one cost at one moment.

use crate::charge::OnDenial;
use crate::cost::Cost;
use crate::decision::{Decision, Denial, Grant, Wait};
use crate::limit::{Limit, narrow};
use crate::moment::Moment;
use crate::span::Span;
use crate::usage::Usage;

/// Decides on `cost` at `now`, given the stored state in `usage`, and updates the state.
///
/// Pure: the caller provides the time and the atomicity. Every store runs this function, or passes
/// the behaviour suite that shows that it decides the same. `now` is on the limit's own
/// [`crate::Timeline`].
#[inline(always)]
pub fn step<U: Usage>(
    usage: &mut U,
    limit: &Limit,
    now: Moment,
    cost: Cost,
    on_denial: OnDenial,
) -> Decision {
    usage.settle(limit, now);
    let units = match cost {
        Cost::Refund(units) => {
            usage.refund(limit, now, units);
            return Decision::Allow(grant(usage, limit, now, Span::ZERO));
        }
        Cost::Take(units) | Cost::Peek(units) => units,
    };
    if let Some(wait) = wait_for(usage, limit, now, units) {
        if on_denial == OnDenial::Keep || !charges(cost) {
            return Decision::Deny(denial(usage, limit, now, wait));
        }
        usage.penalise(limit, now, units_to_exhaust(limit, units));
        let wait = wait_for(usage, limit, now, units).unwrap_or(wait);
        return Decision::Deny(denial(usage, limit, now, wait));
    }
    if !charges(cost) {
        return Decision::Allow(grant(usage, limit, now, Span::ZERO));
    }
    let delay = usage.delay(limit, now);
    usage.take(limit, now, narrow(units));
    Decision::Allow(grant(usage, limit, now, delay))
}

/// The wait until `units` fit; `None` if they fit now. A cost of 0 counts as a cost of 1.
#[inline]
pub(crate) fn wait_for<U: Usage>(
    usage: &U,
    limit: &Limit,
    now: Moment,
    units: u64,
) -> Option<Wait> {
    let units = units.max(1);
    if units > u64::from(limit.available()) {
        return Some(Wait::Never);
    }
    let wait = usage.wait(limit, now, narrow(units));
    (!wait.is_zero()).then_some(Wait::For(wait))
}

#[inline]
pub(crate) fn grant<U: Usage>(usage: &U, limit: &Limit, now: Moment, delay: Span) -> Grant {
    Grant {
        remaining: usage.remaining(limit, now),
        reset: usage.reset(limit, now),
        delay,
        over_soft: usage.is_over_nominal(limit, now),
    }
}

#[inline]
pub(crate) fn denial<U: Usage>(usage: &U, limit: &Limit, now: Moment, wait: Wait) -> Denial {
    Denial {
        wait,
        remaining: usage.remaining(limit, now),
        reset: usage.reset(limit, now),
    }
}

/// The units to charge for a denied request: at most what is available, which exhausts the limit
/// for it.
#[inline]
pub(crate) fn units_to_exhaust(limit: &Limit, units: u64) -> u32 {
    narrow(units).min(limit.available())
}

#[inline]
const fn charges(cost: Cost) -> bool {
    matches!(cost, Cost::Take(1..))
}
