//! Requests that are held until their turn in a leaky bucket.

use tollgate_core::{Algorithm, Answer, Charge, Clock, Request};
use tollgate_rules::{Attempt, NoHeadroom, ReservedPart};

use super::{RuleError, RuleLimiter};

// === impl RuleLimiter ===

impl<C: Clock> RuleLimiter<C> {
    /// As [`RuleLimiter::decide`], and returns what the request was charged, if a leaky bucket may
    /// delay it.
    pub(crate) fn decide_held(
        &self,
        request: &Request<'_>,
    ) -> Result<(Answer, Vec<ReservedPart>), RuleError> {
        let delays = |charge: &Charge<'_>| charge.limit.algorithm() == Algorithm::LeakyBucket;
        self.decide_by(request, |resolved, charges| {
            if !charges.iter().any(delays) {
                let verdict = self.store.decide_now(charges)?;
                return Ok((resolved.answer(&verdict), Vec::new()));
            }
            let (verdict, now) = self.store.decide_timed(charges)?;
            let parts = resolved.reserved_parts(charges, &verdict, now);
            Ok((resolved.answer(&verdict), parts.into()))
        })
    }

    /// Refunds what a request was charged, as far as it still counts.
    pub(crate) fn release(&self, part: &ReservedPart) {
        let mut attempt = Attempt::first(self.rules.load());
        loop {
            let settled = {
                let charge = part.charge(attempt.rules(), &NoHeadroom, attempt.resolution());
                let settle = |charge| self.store.settle_reserved(&charge, &part.reserved, 0);
                charge.map(settle).transpose()
            };
            match attempt.next(&settled, || self.rules.load()) {
                // If the store fails, the units stay charged until they decay.
                None => return,
                Some(next) => attempt = next,
            }
        }
    }
}
