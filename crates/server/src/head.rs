//! What the head of a request must say before anything is done with the request.
//!
//! Neither the library underneath nor the routes look at this, and who serves such requests anyway
//! disagrees with the proxies in front of it about what was asked.

use axum::body::Body;
use http::header::{ALLOW, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};

use crate::reply::{Failure, problem};

/// The media types of gRPC with Protobuf messages; parameters may follow.
const GRPC_MEDIA_TYPES: [&str; 2] = ["application/grpc", "application/grpc+proto"];

/// Why a request is rejected for its head.
#[derive(Debug)]
pub(crate) struct Rejection {
    failure: Box<Failure>,
    /// What the status obliges us to tell.
    header: Option<(HeaderName, &'static str)>,
}

/// Checks the head of a call, as the gRPC specification of its mapping to HTTP/2 has it.
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
    let content_type = head.headers.get(CONTENT_TYPE);
    let text = content_type.and_then(|value| value.to_str().ok());
    let media_type = text.and_then(|text| text.split(';').next());
    let media_type = media_type.unwrap_or_default().trim();
    let is_grpc = GRPC_MEDIA_TYPES
        .iter()
        .any(|known| media_type.eq_ignore_ascii_case(known));
    if is_grpc {
        return Ok(());
    }
    let detail = "this port takes gRPC calls only; send `content-type: application/grpc`";
    let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    Err(Rejection::new("media_type", status, detail))
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

    /// What it is counted as.
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
