//! Requests that are held until their turn in a leaky bucket.

use tollgate_core::{Algorithm, Answer, Charge, Cost, DecidedBy, Key, Request, Span, Verdict};
use tollgate_rules::{Attempt, ChargedRule, NoHeadroom, Resolved, RuleSet};

use super::RuleLimiter;
use crate::rule_limiter::RuleError;

/// The places of a held request in leaky buckets.
#[derive(Debug)]
pub(crate) struct Places {
    places: Vec<Place>,
    charged_by: DecidedBy,
}

/// The place of a held request in a leaky bucket.
#[derive(Debug)]
struct Place {
    rule: ChargedRule,
    key: Key,
    units: u64,
    delay: Span,
    /// That of the rule's limit.
    revision: u8,
}

// === impl RuleLimiter ===

impl RuleLimiter {
    /// As [`RuleLimiter::decide`], and returns the places of an allowed request in leaky buckets.
    pub(crate) async fn decide_held(
        &self,
        request: &Request<'_>,
    ) -> Result<(Answer, Places), RuleError> {
        let decided = self.decide_by(request, |resolved, charges, verdict| {
            let places = Places {
                places: places(resolved, charges, verdict),
                charged_by: verdict.decided_by,
            };
            (resolved.answer(verdict), places)
        });
        decided.await
    }

    /// Gives up the places of a request that was held for so long, before its turn. Until then all
    /// of their units count. What other limits charged stays charged: units of a window may be
    /// those of an earlier one by now, and a refund would be of units that others have consumed. So
    /// it would be after a change of the limit, under which they may have left the bucket already.
    pub(crate) async fn give_up(&self, given: &Places, held: Span) {
        let Places { places, charged_by } = given;
        let mut attempt = Attempt::first(self.rules.load());
        loop {
            let refunded = {
                let left = places.iter().filter(|place| place.delay > held);
                let charges: Vec<Charge<'_>> = left
                    .filter_map(|place| place.refund(attempt.rules()))
                    .map(|charge| Charge {
                        resolution: attempt.resolution(),
                        ..charge
                    })
                    .collect();
                if charges.is_empty() {
                    return;
                }
                self.redis.refund(&charges, *charged_by).await
            };
            match attempt.next(&refunded, || self.rules.load()) {
                // If it failed, the units stay charged until they decay.
                None => return,
                Some(next) => attempt = next,
            }
        }
    }
}

/// The places that a request got, if it is allowed by this verdict on its charges.
fn places(resolved: &Resolved<'_>, charges: &[Charge<'_>], verdict: &Verdict) -> Vec<Place> {
    if verdict.delay().is_zero() {
        return Vec::new();
    }
    let lines = resolved.charged_lines(charges, verdict);
    let places = lines.filter_map(|(rule, line)| {
        let charge = &charges[line.first];
        is_leaky(charge).then_some(Place {
            rule,
            key: charge.key,
            units: line.units,
            delay: line.grant.delay,
            revision: charge.history.revision(),
        })
    });
    places.collect()
}

fn is_leaky(charge: &Charge<'_>) -> bool {
    charge.limit.algorithm() == Algorithm::LeakyBucket
}

// === impl Place ===

impl Place {
    /// The refund of its units under these rules. `None` if the limit is another one by now.
    fn refund<'r>(&'r self, rules: &'r RuleSet) -> Option<Charge<'r>> {
        let refunded = (self.key, Cost::Refund(self.units));
        let charge = self.rule.charge(refunded, rules, &NoHeadroom)?;
        let is_same = is_leaky(&charge) && charge.history.revision() == self.revision;
        is_same.then_some(charge)
    }
}
