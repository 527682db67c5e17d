//! Checks the head of a request before anything else is done with the request.
//!
//! Neither hyper nor the routes check this. A service that accepted such requests could disagree
//! with the proxies in front of it about what was requested.

use axum::body::Body;
use http::header::{ACCEPT_ENCODING, ALLOW, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use tollgate_http::{InvalidFraming, check_framing, list_members};

use crate::auth;
use crate::reply::{Failure, problem};

/// The media types of gRPC with Protobuf messages; parameters may follow.
const GRPC_MEDIA_TYPES: [&str; 2] = ["application/grpc", "application/grpc+proto"];

/// Why a request is rejected for its head.
#[derive(Debug)]
pub(crate) struct Rejection {
    failure: Box<Failure>,
    /// The header that the status requires.
    header: Option<(HeaderName, &'static str)>,
}

/// Checks the head of a request of HTTP, after RFC 9112 (sections 3.2 and 6.1) and RFC 9110
/// (section 8.4).
///
/// # Errors
///
/// 400 unless there is one well-formed `Host`; 501 for a transfer coding that is not read; 415 for
/// a body that is encoded, unless a proxy asks about its request.
pub(crate) fn check_http(head: &Parts) -> Result<(), Rejection> {
    check_framing(head).map_err(Rejection::from)?;
    if head.uri.path() == auth::PATH {
        // A proxy passes on this header without the body, which is not read here anyway.
        return Ok(());
    }
    let mut codings = list_members(&head.headers, &CONTENT_ENCODING);
    if codings.any(|coding| !coding.eq_ignore_ascii_case("identity")) {
        let detail = "encoded bodies are not supported; send the body without `content-encoding`";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        let rejection = Rejection::new("content_coding", status, detail);
        return Err(rejection.with_header(ACCEPT_ENCODING, "identity"));
    }
    Ok(())
}

/// Checks the head of a call, after gRPC's specification "gRPC over HTTP2".
///
/// # Errors
///
/// 405 for a method but POST, 415 for anything but gRPC with Protobuf messages.
pub(crate) fn check_grpc(head: &Parts) -> Result<(), Rejection> {
    if head.method != Method::POST {
        let detail = format!("a gRPC call is a POST, not a {}", head.method);
        let status = StatusCode::METHOD_NOT_ALLOWED;
        let rejection = Rejection::new("method_not_allowed", status, detail);
        return Err(rejection.with_header(ALLOW, "POST"));
    }
    if is_grpc(&head.headers) {
        return Ok(());
    }
    let detail = "this port accepts only gRPC; send `content-type: application/grpc`";
    let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    Err(Rejection::new("media_type", status, detail))
}

/// Whether a request has a media type of gRPC with Protobuf messages.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE);
    let text = content_type.and_then(|value| value.to_str().ok());
    let media_type = text.and_then(|text| text.split(';').next());
    let media_type = media_type.unwrap_or_default().trim();
    let mut known = GRPC_MEDIA_TYPES.iter();
    known.any(|known| media_type.eq_ignore_ascii_case(known))
}

// === impl Rejection ===

impl Rejection {
    fn new(kind: &'static str, status: StatusCode, detail: impl Into<String>) -> Rejection {
        Rejection {
            failure: Box::new(Failure::new(kind, status, detail)),
            header: None,
        }
    }

    fn with_header(mut self, name: HeaderName, value: &'static str) -> Rejection {
        self.header = Some((name, value));
        self
    }

    /// Its kind in the metrics.
    pub(crate) const fn kind(&self) -> &'static str {
        self.failure.kind
    }

    pub(crate) fn response(&self) -> Response<Body> {
        let mut response = problem(&self.failure.problem);
        if let Some((name, value)) = &self.header {
            let value = HeaderValue::from_static(value);
            response.headers_mut().insert(name, value);
        }
        response
    }
}

impl From<InvalidFraming> for Rejection {
    /// With a closed connection, as [`InvalidFraming`] asks for.
    fn from(invalid: InvalidFraming) -> Rejection {
        let kind = match invalid {
            InvalidFraming::TransferCoding => "transfer_coding",
            _ => "bad_request",
        };
        let rejection = Rejection::new(kind, invalid.status(), invalid.to_string());
        rejection.with_header(CONNECTION, "close")
    }
}
