//! What decides on the requests to a service.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use tollgate_core::{Answer, Clock, Moment, Span, Timeline};
use tollgate_http::{Problem, Responder};

/// Identifies who sends a request, and decides on it.
pub(super) trait Gate: Send + Sync + 'static {
    fn decide(&self, head: &Parts) -> Outcome;
}

/// What happens to a request.
#[expect(
    clippy::large_enum_variant,
    reason = "taken apart as soon as it is made, never stored"
)]
pub enum Outcome {
    /// No limit concerns it.
    Unlimited,
    /// The limits have decided.
    Decided(Decided),
    /// The limits take time to decide, or may hold it. Dropping this refunds what was charged, if
    /// the limits have decided.
    Delayed(Pin<Box<dyn Future<Output = Result<Decided, Problem>> + Send>>),
    /// There is no decision: it is answered with this.
    Failed(Problem),
}

/// A decision, and the wall-clock time since 1970 at which it was made.
pub struct Decided {
    answer: Answer,
    at: Duration,
}

/// The wall-clock time since 1970. To be read when a decision is made, before anything is held.
pub(super) fn time_of(clock: &impl Clock) -> Duration {
    clock.on(Timeline::Utc).since(Moment::ZERO).into()
}

/// The problem of a request whose peer is unknown: an error of this program.
pub(super) fn missing_peer() -> Problem {
    Problem::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "the server does not know the client's address: no extension of the request has it",
    )
}

// === impl Decided ===

impl Decided {
    /// A decision that was made at this time, and after which nothing has to be held any more.
    pub(super) fn new(answer: Answer, at: Duration) -> Decided {
        let delay = Span::ZERO;
        Decided {
            answer: Answer { delay, ..answer },
            at,
        }
    }

    /// The response to a denied request.
    pub(super) fn denial(
        &self,
        responder: &Responder,
        request: &Parts,
    ) -> Option<Response<String>> {
        responder.deny(&self.answer, self.at, &request.method, &request.headers)
    }

    /// Adds the headers of an allowed answer.
    pub(super) fn decorate(&self, responder: &Responder, response: &mut HeaderMap) {
        responder.decorate(&self.answer, self.at, response);
    }
}
