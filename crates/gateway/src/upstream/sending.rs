//! Requests on their way to an upstream, sent again where that is safe.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::UPGRADE;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::{Request, Response};
use tokio::time::{Instant, timeout_at};
use tollgate_core::Clock;

use super::Upstream;
use super::tried::{SENDS_MAX, Tried};
use crate::connection_pool::Lease;
use crate::failure::{Failure, Unanswered, is_unprocessed};
use crate::forwarding::{can_pass, merge_lengths};
use crate::request_body::RequestBody;
use crate::retry::{Retries, copy_head};

/// The response to a request, or what went wrong.
type Answered = Result<Response<Incoming>, TrySendError<Request<RequestBody>>>;

impl Upstream {
    /// Sends a request, and waits for the head of its response. If its connection ends without one,
    /// a safe request may be sent again, as the settings say: to an address that was not tried
    /// if there is one.
    ///
    /// # Errors
    ///
    /// [`Unanswered`] if there is no answer.
    pub(crate) async fn send(
        &self,
        mut lease: Lease,
        mut request: Box<Request<RequestBody>>,
        head_timeout: Duration,
        clock: &Arc<dyn Clock>,
    ) -> Result<(Response<Incoming>, Lease), Unanswered> {
        let budget = self.retries.as_ref();
        let mut retries = budget.and_then(|budget| budget.record_request(&request));
        let mut was_sent = false;
        let mut tried = Tried::default();
        loop {
            let waiting = self.load.begin(clock, request.body().progress());
            let sent = self
                .send_once(lease, request, head_timeout, &mut tried)
                .await;
            if let Some(waiting) = waiting {
                let response = sent.as_ref().map(|(response, _)| response);
                waiting.end(response.map_err(|unanswered| &unanswered.failure));
            }
            let unanswered = match sent {
                Ok(answered) => return Ok(answered),
                Err(unanswered) => unanswered,
            };
            was_sent |= unanswered.was_sent;
            let ended = |failure| Unanswered { failure, was_sent };
            let failure = unanswered.failure;
            if !failure.is_of_connection() || tried.is_rejected() {
                return Err(ended(failure));
            }
            let again = retries.as_mut().and_then(Retries::next_request);
            let (Some(again), Some(budget)) = (again, budget) else {
                return Err(ended(failure));
            };
            if !budget.take() {
                self.metrics.count_retry("over_budget");
                return Err(ended(failure));
            }
            lease = Box::pin(self.lease_after(&tried)).await.map_err(ended)?;
            self.metrics.count_retry("sent");
            request = Box::new(again);
        }
    }

    /// Sends a request, and waits for the head of its response. If the server had closed the
    /// connection before anything was sent, the request is sent by another. So is one over HTTP/2
    /// without a body if the server says that it did not process it (RFC 9113, section 8.7), until
    /// it was sent [`SENDS_MAX`] times for that, retries included.
    async fn send_once(
        &self,
        mut lease: Lease,
        mut request: Box<Request<RequestBody>>,
        head_timeout: Duration,
        tried: &mut Tried,
    ) -> Result<(Response<Incoming>, Lease), Unanswered> {
        let began = Instant::now();
        let asked = request.headers().get(UPGRADE).cloned();
        let progress = request.body().progress();
        let is_idempotent = request.method().is_idempotent();
        let can_repeat = lease.is_shared() && request.body().is_empty();
        let copy = can_repeat.then(|| copy_head(&request));
        let unanswered = |failure, was_sent| Unanswered { failure, was_sent };
        let sent = |failure, pool: &_| unanswered(self.report_failure(failure, pool), true);
        for _send in 1..=SENDS_MAX {
            let pool = Arc::clone(lease.pool());
            let answered = answer(&mut lease, request, head_timeout).await;
            let answered = answered.ok_or_else(|| {
                lease.report_late_head();
                sent(Failure::SlowHead(head_timeout), &pool)
            })?;
            let mut error = match answered {
                Ok(mut response) => {
                    let is_one_length = merge_lengths(response.headers_mut());
                    if !is_one_length || !can_pass(&response, asked.as_ref()) {
                        return Err(sent(Failure::Malformed, &pool));
                    }
                    self.metrics.record_answer(began.elapsed());
                    pool.health.record_answer();
                    return Ok((response, lease));
                }
                Err(error) => error,
            };
            let of_body = progress.as_ref().and_then(|progress| progress.error());
            tried.record(&pool);
            let failure = Failure::of(error.error(), of_body);
            let unsent = error.take_message();
            let leased = if unsent.is_none() && is_unprocessed(error.error(), is_idempotent) {
                // The server takes no more requests for now: its address has not failed.
                tried.count_rejection();
                let Some(copy) = copy.as_ref().filter(|_| !tried.is_rejected()) else {
                    if failure.is_of_upstream() {
                        self.metrics.count_failure(failure.kind());
                    }
                    return Err(unanswered(failure, false));
                };
                request = Box::new(Request::from_parts(copy.clone(), RequestBody::empty()));
                drop(lease);
                Box::pin(self.find_lease(tried, self.begin_search())).await
            } else {
                let was_sent = unsent.is_none();
                let Some(unsent) = unsent.filter(|_| lease.may_be_stale()) else {
                    return Err(unanswered(self.report_failure(failure, &pool), was_sent));
                };
                request = Box::new(unsent);
                // In its place.
                request.body_mut().let_go();
                drop(lease);
                Box::pin(self.lease_again(&pool, tried)).await
            };
            lease = leased.map_err(|failure| unanswered(failure, false))?;
        }
        // Of several connections, so no address is to blame.
        self.metrics.count_failure(Failure::Closed.kind());
        Err(unanswered(Failure::Closed, false))
    }
}

/// What a server answers; `None` if the head of the response does not come in time. Time in which
/// the body of the request comes further does not count.
async fn answer(
    lease: &mut Lease,
    request: Box<Request<RequestBody>>,
    head_timeout: Duration,
) -> Option<Answered> {
    let progress = request.body().progress();
    let mut deadline = Instant::now() + head_timeout;
    let mut answered = pin!(lease.send(request));
    loop {
        if let Ok(answered) = timeout_at(deadline, &mut answered).await {
            return Some(answered);
        }
        let extended = progress.as_ref()?.extend(deadline, head_timeout)?;
        // A body that still waits for its client may end sooner than it may take.
        deadline = extended.min(deadline + head_timeout);
    }
}
