//! The spans of requests: what the listeners have in common.

use std::time::{Duration, Instant};

use http::Response;
use tollgate_core::{Request, StoreError};
use tollgate_engine::{Decided, Engine, ReservationReceipt, ReserveError};
use tollgate_gateway::REQUEST_ID;
use tollgate_telemetry::{RequestSpan, Value, attribute};

use crate::reply::{Failure, store_kind};

/// The outcome of a request until it has another one: its client has gone.
pub(crate) const CANCELED: &str = "canceled";
/// The outcome of a request that cannot be decided.
pub(crate) const INVALID: &str = "invalid";
/// The outcome of a request that nothing limits.
pub(crate) const UNLIMITED: &str = "unlimited";
/// The outcome of a batch of which every check is allowed, and of any other.
const ALLOWED: &str = "allowed";
const DENIED: &str = "denied";
/// The outcome of a request that no store decided.
const ERROR: &str = "error";

/// What became of a batch of `CL.THROTTLE`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BatchCounts {
    pub(crate) asked: u64,
    pub(crate) denied: u64,
    /// Those without an answer.
    pub(crate) errors: u64,
}

/// Decides on a request, and says in its span how, and how long the store took.
pub(crate) async fn decide(
    engine: &Engine,
    request: &Request<'_>,
    span: &mut RequestSpan,
) -> Result<Decided, StoreError> {
    if !span.is_sampled() {
        return engine.decide(request).await;
    }
    span.set_domain(request.domain);
    let mut store_time = Duration::ZERO;
    let decided = engine.decide_timed(request, &mut store_time).await;
    match &decided {
        Ok(decided) => span.set_answer(&decided.answer, store_time),
        Err(error) => fail(span, error, store_time),
    }
    decided
}

/// Reserves for a request, and says in its span how, and how long that took.
pub(crate) async fn reserve(
    engine: &Engine,
    request: &Request<'_>,
    span: &mut RequestSpan,
) -> Result<(Decided, Option<ReservationReceipt>), ReserveError> {
    if !span.is_sampled() {
        return engine.reserve(request).await;
    }
    span.set_domain(request.domain);
    let began = Instant::now();
    let reserved = engine.reserve(request).await;
    match &reserved {
        Ok((decided, _)) => span.set_answer(&decided.answer, began.elapsed()),
        Err(ReserveError::Store(error)) => fail(span, error, began.elapsed()),
        Err(_) => span.set_outcome(ERROR),
    }
    reserved
}

/// Says in the span of a batch how its checks were decided, since `began`: of a single one, by
/// which rule.
pub(crate) fn describe_batch(
    span: &mut RequestSpan,
    requests: &[Request<'_>],
    decided: &[Result<Decided, StoreError>],
    began: Instant,
) {
    if !span.is_sampled() {
        return;
    }
    if let Some(first) = requests.first()
        && requests
            .iter()
            .all(|request| request.domain == first.domain)
    {
        span.set_domain(first.domain);
    }
    if requests.is_empty() {
        return span.set_outcome(INVALID);
    }
    let is_denied = |one: &&Result<Decided, StoreError>| {
        one.as_ref()
            .is_ok_and(|decided| !decided.answer.is_allowed())
    };
    let denied = decided.iter().filter(is_denied).count();
    set_counts(span, requests.len(), denied);
    let error = decided.iter().find_map(|one| one.as_ref().err());
    match (error, decided) {
        (Some(error), _) => fail(span, error, began.elapsed()),
        (None, [Ok(decided)]) => span.set_answer(&decided.answer, began.elapsed()),
        (None, _) => {
            span.set_outcome(if denied > 0 { DENIED } else { ALLOWED });
            span.set_store_time(began.elapsed());
        }
    }
}

/// Says in the span of a batch of `CL.THROTTLE` how it was decided, since `began`.
pub(crate) fn describe_throttles(span: &mut RequestSpan, counts: BatchCounts, began: Instant) {
    if !span.is_sampled() {
        return;
    }
    let BatchCounts {
        asked,
        denied,
        errors,
    } = counts;
    set_counts(span, asked, denied);
    span.set_store_time(began.elapsed());
    if errors > 0 {
        span.set_outcome(ERROR);
        span.fail("store");
    } else {
        span.set_outcome(if denied > 0 { DENIED } else { ALLOWED });
    }
}

/// Says in the span of a batch how many requests it had, and how many of them were denied.
fn set_counts<N: TryInto<i64>>(span: &mut RequestSpan, requests: N, denied: N) {
    let number = |count: N| Value::Number(count.try_into().unwrap_or(i64::MAX));
    span.set(attribute::BATCH_SIZE, || number(requests));
    span.set(attribute::BATCH_DENIED, || number(denied));
}

/// Says in a span what a response says.
pub(crate) fn describe_response<B>(span: &mut RequestSpan, response: &Response<B>) {
    if !span.is_sampled() {
        return;
    }
    span.set_http_status(response.status());
    if let Some(id) = response.headers().get(REQUEST_ID)
        && let Ok(id) = id.to_str()
    {
        span.set(attribute::REQUEST_ID, || Value::Text(id.to_owned().into()));
    }
}

/// Says in a span why a request was answered with an error.
pub(crate) fn describe_failure(span: &mut RequestSpan, failure: &Failure) {
    match failure.problem.status.is_server_error() {
        true => {
            span.set_outcome(ERROR);
            span.fail(failure.kind);
        }
        false => span.set_outcome(INVALID),
    }
}

/// The store has not decided.
fn fail(span: &mut RequestSpan, error: &StoreError, store_time: Duration) {
    span.set_outcome(ERROR);
    span.set_store_time(store_time);
    // Too many limits are the request's own fault.
    if !matches!(error, StoreError::TooManyCharges(_)) {
        span.fail(store_kind(error));
    }
}
