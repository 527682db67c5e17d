//! The verdict on charges of which no two have the same key: nearly all requests, and all with one.
//!
//! What [`Bill::settle`](super::Bill::settle) does for any charges takes one pass over these, and
//! needs no bill.

use smallvec::smallvec;

use super::{DenialReason, Denier, PerCharge, RequestDenial, Verdict};
use crate::charge::{Charge, Enforcement, OnDenial};
use crate::cost::Cost;
use crate::decision::{Decision, Wait};
use crate::limit::narrow;
use crate::moment::Now;
use crate::span::Span;
use crate::step::{denial, grant, units_to_exhaust, wait_for};
use crate::usage::Usage;

/// Evaluates every charge, then charges all or none. `usages` are the states of their keys, in
/// order; no key may occur twice. `verdict` becomes the result, whatever it was before: it is too
/// large to be passed through returns without being copied.
///
/// Pure, like [`crate::step`]: the caller provides the time, and exclusive access to all usages.
#[inline]
pub fn settle_separate<U: Usage>(
    charges: &[Charge<'_>],
    usages: &mut [U],
    now: Now,
    verdict: &mut Verdict,
) {
    let mut waits = PerCharge::new();
    let mut denier = Denier::default();
    for (index, (charge, usage)) in charges.iter().zip(&mut *usages).enumerate() {
        let wait = judge(charge, usage, now);
        denier.add(index, charge.enforcement, wait);
        waits.push(wait.flatten());
    }
    let denied = denier.first();
    verdict.decisions.clear();
    // Charging a denied request lengthens waits, and may exhaust limits that had allowed it.
    let mut denier_after = Denier::default();
    for (index, (charge, usage)) in charges.iter().zip(usages).enumerate() {
        let (wait, delay) = match denied {
            None => (waits[index], take(charge, usage, waits[index], now)),
            Some(_) => {
                let wait_after = penalise(charge, usage, waits[index], now);
                let is_judged = !matches!(charge.cost, Cost::Refund(_));
                denier_after.add(index, charge.enforcement, is_judged.then_some(wait_after));
                (waits[index].and(wait_after), Span::ZERO)
            }
        };
        let (limit, moment) = (charge.limit, now.on(charge.limit.timeline()));
        verdict.decisions.push(match wait {
            None => Decision::Allow(grant(usage, limit, moment, delay)),
            Some(wait) => Decision::Deny(denial(usage, limit, moment, wait)),
        });
    }
    verdict.denial = denied.map(|(by, _)| RequestDenial {
        by,
        wait: denier_after
            .first()
            .map_or(Wait::For(Span::ZERO), |(_, wait)| wait),
        reason: DenialReason::Exceeded,
    });
}

/// The wait until the limit allows the charge, if it does not now; `None` for a refund, which is
/// made.
#[inline]
fn judge<U: Usage>(charge: &Charge<'_>, usage: &mut U, now: Now) -> Option<Option<Wait>> {
    let (limit, moment) = (charge.limit, now.on(charge.limit.timeline()));
    usage.settle(limit, moment);
    match charge.cost {
        Cost::Take(units) | Cost::Peek(units) => Some(wait_for(usage, limit, moment, units)),
        Cost::Refund(units) => {
            if units > 0 {
                usage.refund(limit, moment, units);
            }
            None
        }
    }
}

/// Charges an allowed request; returns how long the limit delays it.
#[inline]
fn take<U: Usage>(charge: &Charge<'_>, usage: &mut U, wait: Option<Wait>, now: Now) -> Span {
    let (limit, moment) = (charge.limit, now.on(charge.limit.timeline()));
    let (Cost::Take(units @ 1..), None) = (charge.cost, wait) else {
        return Span::ZERO;
    };
    let delay = charge.enforcement.delay(usage.delay(limit, moment));
    usage.take(limit, moment, narrow(units));
    delay
}

/// Charges a denied request, if it has a penalty; returns the wait afterwards.
#[inline]
fn penalise<U: Usage>(
    charge: &Charge<'_>,
    usage: &mut U,
    wait: Option<Wait>,
    now: Now,
) -> Option<Wait> {
    let (Cost::Take(units @ 1..), OnDenial::Charge) = (charge.cost, charge.on_denial) else {
        return wait;
    };
    let (limit, moment) = (charge.limit, now.on(charge.limit.timeline()));
    usage.penalise(limit, moment, units_to_exhaust(limit, units));
    wait_for(usage, limit, moment, units)
}

// === impl Verdict ===

impl Verdict {
    /// The verdict on a request with one charge.
    pub fn of_one(charge: &Charge<'_>, mut decision: Decision) -> Verdict {
        if let Decision::Allow(grant) = &mut decision {
            grant.delay = charge.enforcement.delay(grant.delay);
        }
        let is_enforced = charge.enforcement != Enforcement::Shadow;
        let denial = decision
            .wait()
            .filter(|_| is_enforced)
            .map(|wait| RequestDenial {
                by: 0,
                wait,
                reason: DenialReason::Exceeded,
            });
        Verdict::new(smallvec![decision], denial)
    }
}
