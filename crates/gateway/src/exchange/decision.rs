//! What the limits say about a request: whether it is allowed, when, and what its response may
//! change of that.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate_core::{Answer, Request, Span};
use tollgate_http::Identity;
use tollgate_telemetry::RequestSpan;

use super::Passage;
use crate::failure::Failure;
use crate::forwarding::Sender;
use crate::reservation::Reservation;

// === impl Passage ===

impl Passage<'_> {
    /// Asks the limits, and reserves what the response may release. The span says what they answer.
    pub(super) async fn decide(
        &self,
        request: &Request<'_>,
        identity: &Identity<'_>,
        span: &mut RequestSpan,
    ) -> Result<(Answer, Option<Reservation>), Failure> {
        span.set_domain(request.domain);
        let mut store_time = Duration::ZERO;
        let timed = span.is_sampled().then_some(&mut store_time);
        let decided = self.ask(request, identity, timed).await;
        match &decided {
            Ok((answer, _)) => span.set_answer(answer, store_time),
            Err(failure) => {
                span.set_outcome("error");
                span.set_store_time(store_time);
                span.fail(failure.kind());
            }
        }
        decided
    }

    /// Asks the limits, and adds to `timed` how long their store takes.
    async fn ask(
        &self,
        request: &Request<'_>,
        identity: &Identity<'_>,
        timed: Option<&mut Duration>,
    ) -> Result<(Answer, Option<Reservation>), Failure> {
        let Passage { terms, route, .. } = self;
        let pricing = route.pricing.as_ref();
        let Some(pricing) = pricing.filter(|pricing| pricing.applies_to(identity)) else {
            let decided = match timed {
                Some(time) => terms.engine.decide_timed(request, time).await,
                None => terms.engine.decide(request).await,
            };
            return Ok((decided.map_err(Failure::Store)?.answer, None));
        };
        let unsettled = route.metrics.unsettled_counter();
        let began = timed.is_some().then(Instant::now);
        // In a box, because all requests have room for what they wait for, and few reserve.
        let reserved = terms.settler.reserve(request, identity, pricing, unsettled);
        let reserved = Box::pin(reserved).await;
        if let (Some(time), Some(began)) = (timed, began) {
            *time = began.elapsed();
        }
        Ok(reserved?)
    }

    /// Who sent the request, for the upstream.
    pub(super) fn sender(&self) -> Sender {
        let addresses = self.route.classifier.client_address();
        Sender {
            peer: self
                .arrival
                .connection
                .peer()
                .ip()
                .map(|peer| peer.to_canonical()),
            is_trusted: addresses.trusts(self.arrival.peer()),
            client: self.client.address,
            scheme: self.arrival.scheme,
        }
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
