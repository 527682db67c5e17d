//! What a request was charged by one counter, so that it can be settled later.

use std::collections::VecDeque;

use tollgate_core::{Charge, Cost, Decision, Grant, Key, Now, Reserved, Resolution, Verdict};

use crate::headroom::Headroom;
use crate::resolve::{ChargedRule, Resolved};
use crate::rule_set::RuleSet;

/// What a request was charged by one counter in memory.
#[derive(Clone, Debug)]
pub struct ReservedPart {
    /// The rule.
    pub rule: ChargedRule,
    /// The counter.
    pub key: Key,
    /// How many descriptors met this counter.
    pub times: u64,
    /// The units of all of them.
    pub reserved: Reserved,
}

// === impl Resolved ===

impl Resolved<'_> {
    /// What each counter was charged, if the request is allowed by this `verdict` on `charges`,
    /// those of this request, at `now`. Limits that would have denied it (shadow limits, and all
    /// but one of its quotas) have charged nothing.
    pub fn reserved_parts(
        &self,
        charges: &[Charge<'_>],
        verdict: &Verdict,
        now: Now,
    ) -> VecDeque<ReservedPart> {
        let mut parts: VecDeque<ReservedPart> = VecDeque::new();
        if !verdict.is_allowed() {
            return parts;
        }
        let rules = self.charged_rules();
        for ((charge, rule), decision) in charges.iter().zip(rules).zip(&verdict.decisions) {
            let (Cost::Take(units), Decision::Allow(grant)) = (charge.cost, decision) else {
                continue;
            };
            if !is_charged(charge.key, charges, verdict) {
                continue;
            }
            match parts.iter_mut().find(|part| part.key == charge.key) {
                Some(part) => {
                    // The store adds up the charges on one counter; so does the reservation.
                    part.times += 1;
                    let units = part.reserved.units().saturating_add(units);
                    part.reserved = reserve(charge, units, grant, now);
                }
                None => parts.push_back(ReservedPart {
                    rule,
                    key: charge.key,
                    times: 1,
                    reserved: reserve(charge, units, grant, now),
                }),
            }
        }
        parts
    }
}

/// Whether the charges on this counter took their units: all of them fit, or none is charged.
pub fn is_charged(key: Key, charges: &[Charge<'_>], verdict: &Verdict) -> bool {
    let mut decided = charges.iter().zip(&verdict.decisions);
    decided.all(|(charge, decision)| charge.key != key || matches!(decision, Decision::Allow(_)))
}

fn reserve(charge: &Charge<'_>, units: u64, grant: &Grant, now: Now) -> Reserved {
    let cost = Cost::Take(units);
    Reserved::new(&Charge { cost, ..*charge }, grant, now)
}

// === impl ReservedPart ===

impl ReservedPart {
    /// The charge that settles it under `rules` and the `headroom` of now. `None` if the rule was
    /// removed or does not limit any more.
    pub fn charge<'r>(
        &'r self,
        rules: &'r RuleSet,
        headroom: &dyn Headroom,
        resolution: Resolution,
    ) -> Option<Charge<'r>> {
        let (limit, history) = self.rule.limit(rules, headroom)?;
        Some(Charge {
            history,
            resolution,
            ..Charge::new(self.key, limit, Cost::Take(0))
        })
    }
}
