//! Checks the head of a request before anything else is done with the request.
//!
//! Neither hyper nor the routes check this. A service that accepted such requests could disagree
//! with the proxies in front of it about what was requested.

use std::net::Ipv6Addr;

use axum::body::Body;
use http::header::{
    ACCEPT_ENCODING, ALLOW, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HOST, TRANSFER_ENCODING,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version};

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

/// Checks the head of an HTTP/1 request, after RFC 9112 (sections 3.2 and 6.1) and RFC 9110
/// (section 8.4).
///
/// # Errors
///
/// 400 unless there is one well-formed `Host`; 501 for a transfer coding that is not read; 415 for
/// a body that is encoded, unless a proxy asks about its request.
pub(crate) fn check_http1(head: &Parts) -> Result<(), Rejection> {
    check_host(head)?;
    let unread = |coding: &str| !coding.eq_ignore_ascii_case("chunked");
    let mut transfer_codings = list(&head.headers, &TRANSFER_ENCODING);
    let first_is_unread = transfer_codings.next().is_some_and(unread);
    if first_is_unread || transfer_codings.next().is_some() {
        let detail = "unsupported transfer coding; send `chunked`, once, or none";
        let status = StatusCode::NOT_IMPLEMENTED;
        let rejection = Rejection::new("transfer_coding", status, detail);
        return Err(rejection.with_header(CONNECTION, "close"));
    }
    if head.uri.path() == auth::PATH {
        // A proxy passes on this header without the body, which is not read here anyway.
        return Ok(());
    }
    let mut codings = list(&head.headers, &CONTENT_ENCODING);
    if codings.any(|coding| !coding.eq_ignore_ascii_case("identity")) {
        let detail = "encoded bodies are not supported; send the body without `content-encoding`";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        let rejection = Rejection::new("content_coding", status, detail);
        return Err(rejection.with_header(ACCEPT_ENCODING, "identity"));
    }
    Ok(())
}

fn check_host(head: &Parts) -> Result<(), Rejection> {
    let mut hosts = head.headers.get_all(HOST).iter();
    let detail = match (hosts.next(), hosts.next()) {
        // HTTP/1.0 has no such header.
        (None, _) if head.version < Version::HTTP_11 => return Ok(()),
        (Some(host), None) if is_host(host) => return Ok(()),
        (None, _) => "the request has no `host` header; HTTP/1.1 needs one",
        (Some(_), Some(_)) => "the request has several `host` headers; send one",
        (Some(_), None) => "the `host` header is malformed; send `name`, or `name:port`",
    };
    let rejection = Rejection::new("bad_request", StatusCode::BAD_REQUEST, detail);
    // Close the connection: a sender or proxy that gets this wrong may also disagree with us about
    // the end of the request.
    Err(rejection.with_header(CONNECTION, "close"))
}

/// Whether a value is `uri-host [ ":" port ]` of RFC 3986; it may be empty.
fn is_host(value: &HeaderValue) -> bool {
    let Ok(text) = value.to_str() else {
        return false;
    };
    let (is_name, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, "")) => (address.parse::<Ipv6Addr>().is_ok(), ""),
            Some((address, rest)) => {
                let is_address = address.parse::<Ipv6Addr>().is_ok() && rest.starts_with(':');
                (is_address, &rest[1..])
            }
            None => return false,
        },
        None => {
            let (name, port) = text.split_once(':').unwrap_or((text, ""));
            (name.bytes().all(is_of_host), port)
        }
    };
    is_name && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Unreserved characters, sub-delimiters, and the `%` of percent-encoding.
fn is_of_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(&byte)
}

/// The members of a header that is a list, without empty ones. A value that is not ASCII counts as
/// one unknown member.
fn list<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter();
    let members = values.flat_map(|value| value.to_str().unwrap_or("?").split(','));
    members.map(str::trim).filter(|member| !member.is_empty())
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
    let detail = "this port accepts only gRPC; send `content-type: application/grpc`";
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_and_addresses_with_or_without_a_port() {
        let is_host = |text: &str| is_host(&HeaderValue::from_bytes(text.as_bytes()).expect("ok"));
        for good in [
            "",
            "h",
            "h:",
            "h:80",
            "10.0.0.1:8080",
            "[::1]",
            "[::1]:80",
            "a_b.c-d",
            "%c3%bc",
        ] {
            assert!(is_host(good), "{good}");
        }
        for bad in [
            "a b", "h:x", "h:1:2", "u@h", "h/p", "[::1", "[::1]80", "[x]", "::1", "ü", "a,b:c",
            "h?", "[::1]ü", "<h>",
        ] {
            assert!(!is_host(bad), "{bad}");
        }
    }
}
