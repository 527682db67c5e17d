//! What the limits say about a request: whether it is allowed, when, and what its response may
//! change of that.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate_core::{Request, Span};
use tollgate_engine::{Decided, ReserveError};
use tollgate_http::Identity;
use tollgate_telemetry::RequestSpan;

use super::Passage;
use crate::connection_pool::Lease;
use crate::failure::{Failure, Unanswered};
use crate::log_record::LogRecord;
use crate::pricing::Pricing;
use crate::reservation::Reservation;

// === impl Passage ===

impl Passage<'_> {
    /// Asks the limits, and reserves what the response may release. The span says what they answer.
    pub(super) async fn decide(
        &self,
        request: &Request<'_>,
        identity: &Identity<'_>,
        span: &mut RequestSpan,
    ) -> Result<(Decided, Option<Reservation>), Failure> {
        span.set_domain(request.domain);
        let mut store_time = Duration::ZERO;
        let timed = span.is_sampled().then_some(&mut store_time);
        let decided = self.ask(request, identity, timed).await;
        match &decided {
            Ok((decided, _)) => span.set_answer(&decided.answer, store_time),
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
        mut timed: Option<&mut Duration>,
    ) -> Result<(Decided, Option<Reservation>), Failure> {
        let route = self.route;
        let pricing = route.pricing.as_ref();
        let pricing = pricing.filter(|pricing| pricing.applies_to(identity));
        if pricing.is_some() || self.may_release(request) {
            // In a box, because all requests have room for what they wait for, and few reserve.
            let reserved = self.reserve(request, identity, pricing, timed.as_deref_mut());
            match Box::pin(reserved).await {
                Ok(reserved) => return Ok(reserved),
                Err(error) if pricing.is_some() => return Err(error.into()),
                Err(ReserveError::Store(error)) => return Err(Failure::Store(error)),
                // It cannot be reserved, so that nothing is released if there is no connection.
                Err(_) => {}
            }
        }
        self.charge(request, timed).await
    }

    /// Whether a request of known cost is reserved, so that all of it is released if no connection
    /// is made for it: there is none yet, or it may be gone when a leaky bucket has held the
    /// request. Over a shared store it is not: that takes another call and a key for each request,
    /// and a request that reserves uses no leased units.
    fn may_release(&self, request: &Request<'_>) -> bool {
        let Passage { terms, route, .. } = self;
        let engine = &terms.engine;
        engine.decides_in_memory(request)
            && (route.upstream.must_wait() || engine.may_delay(request))
    }

    /// Charges a request its cost.
    async fn charge(
        &self,
        request: &Request<'_>,
        timed: Option<&mut Duration>,
    ) -> Result<(Decided, Option<Reservation>), Failure> {
        let engine = &self.terms.engine;
        let decided = match timed {
            Some(time) => engine.decide_timed(request, time).await,
            None => engine.decide(request).await,
        };
        Ok((decided.map_err(Failure::Store)?, None))
    }

    /// Reserves the cost of a request.
    async fn reserve(
        &self,
        request: &Request<'_>,
        identity: &Identity<'_>,
        pricing: Option<&Arc<Pricing>>,
        timed: Option<&mut Duration>,
    ) -> Result<(Decided, Option<Reservation>), ReserveError> {
        let Passage { terms, route, .. } = self;
        let unsettled = route.metrics.unsettled_counter();
        let began = timed.is_some().then(Instant::now);
        let reserving = terms.settler.reserve(request, identity, pricing, unsettled);
        let reserved = reserving.await;
        if let (Some(time), Some(began)) = (timed, began) {
            *time += began.elapsed();
        }
        reserved
    }

    /// A connection for a request that is allowed. If there is none, what it has reserved is
    /// released.
    pub(super) async fn connect(
        &self,
        reservation: Option<&mut Reservation>,
    ) -> Result<Lease, Failure> {
        let upstream = &self.route.upstream;
        let Some(reservation) = reservation else {
            return upstream.lease().await;
        };
        reservation.connect();
        let leased = upstream.lease().await;
        if leased.is_err() {
            reservation.release();
        }
        leased
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

/// Why a request has no answer. If nothing of it was sent, what it has reserved is released.
pub(super) fn give_up(
    unanswered: Unanswered,
    reservation: Option<&mut Reservation>,
    record: &mut LogRecord,
) -> Failure {
    if !unanswered.was_sent {
        record.clear_upstream();
        if let Some(reservation) = reservation {
            reservation.release();
        }
    }
    unanswered.failure
}
