//! What is kept of the head of a call that waits for its message.

use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, ORIGIN, TE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use tollgate_gateway::REQUEST_ID;
use tollgate_telemetry::{TRACEPARENT, TRACESTATE};

/// The longest metadata field that is kept.
const FIELD_BYTES_KEPT: usize = 1024;
/// The most values of a field that are kept: enough to tell that there are several.
const FIELD_VALUES_KEPT: usize = 2;
/// How much of a query is kept: enough to say that there is one, and how it begins.
const QUERY_BYTES_KEPT: usize = 64;
/// The metadata that this service reads.
const METADATA_READ: [HeaderName; 13] = [
    CONTENT_TYPE,
    CONTENT_LENGTH,
    TE,
    HOST,
    ACCEPT_ENCODING,
    ORIGIN,
    HeaderName::from_static("grpc-timeout"),
    HeaderName::from_static("grpc-encoding"),
    HeaderName::from_static("grpc-accept-encoding"),
    HeaderName::from_static("grpc-message-type"),
    TRACEPARENT,
    TRACESTATE,
    REQUEST_ID,
];

/// Copies the fields of a call's head that the service reads.
///
/// While a call waits for its message, every field of the original head would keep the buffer in
/// memory in which it arrived.
pub(super) fn copy_read_fields(mut head: Parts) -> Parts {
    let mut copy = HeaderMap::with_capacity(METADATA_READ.len());
    for name in METADATA_READ {
        let values = head.headers.get_all(&name).iter().take(FIELD_VALUES_KEPT);
        for value in values.filter(|value| value.len() <= FIELD_BYTES_KEPT) {
            if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
                copy.append(&name, value);
            }
        }
    }
    head.headers = copy;
    let mut path = head.uri.path().to_owned();
    if let Some(query) = head.uri.query() {
        path.push('?');
        path.extend(query.chars().take(QUERY_BYTES_KEPT));
    }
    let path = PathAndQuery::try_from(path);
    // A copy of a valid path is valid.
    head.uri = path.map_or_else(|_| Uri::from_static("/"), Uri::from);
    head
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn metadata_that_is_not_read_is_dropped() {
        let kept = [
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("origin", "null"),
            ("x-request-id", "abc-1"),
        ];
        let large = HeaderValue::from_bytes(&[b'x'; 4000]).expect("x is allowed");
        let mut request = Request::builder().uri("http://h/a/b?c");
        for (name, value) in kept {
            request = request.header(name, value);
        }
        request = request
            .header("x-large", large.clone())
            .header("host", large);
        let (head, ()) = request.body(()).expect("a request").into_parts();
        let head = copy_read_fields(head);
        assert_eq!(head.headers.len(), kept.len());
        assert!(
            kept.iter()
                .all(|(name, value)| head.headers[*name] == *value)
        );
        assert_eq!(head.uri, "/a/b?c");
    }

    #[test]
    fn metadata_that_occurs_several_times_still_does() {
        let mut request = Request::builder().uri("http://h/a");
        for id in ["a", "b", "c"] {
            request = request.header("x-request-id", id);
        }
        let (head, ()) = request.body(()).expect("a request").into_parts();
        let head = copy_read_fields(head);
        let ids = head.headers.get_all("x-request-id");
        assert_eq!(ids.iter().count(), FIELD_VALUES_KEPT);
    }
}
