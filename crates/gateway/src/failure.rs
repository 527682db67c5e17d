//! Requests that the gateway answers itself, because something prevents the upstream's answer.

use std::error::Error;
use std::time::Duration;

use http::{HeaderName, StatusCode};
use tollgate_core::StoreError;
use tollgate_dial::TooMuchRead;
use tollgate_engine::ReserveError;
use tollgate_http::{InvalidFraming, InvalidPath, Problem};

use crate::request_body::BodyError;

/// What went wrong.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Servers and proxies may read the request in different ways.
    Framing(InvalidFraming),
    /// `CONNECT`, in any case, which is for another kind of proxy.
    Connect,
    /// `HEAD` in small letters, whose response has a body to some and none to others.
    RespelledMethod,
    /// No route is for the request.
    NoRoute,
    /// The request has passed through too many gateways, which must be a loop.
    Loop,
    /// The path has no normal form.
    Path(InvalidPath),
    /// A header by which routes are found, with `_` or another character for `-` or the reverse:
    /// many servers take the two for one, and the routes do not.
    Respelled(HeaderName),
    /// A header by which routes are found, with several values: servers take one or another.
    Repeated(HeaderName),
    /// The body has more bytes than are allowed.
    TooLarge(u64),
    /// The client sent nothing of its body for so long.
    IdleBody(Duration),
    /// The client sends its body at fewer bytes a second than this.
    SlowBody(u64),
    /// The body is malformed, or its connection ended.
    IncompleteBody,
    /// The store has no answer, and the limits leave it to us.
    Store(StoreError),
    /// The store reserves nothing for the request.
    Unreserved(ReserveError),
    /// More requests are held for a leaky bucket than may be.
    ManyHeld,
    /// More keys of concurrency limits have requests in flight than may.
    ManyKeys,
    /// As many requests are in flight to the upstream as may be.
    Busy,
    /// No address of the upstream passes its health checks.
    NoHealthyAddress,
    /// The upstream accepts no connection.
    Unreachable,
    /// The upstream's certificate, or something else of its TLS, cannot be used.
    Tls,
    /// The upstream took too long to accept a connection.
    SlowConnect,
    /// The upstream took too long to answer.
    SlowHead(Duration),
    /// The upstream ended the connection without an answer.
    Closed,
    /// The upstream's answer is not HTTP.
    Malformed,
}

/// Why a request to an upstream has no answer.
#[derive(Debug)]
pub(crate) struct Unanswered {
    pub(crate) failure: Failure,
    /// Whether some of it may have reached the upstream.
    pub(crate) was_sent: bool,
}

/// Whether a server says over HTTP/2 that it has not processed a request (RFC 9113, section 8.7):
/// it rejects the stream, or leaves, and the stream is behind the last one that it processed. If it
/// leaves because of an error, the library says the same of the streams before that one; and if it
/// leaves at the moment at which the request is sent, of any. So only what may be processed twice,
/// which is `is_idempotent`, is taken for unprocessed when a server leaves.
pub(crate) fn is_unprocessed(error: &hyper::Error, is_idempotent: bool) -> bool {
    find_stream_error(error).is_some_and(|error| {
        let leaves = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
        let rejects = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
        error.is_remote() && (leaves && is_idempotent || rejects)
    })
}

/// Whether this side has ended a stream, or a whole connection, because of what the server sent.
/// Requests that share the connection cannot know whose response that was.
fn breaks_protocol(error: &hyper::Error) -> bool {
    let is_closing = |error: &h2::Error| error.reason() == Some(h2::Reason::NO_ERROR);
    find_stream_error(error).is_some_and(|error| error.is_library() && !is_closing(error))
}

/// The error of HTTP/2 that is the reason of another one.
fn find_stream_error(error: &hyper::Error) -> Option<&h2::Error> {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(error) = inner.downcast_ref() {
            return Some(error);
        }
        cause = inner.source();
    }
    None
}

// === impl Failure ===

impl From<ReserveError> for Failure {
    fn from(error: ReserveError) -> Failure {
        match error {
            ReserveError::Store(error) => Failure::Store(error),
            error => Failure::Unreserved(error),
        }
    }
}

impl Failure {
    /// What an error of the HTTP library means while a request is sent and answered, and its body
    /// has failed for this reason. Over HTTP/2 the library's error does not say that.
    pub(crate) fn of(error: &hyper::Error, of_body: Option<&BodyError>) -> Failure {
        match of_body {
            Some(BodyError::TooLarge(bytes)) => Failure::TooLarge(*bytes),
            Some(BodyError::Idle(limit)) => Failure::IdleBody(*limit),
            Some(BodyError::Slow(rate)) => Failure::SlowBody(*rate),
            Some(BodyError::Incomplete(_)) => Failure::IncompleteBody,
            None if error.is_parse()
                || TooMuchRead::is_reason_of(error)
                || breaks_protocol(error) =>
            {
                Failure::Malformed
            }
            // Late is a body only after its response.
            Some(BodyError::Late) | None => Failure::Closed,
        }
    }

