//! Conditions on methods and headers. Those that no request would fit, because they mean something
//! in other products that they do not mean here, are errors.

use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderName, HeaderValue, Method};
use tollgate_http::InvalidSetting;

use crate::misspelling::find_meant;

/// Stands for any value of a header.
const ANY: &str = "*";
/// Methods that are none of those below misspelt: of RFC 9110, of the registry of methods at IANA,
/// of caches and UPnP, and of Exchange.
const METHODS: &str = "GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH ACL BASELINE-CONTROL \
    BIND CHECKIN CHECKOUT COPY LABEL LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF \
    MKWORKSPACE MOVE ORDERPATCH PROPFIND PROPPATCH PURGE QUERY REBIND REPORT SEARCH UNBIND \
    UNCHECKOUT UNLINK UNLOCK UPDATE VERSION-CONTROL M-SEARCH NOTIFY SUBSCRIBE UNSUBSCRIBE \
    BCOPY BDELETE BMOVE BPROPFIND BPROPPATCH POLL";

/// Reads a method. Any other than those that are known is one, too, unless it is a known one
/// misspelt.
pub(super) fn parse_method(method: &str) -> Result<Method, InvalidSetting> {
    let wrong = |problem, instead| Err(InvalidSetting::new("", problem, instead));
    if method == "*" {
        let problem = "`*` is not any method, but one of this name".to_owned();
        return wrong(problem, "leave out `methods`, for all methods".to_owned());
    }
    let known: Vec<&str> = METHODS.split_whitespace().collect();
    let is_allowed = |byte: u8| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.');
    let parsed = Method::from_bytes(method.as_bytes()).ok();
    let Some(parsed) = parsed.filter(|_| method.bytes().all(is_allowed)) else {
        let upper = method.to_ascii_uppercase();
        let instead = match known.contains(&&*upper) {
            true => format!("write `{upper}`"),
            false => "write one such as POST, in capital letters".to_owned(),
        };
        return wrong(format!("\"{method}\" is not a valid method"), instead);
    };
    match find_meant(method, &known) {
        None => Ok(parsed),
        Some(meant) => wrong(
            format!("\"{method}\" is not a known method"),
            format!("did you mean `{meant}`?"),
        ),
    }
}

/// Reads a header and the value that it must have; `None` for any.
pub(super) fn parse_header(
    name: &str,
    value: &str,
) -> Result<(HeaderName, Option<HeaderValue>), InvalidSetting> {
    let at = format!("headers.{name}");
    let wrong =
        |problem: String, instead: &str| Err(InvalidSetting::new(at, problem, instead.to_owned()));
    let Ok(parsed) = name.parse::<HeaderName>() else {
        let problem = format!("\"{name}\" is not a valid header name");
        return wrong(problem, "write one such as x-api-version");
    };
    if parsed == HOST {
        let problem = "HTTP/2 has no header host".to_owned();
        return wrong(problem, "write `hosts: [...]`");
    }
    if value == ANY {
        return Ok((parsed, None));
    }
    // The value may be a secret, so that errors do not repeat it.
    if is_pattern(&parsed, value) {
        let problem = "the value looks like a pattern, and is compared as it is".to_owned();
        return wrong(problem, "write the whole value, or `*` alone for any value");
    }
    match HeaderValue::from_str(value) {
        Ok(value) => Ok((parsed, Some(value))),
        Err(_) => wrong(
            "the value has characters that no header can have".to_owned(),
            "write visible characters of ASCII, or * for any value",
        ),
    }
}

/// Whether a value is hardly meant to be compared as it is: `gold*`, `/re.*/`, `^gold$`. The
/// values of headers about media types and languages have stars of their own.
fn is_pattern(name: &HeaderName, value: &str) -> bool {
    let has_stars = name.as_str().starts_with("accept") || name == CONTENT_TYPE;
    let is_glob = !has_stars && (value.starts_with('*') || value.ends_with('*'));
    let is_regex = value
        .strip_prefix('/')
        .and_then(|value| value.strip_suffix('/'))
        .is_some_and(|value| value.contains(['*', '+', '[', '(', '|', '\\', '^', '$']));
    is_glob || is_regex || value.contains(".*") || value.starts_with('^')
}
