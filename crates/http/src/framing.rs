//! Whether a request is one that every server and proxy reads in the same way.
//!
//! HTTP libraries do not check this. A service that accepted such requests could disagree with the
//! proxies in front of it, or the servers behind it, about what was requested, and where it ends.

use std::fmt;
use std::net::Ipv6Addr;

use http::header::{HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};

/// Why a request is rejected for its head. Its connection must be closed: a sender or proxy that
/// gets this wrong may also disagree about the end of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidFraming {
    /// HTTP/1.1 without `Host`.
    NoHost,
    /// More than one `Host`.
    ManyHosts,
    /// `Host` or the request's target does not name a host.
    BadHost,
    /// `Host` is another than that of the request's target.
    OtherHost,
    /// A target with another scheme than HTTP's, `*` with another method than `OPTIONS`, or a host
    /// without a scheme with another than `CONNECT`.
    Target,
    /// Several lengths that are written differently, although they may be the same number.
    Lengths,
    /// A transfer coding that is not `chunked`, or several.
    TransferCoding,
}

/// Checks the head of a request, after RFC 9112 (sections 3.2 and 6.1) and RFC 9110 (4.2).
///
/// # Errors
///
/// [`InvalidFraming`], unless there is one well-formed host, a target of HTTP, and no transfer
/// coding but `chunked`.
pub fn check_framing(head: &Parts) -> Result<(), InvalidFraming> {
    check_host(head)?;
    check_target(head)?;
    // Nearly every body has its length instead.
    if !head.headers.contains_key(TRANSFER_ENCODING) {
        return Ok(());
    }
    let unread = |coding: &str| !coding.eq_ignore_ascii_case("chunked");
    let mut codings = list_members(&head.headers, &TRANSFER_ENCODING);
    let first_is_unread = codings.next().is_some_and(unread);
    match first_is_unread || codings.next().is_some() {
        true => Err(InvalidFraming::TransferCoding),
        false => Ok(()),
    }
}

fn check_target(head: &Parts) -> Result<(), InvalidFraming> {
    let is_http = head.uri.scheme_str().is_none_or(|scheme| {
        let mut known = ["http", "https"].into_iter();
        known.any(|known| scheme.eq_ignore_ascii_case(known))
    });
    // `host:port` is a target of CONNECT alone. It has no path, so others would read `/`.
    let is_url = head.uri.authority().is_none() || head.uri.scheme().is_some();
    let has_form = is_url || head.method == Method::CONNECT;
    match is_http && has_form && (head.uri.path() != "*" || head.method == Method::OPTIONS) {
        true => Ok(()),
        false => Err(InvalidFraming::Target),
    }
}

fn check_host(head: &Parts) -> Result<(), InvalidFraming> {
    let mut hosts = head.headers.get_all(HOST).iter();
    let authority = head.uri.authority().map(|authority| authority.as_str());
    match (hosts.next(), hosts.next(), authority) {
        (_, Some(_), _) => Err(InvalidFraming::ManyHosts),
        (Some(host), None, _) if !is_host(host.as_bytes()) => Err(InvalidFraming::BadHost),
        (_, _, Some(authority)) if !is_host(authority.as_bytes()) => Err(InvalidFraming::BadHost),
        (Some(host), None, Some(authority))
            if !host.as_bytes().eq_ignore_ascii_case(authority.as_bytes()) =>
        {
            Err(InvalidFraming::OtherHost)
        }
        // HTTP/1.0 has no such header, and HTTP/2 names the host in the target.
        (None, None, None) if head.version == Version::HTTP_11 => Err(InvalidFraming::NoHost),
        _ => Ok(()),
    }
}

/// Whether a value is `uri-host [ ":" port ]` of RFC 3986, without percent-encoding; it may be
/// empty. With it, each host would have many spellings and a limit of its own for each; no name of
/// a host needs it.
pub(crate) fn is_host(value: &[u8]) -> bool {
    let name = value.iter().take_while(|byte| is_of_host(**byte)).count();
    match &value[name..] {
        // Nearly every host: a name or an IPv4 address.
        [] => true,
        [b':', port @ ..] => port.iter().all(u8::is_ascii_digit),
        [b'[', rest @ ..] if name == 0 => is_ipv6_host(rest),
        _ => false,
    }
}

/// Whether a value is an IPv6 address, `]`, and a port if there is one.
fn is_ipv6_host(value: &[u8]) -> bool {
    let text = std::str::from_utf8(value).ok();
    let Some((address, rest)) = text.and_then(|text| text.split_once(']')) else {
        return false;
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    address.parse::<Ipv6Addr>().is_ok()
        && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
}

/// Unreserved characters and sub-delimiters.
const fn is_of_host(byte: u8) -> bool {
    // Not a search in a list of them: nearly every request has a host.
    matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9')
        || matches!(
            byte,
            b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')'
        )
        || matches!(byte, b'*' | b'+' | b',' | b';' | b'=')
}

/// The members of a header that is a list, without empty ones. A value that is not ASCII counts as
/// one unknown member.
pub fn list_members<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter();
    let members = values.flat_map(|value: &HeaderValue| value.to_str().unwrap_or("?").split(','));
    members.map(str::trim).filter(|member| !member.is_empty())
}

