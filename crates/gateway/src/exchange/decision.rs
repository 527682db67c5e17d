//! What the limits say about a request, and what its response may change of that.

use tollgate_core::{Answer, Request};
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
}
