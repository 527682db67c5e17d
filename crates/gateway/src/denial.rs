//! Denied requests are kept by an id that their answers have, so that the denial can be explained.

use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate_core::{Answer, Request};
use tollgate_engine::Engine;

/// The header with the id of a request, in both directions.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The id that a client gave its request; `None` if there is not exactly one.
pub fn request_id(headers: &HeaderMap) -> Option<&HeaderValue> {
    let mut ids = headers.get_all(REQUEST_ID).iter();
    ids.next().filter(|_| ids.next().is_none())
}

/// Keeps a request if `answer` denies it, and puts its id into the headers of the response: that of
/// the client, if it is short and plain, or a new one.
pub fn keep_denial(
    engine: &Engine,
    id: Option<&HeaderValue>,
    request: &Request<'_>,
    answer: &Answer,
    response: &mut HeaderMap,
) {
    let id = engine.keep_denial(id.map(HeaderValue::as_bytes), request, answer);
    let id = id.and_then(|id| HeaderValue::from_str(&id).ok());
    if let Some(id) = id {
        response.insert(REQUEST_ID, id);
    }
}
