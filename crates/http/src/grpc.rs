//! gRPC's form of a denial: a response of headers alone ("trailers-only"), whose status is in
//! `grpc-status`.

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tollgate_core::Wait;

use crate::problem::Problem;

/// The status code of gRPC.
pub const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
/// What happened, percent-encoded.
pub const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// After how many milliseconds a client may retry; -1 is never (gRPC proposal A6).
pub const GRPC_RETRY_PUSHBACK_MS: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// The value of `Cache-Control` in every response of our own: none may be stored (RFC 6585,
/// section 4).
pub(crate) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

const MEDIA_TYPE: &str = "application/grpc";
/// What `grpc-message` may not contain: all but visible ASCII and spaces, and `%`.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');
/// The longest wait that clients read: they have 32 bits.
const PUSHBACK_MS_MAX: u64 = 0x7fff_ffff;

/// Whether a request is one of gRPC: those are sent with POST. A GET with gRPC's media type is
/// none, and caches may keep a response with status 200 to it.
pub(crate) fn is_request(method: &Method, headers: &HeaderMap) -> bool {
    if method != Method::POST {
        return false;
    }
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let rest = content_type.and_then(|value| {
        let (name, rest) = value.split_at_checked(MEDIA_TYPE.len())?;
        name.eq_ignore_ascii_case(MEDIA_TYPE.as_bytes())
            .then_some(rest)
    });
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
}

/// The response to a gRPC request for which an HTTP request would get this problem.
pub(crate) fn respond(problem: &Problem) -> Response<String> {
    let mut response = Response::new(String::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    headers.insert(CACHE_CONTROL, NO_STORE);
    headers.insert(GRPC_STATUS, HeaderValue::from(code(problem.status)));
    let message = utf8_percent_encode(&problem.detail, ENCODED).to_string();
    let message = HeaderValue::try_from(message);
    headers.insert(GRPC_MESSAGE, message.expect("visible ASCII and spaces"));
    response
}

/// Tells a client when it may retry: not before the wait has passed.
pub(crate) fn push_back(wait: Wait, headers: &mut HeaderMap) {
    let value = match wait {
        Wait::For(wait) => {
            let millis = wait.as_nanos().div_ceil(1_000_000);
            HeaderValue::from(millis.min(PUSHBACK_MS_MAX))
        }
        Wait::Never => HeaderValue::from_static("-1"),
    };
    headers.insert(GRPC_RETRY_PUSHBACK_MS, value);
}

/// gRPC's code, after its mapping of HTTP's; a denial is `RESOURCE_EXHAUSTED`.
fn code(status: StatusCode) -> u16 {
    match status {
        StatusCode::TOO_MANY_REQUESTS => 8,
        StatusCode::UNAUTHORIZED => 16,
        StatusCode::FORBIDDEN => 7,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            14
        }
        StatusCode::NOT_FOUND => 12,
        status if status.is_client_error() => 3,
        _ => 13,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_is_recognised_by_its_method_and_media_type() {
        let table = [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("Application/gRPC; charset=utf-8", true),
            ("application/grpc-web", false),
            ("application/grpc-web+proto", false),
            ("application/grpcx", false),
            ("application/json", false),
            ("", false),
        ];
        for (value, expected) in table {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(value));
            assert_eq!(is_request(&Method::POST, &headers), expected, "{value}");
            for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT] {
                assert!(!is_request(&method, &headers), "{method} {value}");
            }
        }
        assert!(!is_request(&Method::POST, &HeaderMap::new()));
    }

    #[test]
    fn a_message_is_encoded_and_a_status_has_one_code() {
        let problem = Problem::new(StatusCode::FORBIDDEN, "100 % \u{fc}ber\n");
        let response = respond(&problem);
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
        assert_eq!(response.headers()[GRPC_MESSAGE], "100 %25 %C3%BCber%0A");
        let table = [
            (429, 8),
            (401, 16),
            (403, 7),
            (400, 3),
            (503, 14),
            (500, 13),
        ];
        for (status, expected) in table {
            let status = StatusCode::from_u16(status);
            assert_eq!(status.map(code).ok(), Some(expected));
        }
    }
}