// === impl InvalidFraming ===

impl InvalidFraming {
    /// 501 for a transfer coding, 400 for all else.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::TransferCoding => StatusCode::NOT_IMPLEMENTED,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

impl std::error::Error for InvalidFraming {}

impl fmt::Display for InvalidFraming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Target => "the request's target is none of HTTP; send a path or an http URL",
            Self::NoHost => "the request has no `host` header; HTTP/1.1 needs one",
            Self::ManyHosts => "the request has several `host` headers; send one",
            Self::BadHost => {
                "the `host` header is malformed; send `name`, or `name:port`, not percent-encoded"
            }
            Self::OtherHost => "the `host` header and the request's target name different hosts",
            Self::Lengths => "the request has several `content-length` headers; send one",
            Self::TransferCoding => "unsupported transfer coding; send `chunked`, once, or none",
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use http::Request;

    use super::*;

    #[test]
    fn hosts_are_names_and_addresses_with_or_without_a_port() {
        for good in [
            "",
            "h",
            "h:",
            "h:80",
            "10.0.0.1:8080",
            "[::1]",
            "[::1]:80",
            "a_b.c-d",
        ] {
            assert!(is_host(good.as_bytes()), "{good}");
        }
        for bad in [
            "a b", "h:x", "h:1:2", "u@h", "h/p", "[::1", "[::1]80", "[x]", "::1", "ü", "a,b:c",
            "h?", "[::1]ü", "<h>", "x[::1]", "h:1x", "[::1]:x", "[::1]1", "[]", "[", "%61",
            "%c3%bc",
        ] {
            assert!(!is_host(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn a_request_has_one_host_and_one_framing() {
        let check = |uri: &str, version, headers: &[(&str, &str)]| {
            let mut request = Request::builder().uri(uri).version(version);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            check_framing(&request.body(()).unwrap().into_parts().0)
        };
        let http1 = Version::HTTP_11;
        let host = ("host", "a:80");
        for (found, expected) in [
            (check("/", http1, &[host]), Ok(())),
            (check("/", http1, &[]), Err(InvalidFraming::NoHost)),
            (check("/", Version::HTTP_10, &[]), Ok(())),
            (check("HTTPS://a:80/", http1, &[host]), Ok(())),
            (
                check("ftp://a:80/", http1, &[host]),
                Err(InvalidFraming::Target),
            ),
            (check("*", http1, &[host]), Err(InvalidFraming::Target)),
            (check("/*", http1, &[host]), Ok(())),
            (
                check("/", http1, &[host, host]),
                Err(InvalidFraming::ManyHosts),
            ),
            (
                check("/", http1, &[("host", "a b")]),
                Err(InvalidFraming::BadHost),
            ),
            (
                check("/", http1, &[("host", "%61:80")]),
                Err(InvalidFraming::BadHost),
            ),
            (check("http://A:80/", http1, &[host]), Ok(())),
            (
                check("http://b/", http1, &[host]),
                Err(InvalidFraming::OtherHost),
            ),
            (check("http://a/", Version::HTTP_2, &[]), Ok(())),
            (
                check("http://u@a/", Version::HTTP_2, &[]),
                Err(InvalidFraming::BadHost),
            ),
            (
                check("/", http1, &[host, ("transfer-encoding", "chunked")]),
                Ok(()),
            ),
            (
                check("/", http1, &[host, ("transfer-encoding", "gzip, chunked")]),
                Err(InvalidFraming::TransferCoding),
            ),
            (
                check(
                    "/",
                    http1,
                    &[host, ("transfer-encoding", "chunked,chunked")],
                ),
                Err(InvalidFraming::TransferCoding),
            ),
        ] {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_target_that_is_neither_a_path_nor_a_url_has_its_own_method() {
        for (method, target, expected) in [
            ("OPTIONS", "*", Ok(())),
            ("GET", "*", Err(InvalidFraming::Target)),
            ("CONNECT", "a:80", Ok(())),
            ("GET", "a:80", Err(InvalidFraming::Target)),
            ("GET", "http://a:80", Ok(())),
        ] {
            for version in [Version::HTTP_10, Version::HTTP_11] {
                let request = Request::builder().method(method).uri(target);
                let request = request.version(version).header("host", "a:80");
                let (head, ()) = request.body(()).unwrap().into_parts();
                assert_eq!(check_framing(&head), expected, "{method} {target}");
            }
        }
    }
}
