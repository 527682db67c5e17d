//! The verdict on charges of which no two have the same key: nearly all requests, and all with one.
//!
//! What [`Bill::settle`](super::Bill::settle) does for any charges takes one pass over these, and
//! needs no bill.

use smallvec::smallvec;

use super::{DenialReason, Denier, RequestDenial, Verdict};
use crate::charge::{Charge, Enforcement, OnDenial};
use crate::cost::Cost;
use crate::decision::{Decision, Grant, Wait};
use crate::limit::narrow;
use crate::moment::{Moment, Now};
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
    let mut denier = Denier::default();
    verdict.decisions.clear();
    for (index, (charge, usage)) in charges.iter().zip(&mut *usages).enumerate() {
        let wait = judge(charge, usage, now);
        denier.add(index, charge.enforcement, wait);
        verdict.decisions.push(match wait.flatten() {
            Some(wait) => {
                Decision::Deny(denial(usage, charge.limit, moment::<U>(charge, now), wait))
            }
            // What remains is known when all charges have been evaluated.
            None => Decision::Allow(Grant::default()),
        });
    }
    let denied = denier.first();
    for ((charge, usage), decision) in charges.iter().zip(&mut *usages).zip(&mut verdict.decisions)
    {
        if let Decision::Allow(granted) = decision {
            let delay = match denied {
                None => take(charge, usage, now),
                Some(_) => Span::ZERO,
            };
            *granted = grant(usage, charge.limit, moment::<U>(charge, now), delay);
        }
    }
    verdict.denial = denied.map(|(by, wait)| RequestDenial {
        by,
        wait,
        reason: DenialReason::Exceeded,
    });
    if denied.is_some() && charges.iter().any(has_penalty) {
        penalise_all(charges, usages, now, verdict);
    }
}

/// The moment of a decision on a limit whose states are of type `U`.
#[inline]
fn moment<U: Usage>(charge: &Charge<'_>, now: Now) -> Moment {
    now.on(U::timeline(charge.limit))
}

/// The wait until the limit allows the charge, if it does not now; `None` for a refund, which is
/// made.
#[inline]
fn judge<U: Usage>(charge: &Charge<'_>, usage: &mut U, now: Now) -> Option<Option<Wait>> {
    let (limit, moment) = (charge.limit, moment::<U>(charge, now));
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

/// Charges a limit that allows an allowed request; returns how long it delays the request.
#[inline]
fn take<U: Usage>(charge: &Charge<'_>, usage: &mut U, now: Now) -> Span {
    let (limit, moment) = (charge.limit, moment::<U>(charge, now));
    let Cost::Take(units @ 1..) = charge.cost else {
        return Span::ZERO;
    };
    let delay = charge.enforcement.delay(usage.delay(limit, moment));
    usage.take(limit, moment, narrow(units));
    delay
}

/// Whether the request is charged to this limit also if it is denied.
#[inline]
fn has_penalty(charge: &Charge<'_>) -> bool {
    charge.on_denial == OnDenial::Charge && matches!(charge.cost, Cost::Take(1..))
}

/// Charges a denied request to the limits with a penalty. That lengthens waits, and may exhaust
/// limits that had allowed it.
#[cold]
#[inline(never)]
fn penalise_all<U: Usage>(
    charges: &[Charge<'_>],
    usages: &mut [U],
    now: Now,
    verdict: &mut Verdict,
) {
    let mut denier = Denier::default();
    let decisions = verdict.decisions.iter_mut().enumerate();
    for ((charge, usage), (index, decision)) in charges.iter().zip(usages).zip(decisions) {
        let (limit, moment) = (charge.limit, moment::<U>(charge, now));
        let (Cost::Take(units) | Cost::Peek(units)) = charge.cost else {
            continue;
        };
        if has_penalty(charge) {
            usage.penalise(limit, moment, units_to_exhaust(limit, units));
        }
        let wait = wait_for(usage, limit, moment, units);
        denier.add(index, charge.enforcement, Some(wait));
        *decision = match wait.filter(|_| !decision.is_allowed()) {
            None => Decision::Allow(grant(usage, limit, moment, Span::ZERO)),
            Some(wait) => Decision::Deny(denial(usage, limit, moment, wait)),
        };
    }
    if let (Some(denial), Some((_, wait))) = (&mut verdict.denial, denier.first()) {
        denial.wait = wait;
    }
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