    /// Its name in metrics.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Framing(InvalidFraming::TransferCoding) => "transfer_coding",
            Self::Framing(_) => "bad_request",
            Self::Connect => "connect_method",
            Self::RespelledMethod => "respelled_method",
            Self::NoRoute => "no_route",
            Self::Loop => "loop",
            Self::Path(_) => "invalid_path",
            Self::Respelled(_) => "respelled_header",
            Self::Repeated(_) => "repeated_header",
            Self::TooLarge(_) => "too_large",
            Self::IdleBody(_) => "idle_body",
            Self::SlowBody(_) => "slow_body",
            Self::IncompleteBody => "incomplete_body",
            Self::Store(_) => "store_error",
            Self::Unreserved(_) => "unreserved",
            Self::ManyHeld => "many_held",
            Self::ManyKeys => "many_keys",
            Self::Busy => "busy",
            Self::NoHealthyAddress => "no_healthy_address",
            Self::Unreachable => "unreachable",
            Self::Tls => "tls",
            Self::SlowConnect => "connect_timeout",
            Self::SlowHead(_) => "head_timeout",
            Self::Closed => "closed",
            Self::Malformed => "malformed",
        }
    }

    /// Whether the client may disagree about where the request or its response ends, so that no
    /// other request can follow on the connection.
    pub(crate) const fn is_ambiguous(&self) -> bool {
        matches!(
            self,
            Self::Framing(_) | Self::Connect | Self::RespelledMethod
        )
    }

    /// Whether the upstream is the reason.
    pub(crate) const fn is_of_upstream(&self) -> bool {
        matches!(
            self,
            Self::Unreachable
                | Self::Tls
                | Self::SlowConnect
                | Self::SlowHead(_)
                | Self::Closed
                | Self::Malformed
        )
    }

    /// Whether it shows that the upstream has no capacity left: it is the reason, or has as many
    /// requests as it may, or fails its health checks.
    pub(crate) const fn shows_load(&self) -> bool {
        self.is_of_upstream() || matches!(self, Self::Busy | Self::NoHealthyAddress)
    }

    /// Whether there was no connection, or it ended before a response began.
    pub(crate) const fn is_of_connection(&self) -> bool {
        let is_unconnected = matches!(self, Self::Unreachable | Self::Tls | Self::SlowConnect);
        is_unconnected || matches!(self, Self::Closed)
    }

    /// The status of the response.
    const fn status(&self) -> StatusCode {
        match self {
            Self::Framing(invalid) => invalid.status(),
            Self::Connect | Self::RespelledMethod => StatusCode::NOT_IMPLEMENTED,
            Self::NoRoute => StatusCode::NOT_FOUND,
            Self::Loop => StatusCode::LOOP_DETECTED,
            Self::Path(_) | Self::Respelled(_) | Self::Repeated(_) | Self::IncompleteBody => {
                StatusCode::BAD_REQUEST
            }
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::IdleBody(_) | Self::SlowBody(_) => StatusCode::REQUEST_TIMEOUT,
            Self::Store(_)
            | Self::Unreserved(_)
            | Self::ManyHeld
            | Self::ManyKeys
            | Self::Busy
            | Self::NoHealthyAddress => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unreachable | Self::Tls | Self::Closed | Self::Malformed => {
                StatusCode::BAD_GATEWAY
            }
            Self::SlowConnect | Self::SlowHead(_) => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// What happened, and what to do, for the client.
    fn detail(&self) -> String {
        match self {
            Self::Framing(invalid) => invalid.to_string(),
            Self::Connect => "this gateway opens no tunnels; send the request itself".to_owned(),
            Self::RespelledMethod => "methods are in capital letters; send `HEAD`".to_owned(),
            Self::NoRoute => "no route matches this request".to_owned(),
            Self::Loop => "the request has passed through too many gateways".to_owned(),
            Self::Path(invalid) => invalid.to_string(),
            Self::Respelled(name) => {
                format!("a header is spelled otherwise, as with `_` for `-`; send `{name}`")
            }
            Self::Repeated(name) => {
                format!("the header `{name}` has several different values; send one")
            }
            Self::TooLarge(bytes) => format!("the body is larger than {bytes} bytes; send less"),
            Self::IdleBody(limit) => {
                format!("nothing of the body arrived for {limit:?}; send it without a pause")
            }
            Self::SlowBody(rate) => {
                format!("the body comes slower than {rate} bytes a second; send it faster")
            }
            Self::IncompleteBody => "the body is incomplete or malformed".to_owned(),
            Self::Store(error) => {
                let error = error.without_address();
                format!("the rate limit store is unavailable: {error}")
            }
            Self::Unreserved(error) => format!("nothing can be reserved: {error}"),
            Self::ManyHeld => "too many requests wait for their turn; retry later".to_owned(),
            Self::ManyKeys => "too many clients have requests in flight; retry later".to_owned(),
            Self::Busy => {
                "the server behind the gateway is at its limit of concurrent requests; retry later"
                    .to_owned()
            }
            Self::NoHealthyAddress => {
                "no server behind the gateway passes its health checks; retry later".to_owned()
            }
            Self::Unreachable => "the server behind the gateway accepts no connection".to_owned(),
            Self::Tls => {
                "there is no secure connection to the server behind the gateway".to_owned()
            }
            Self::SlowConnect => {
                "the server behind the gateway takes too long to accept a connection".to_owned()
            }
            Self::SlowHead(limit) => {
                format!("the server behind the gateway did not answer within {limit:?}")
            }
            Self::Closed => {
                "the server behind the gateway ended the connection without an answer".to_owned()
            }
            Self::Malformed => "the server behind the gateway did not answer in HTTP".to_owned(),
        }
    }

    /// The problem document, which names no server.
    pub(crate) fn problem(&self) -> Problem {
        Problem::new(self.status(), self.detail())
    }
}
