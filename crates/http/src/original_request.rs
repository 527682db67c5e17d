//! The request that a proxy asks about, in the headers of the proxy's own request.
//!
//! Anybody can send these headers. As with addresses, exactly one set of them is configured, and
//! the other has no effect: a proxy overwrites those that it knows and passes on all others.

use std::fmt;

use http::header::HOST;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use serde::Deserialize;

const X_ORIGINAL_METHOD: HeaderName = HeaderName::from_static("x-original-method");
const X_ORIGINAL_URI: HeaderName = HeaderName::from_static("x-original-uri");
const X_FORWARDED_METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
const X_FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Which headers carry the original request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum OriginalSource {
    /// `X-Original-URI` and `X-Original-Method`, as nginx is usually configured; the host is in
    /// `Host`.
    #[serde(rename = "x-original-uri")]
    XOriginalUri,
    /// `X-Forwarded-Uri`, `X-Forwarded-Method` and `X-Forwarded-Host`, which Traefik and Caddy set.
    #[serde(rename = "x-forwarded-uri")]
    XForwardedUri,
}

/// Why the original request is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidOriginal {
    /// The header.
    pub header: HeaderName,
    /// What is wrong with it.
    pub flaw: OriginalFlaw,
}

/// What is wrong with a header of the original request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginalFlaw {
    /// The proxy does not set it.
    Missing,
    /// The proxy adds it to the one that the client sent.
    Repeated,
    /// It is not a valid method, or no path with a query: the client's request was malformed.
    Unreadable,
}

// === impl OriginalSource ===

impl OriginalSource {
    /// Replaces method, target and host of the proxy's request by those of the original one.
    ///
    /// # Errors
    ///
    /// [`InvalidOriginal`] is the first header that does not name them; `request` is unchanged.
    pub fn restore(self, request: &mut Parts) -> Result<(), InvalidOriginal> {
        let (method, uri) = match self {
            Self::XOriginalUri => (X_ORIGINAL_METHOD, X_ORIGINAL_URI),
            Self::XForwardedUri => (X_FORWARDED_METHOD, X_FORWARDED_URI),
        };
        let uri = read(&request.headers, uri, target)?;
        let method = read(&request.headers, method, |value| {
            Method::from_bytes(value.as_bytes()).ok()
        })?;
        (request.uri, request.method) = (uri, method);
        if self == Self::XForwardedUri {
            replace_host(&mut request.headers);
        }
        Ok(())
    }
}

/// Reads a header that must be there once.
fn read<T>(
    headers: &HeaderMap,
    header: HeaderName,
    parse: impl FnOnce(&HeaderValue) -> Option<T>,
) -> Result<T, InvalidOriginal> {
    let mut values = headers.get_all(&header).iter();
    let parsed = match (values.next(), values.next()) {
        (None, _) => Err(OriginalFlaw::Missing),
        (Some(_), Some(_)) => Err(OriginalFlaw::Repeated),
        (Some(value), None) => parse(value).ok_or(OriginalFlaw::Unreadable),
    };
    parsed.map_err(|flaw| InvalidOriginal { header, flaw })
}

/// A path with a query, or the `*` of `OPTIONS`. The host is elsewhere.
fn target(value: &HeaderValue) -> Option<Uri> {
    let bytes = value.as_bytes();
    let is_target = bytes.starts_with(b"/") || bytes == b"*";
    let target = PathAndQuery::try_from(bytes).ok().filter(|_| is_target)?;
    Some(Uri::from(target))
}

/// The proxy's own `Host` may name this service. Without the original one, the host is missing.
fn replace_host(headers: &mut HeaderMap) {
    headers.remove(HOST);
    let original: Vec<HeaderValue> = headers.get_all(X_FORWARDED_HOST).iter().cloned().collect();
    for host in original {
        headers.append(HOST, host);
    }
}

// === impl InvalidOriginal ===

impl std::error::Error for InvalidOriginal {}

impl fmt::Display for InvalidOriginal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = &self.header;
        match self.flaw {
            OriginalFlaw::Missing => write!(
                f,
                "the header {header} is missing; the proxy must set it to the original request's"
            ),
            OriginalFlaw::Repeated => write!(
                f,
                "the header {header} is there more than once; the proxy must overwrite it"
            ),
            OriginalFlaw::Unreadable => write!(f, "the header {header} names no request"),
        }
    }
}

#[cfg(test)]
mod tests;
