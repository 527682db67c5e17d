//! Responses, and reading request bodies within their limits.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body_util::{LengthLimitError, Limited};
use hyper::body::Body as HttpBody;
use serde::de::{Deserialize, Error};
use serde_json::Value;
use tokio::time::timeout;
use tollgate_core::{StoreError, escape_json};
use tollgate_engine::ReserveError;
use tollgate_http::{MEDIA_TYPE, Problem};

use crate::body::{BoxError, is_no_room, no_room, whole};

/// An error response: a problem document for the client, and a kind for the metrics.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: &'static str,
    pub(crate) problem: Problem,
}

/// A response of one media type, with a body of a route or with its bytes alone.
pub(crate) fn reply<B>(
    status: StatusCode,
    media_type: &'static str,
    body: impl Into<B>,
) -> Response<B> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let media_type = HeaderValue::from_static(media_type);
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}

/// A JSON document.
pub(crate) fn json<B: From<String>>(status: StatusCode, body: &Value) -> Response<B> {
    reply(status, "application/json", document(body))
}

/// A problem document.
pub(crate) fn problem<B: From<String>>(problem: &Problem) -> Response<B> {
    reply(problem.status, MEDIA_TYPE, document(&problem.json()))
}

/// The text of a JSON document, in a line.
fn document(json: &Value) -> String {
    escape_json(format!("{json}\n"))
}

/// A response that no route has made, to a request with this method. That to HEAD has the length of
/// its body alone: in HTTP/2, the body would be sent.
pub(crate) fn for_method(method: &Method, response: Response<Body>) -> Response<Body> {
    if method != Method::HEAD {
        return response;
    }
    let (mut head, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact() {
        head.headers.insert(CONTENT_LENGTH, length.into());
    }
    Response::from_parts(head, Body::empty())
}

/// Reads a request's body.
///
/// # Errors
///
/// 413 for more than `bytes_max`, 408 if it does not arrive within `body_timeout`, 400 if it is
/// incomplete.
pub(crate) async fn body<B>(
    headers: &HeaderMap,
    body: B,
    bytes_max: usize,
    body_timeout: Duration,
) -> Result<Bytes, Failure>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let announced = headers.get(CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > bytes_max) {
        return Err(too_large(bytes_max));
    }
    let mut whole = pin!(whole(Limited::new(body, bytes_max), |_| false));
    // Nearly every body is there already, and needs no timer.
    let at_once = poll_fn(|cx| Poll::Ready(whole.as_mut().poll(cx))).await;
    let read = match at_once {
        Poll::Ready(read) => Ok(read),
        Poll::Pending => Box::pin(timeout(body_timeout, whole)).await,
    };
    match read {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) if is_no_room(&*error) => {
            let detail = no_room().message().to_owned();
            let status = StatusCode::SERVICE_UNAVAILABLE;
            Err(Failure::new("no_room", status, detail))
        }
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(bytes_max)),
        Ok(Err(error)) => {
            let detail = format!("the body is incomplete: {error}");
            Err(Failure::bad_request(detail))
        }
        Err(_) => {
            let detail =
                format!("the body did not arrive within {body_timeout:?}; send it at once");
            Err(Failure::new("timeout", StatusCode::REQUEST_TIMEOUT, detail))
        }
    }
}

/// Reads the JSON object in a body.
///
/// # Errors
///
/// 400 with what is wrong and where, and `example`, a valid body.
pub(crate) fn read_object<'b, T: Deserialize<'b>>(
    body: &'b [u8],
    example: &str,
) -> Result<T, Failure> {
    let wrong = |error: serde_json::Error| {
        Failure::bad_request(format!("{error}; a request looks like {example}"))
    };
    // serde would accept a list, with the fields in order; the description does not.
    if body.trim_ascii_start().starts_with(b"[") {
        return Err(wrong(Error::custom("the body is a list, not an object")));
    }
    read_json(body).map_err(wrong)
}

/// Reads the JSON in a body.
///
/// # Errors
///
/// Those of a body whose texts are checked one by one, and of no other.
pub(crate) fn read_json<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Result<T, serde_json::Error> {
    // To check the whole body at once takes a fraction of the time.
    match str::from_utf8(body) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(body),
    }
}

fn too_large(bytes_max: usize) -> Failure {
    let detail = format!("the body is larger than {bytes_max} bytes; send less at once");
    Failure::new("too_large", StatusCode::PAYLOAD_TOO_LARGE, detail)
}

/// The label of a store's error in metrics.
pub(crate) const fn store_kind(error: &StoreError) -> &'static str {
    match error {
        StoreError::TooManyCharges(_) => "too_many_limits",
        StoreError::Contended => "contended",
        StoreError::Superseded => "superseded",
        StoreError::Full => "store_full",
        StoreError::Unfit { .. } => "unfit_limit",
        StoreError::Unreachable { .. } | StoreError::Rejected { .. } => "store_unreachable",
        StoreError::TimedOut { .. } | StoreError::Unanswered => "store_timeout",
        _ => "store_reply",
    }
}

/// The text for a client whose request the store did not answer. It does not contain the store's
/// address, which only the log and the metrics have.
pub(crate) fn store_unavailable(error: &StoreError) -> String {
    let error = error.without_address();
    format!("the rate limit store is unavailable: {error}")
}

// === impl Failure ===

impl Failure {
    pub(crate) fn new(
        kind: &'static str,
        status: StatusCode,
        detail: impl Into<String>,
    ) -> Failure {
        Failure {
            kind,
            problem: Problem::new(status, detail),
        }
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Failure {
        Failure::new("bad_request", StatusCode::BAD_REQUEST, detail)
    }
}

impl From<tollgate_core::InvalidRequest> for Failure {
    fn from(invalid: tollgate_core::InvalidRequest) -> Failure {
        Failure::bad_request(invalid.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        let kind = store_kind(&error);
        match error {
            StoreError::TooManyCharges(_) => {
                Failure::new(kind, StatusCode::BAD_REQUEST, error.to_string())
            }
            error => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Failure::new(kind, status, store_unavailable(&error))
            }
        }
    }
}

impl From<ReserveError> for Failure {
    fn from(error: ReserveError) -> Failure {
        let detail = error.to_string();
        let (kind, status) = match error {
            ReserveError::Store(error) => return Failure::from(error),
            ReserveError::Unfit { .. } => ("reserve_unsupported", StatusCode::NOT_IMPLEMENTED),
            ReserveError::Refund => ("bad_request", StatusCode::BAD_REQUEST),
            ReserveError::TooManyLimits { .. } => ("too_many_limits", StatusCode::BAD_REQUEST),
            ReserveError::Full { .. } => ("reservations_full", StatusCode::SERVICE_UNAVAILABLE),
            _ => ("no_randomness", StatusCode::SERVICE_UNAVAILABLE),
        };
        Failure::new(kind, status, detail)
    }
}
