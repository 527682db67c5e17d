//! What a request was charged by one counter, so that it can be settled later.

use std::collections::VecDeque;

use tollgate_core::{Charge, ChargedLine, Cost, Key, Now, Reserved, Resolution, Verdict};

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
        let part = |(rule, line): (ChargedRule, ChargedLine)| {
            let cost = Cost::Take(line.units);
            let charge = Charge {
                cost,
                ..charges[line.first]
            };
            ReservedPart {
                rule,
                key: charge.key,
                times: line.times,
                reserved: Reserved::new(&charge, &line.grant, now),
            }
        };
        self.charged_lines(charges, verdict).map(part).collect()
    }
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
        let settling = (self.key, Cost::Take(0));
        let charge = self.rule.charge(settling, rules, headroom)?;
        Some(Charge {
            resolution,
            ..charge
        })
    }
}
