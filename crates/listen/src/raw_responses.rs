//! Last bytes of a connection that ends without a request that could be answered.

use std::borrow::Cow;
use std::error::Error;

use crate::own_response::OwnResponse;

/// For a head that does not arrive in time.
pub(crate) const LATE: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\
    content-type: text/plain\r\ncontent-length: 47\r\n\r\n\
    the request's head did not come in time: retry\n";
/// For HTTP/1 on a listener of HTTP/2.
pub(crate) const NOT_HTTP2: &[u8] =
    b"HTTP/1.1 505 HTTP Version Not Supported\r\nconnection: close\r\n\
    content-type: text/plain\r\ncontent-length: 49\r\n\r\n\
    this port speaks gRPC over HTTP/2, nothing else.\n";
/// For HTTP/2 on a listener of HTTP/1: empty SETTINGS, which every server begins with, and a GOAWAY
/// of 51 bytes. No stream was accepted, and the reason is HTTP_1_1_REQUIRED.
const NOT_HTTP1: &[u8] = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00\
    \x00\x00\x33\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0d\
    this port speaks HTTP/1.1; gRPC has another";

/// The most header fields that the HTTP library parses.
const FIELDS_MAX: usize = 100;

/// The kind of a head that does not arrive in time.
pub(crate) const LATE_KIND: &str = "timeout";

/// The kind of an HTTP/1 error that no route has seen; `None` if the peer did nothing wrong.
/// `unparsed` is what the peer has sent of a head.
pub(crate) fn kind(error: &hyper::Error, unparsed: &[u8]) -> Option<&'static str> {
    if error.is_timeout() {
        // An idle connection has not begun a request.
        (!unparsed.is_empty()).then_some(LATE_KIND)
    } else if error.is_parse_version_h2() {
        Some("http2")
    } else if error.is_parse_too_large() {
        Some("head_too_large")
    } else if error.is_parse() {
        Some("bad_request")
    } else {
        None
    }
}

/// The last response after an error that has a [`kind`], if there is one. `own` is what the HTTP
/// library has written itself, and `header_bytes` the most bytes of a head.
pub(crate) fn last(
    error: &hyper::Error,
    own: Option<OwnResponse>,
    unparsed: &[u8],
    header_bytes: u32,
) -> Option<Cow<'static, [u8]>> {
    if let Some(own) = own {
        let is_head = unparsed.starts_with(b"HEAD ");
        Some(own.with_body(&why(error, header_bytes), is_head).into())
    } else if error.is_timeout() {
        Some(LATE.into())
    } else if error.is_parse_version_h2() {
        Some(NOT_HTTP1.into())
    } else {
        None
    }
}

/// The body of the answer to a head that could not be parsed. `header_bytes` is its most bytes.
fn why(error: &hyper::Error, header_bytes: u32) -> String {
    let reason = reason(error);
    if error.is_parse_too_large() {
        let max = format!("{header_bytes} bytes and {FIELDS_MAX} header fields are accepted");
        format!("the request's head is too large: {reason}; {max}\n")
    } else {
        format!("the request's head is malformed: {reason}\n")
    }
}

/// Whether the peer violated the protocol, and did not just close the connection.
pub(crate) fn is_protocol_error(error: &hyper::Error) -> bool {
    let is_io = error
        .source()
        .is_some_and(|source| source.is::<std::io::Error>());
    !(is_io || error.is_closed() || error.is_timeout() || error.is_incomplete_message())
}

/// The library's description.
pub(crate) fn reason(error: &hyper::Error) -> String {
    let source = error.source();
    source.map_or_else(|| error.to_string(), ToString::to_string)
}
