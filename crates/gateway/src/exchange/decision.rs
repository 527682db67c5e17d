//! What the limits say about a request: whether it is allowed, when, and what its response may
//! change of that.

use tokio::time::sleep;
use tollgate_core::{Answer, Request, Span};
use tollgate_http::Identity;

use super::Passage;
use crate::failure::Failure;
use crate::reservation::Reservation;

// === impl Passage ===

impl Passage<'_> {
    /// Asks the limits, and reserves what the response may release.
    pub(super) async fn decide(
        &self,
        request: &Request<'_>,
        identity: &Identity<'_>,
    ) -> Result<(Answer, Option<Reservation>), Failure> {
        let Passage { terms, route, .. } = self;
        let pricing = route.pricing.as_ref();
        let Some(pricing) = pricing.filter(|pricing| pricing.applies_to(identity)) else {
            let decided = terms.engine.decide(request).await;
            return Ok((decided.map_err(Failure::Store)?.answer, None));
        };
        let unsettled = route.metrics.unsettled_counter();
        let reserved = terms.settler.reserve(request, identity, pricing, unsettled);
        Ok(reserved.await?)
    }

    /// Holds a request until its turn in a leaky bucket.
    pub(super) async fn hold(&self, delay: Span) -> Result<(), Failure> {
        if delay.is_zero() {
            return Ok(());
        }
        let permit = self.terms.held.try_acquire();
        let _permit = permit.map_err(|_| Failure::ManyHeld)?;
        let clock = &self.terms.clock;
        let due = clock.now().monotonic + delay;
        loop {
            // By the limiter's clock, because a timer may fire early.
            let wait = due.since(clock.now().monotonic);
            if wait.is_zero() {
                return Ok(());
            }
            sleep(wait.into()).await;
        }
    }
}
