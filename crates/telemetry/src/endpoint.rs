//! Where a collector receives OTLP over HTTP.

use std::fmt;

use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};

/// The address of a collector: `http://HOST:PORT/PATH`, or `https`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    is_https: bool,
    authority: Authority,
    /// Without a slash at its end.
    path: String,
}

/// What OTLP adds to the URL of a collector.
const SIGNALS: [&str; 3] = ["/v1/traces", "/v1/metrics", "/v1/logs"];

// === impl Endpoint ===

impl Endpoint {
    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// What is wrong with it, as the end of a sentence. It does not repeat the URL.
    pub fn parse(text: &str) -> Result<Endpoint, String> {
        let uri: Uri = text.parse().map_err(|_| "is not a URL".to_owned())?;
        let is_https = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err("does not begin with http:// or https://".to_owned()),
        };
        let authority = uri.authority().ok_or("has no host")?;
        if authority.as_str().contains('@') {
            return Err("has a user or a password; send `headers` instead".to_owned());
        }
        if authority.host().is_empty() {
            return Err("has no host".to_owned());
        }
        if uri.query().is_some() {
            return Err("has a query, which OTLP does not have".to_owned());
        }
        Ok(Endpoint {
            is_https,
            authority: authority.clone(),
            path: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// Reads the URL of a collector, below which each signal has a path.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::parse`], and that it is the whole URL of one signal.
    pub fn parse_collector(text: &str) -> Result<Endpoint, String> {
        let endpoint = Endpoint::parse(text)?;
        let mut signals = SIGNALS.into_iter();
        match signals.find(|signal| endpoint.path.ends_with(signal)) {
            None => Ok(endpoint),
            Some(signal) => Err(format!(
                "has `{signal}` at its end, which is added to it; leave out `{signal}`"
            )),
        }
    }

    /// Where one signal is sent, `v1/traces` or `v1/metrics`, below this address.
    pub(crate) fn below(&self, signal: &str) -> Endpoint {
        let path = format!("{}/{signal}", self.path);
        Endpoint {
            path,
            ..self.clone()
        }
    }

    /// `host:port`, to connect to.
    pub(crate) fn address(&self) -> String {
        let default = if self.is_https { 443 } else { 80 };
        let port = self.authority.port_u16().unwrap_or(default);
        format!("{}:{port}", self.authority.host())
    }

    /// The host, without the brackets of an IPv6 address.
    pub(crate) fn host(&self) -> &str {
        self.authority.host().trim_matches(['[', ']'])
    }

    pub(crate) const fn is_https(&self) -> bool {
        self.is_https
    }

    /// What `Host` says.
    pub(crate) fn authority(&self) -> &str {
        self.authority.as_str()
    }

    /// The target of a request.
    pub(crate) fn target(&self) -> Uri {
        let path = match &*self.path {
            "" => "/",
            path => path,
        };
        let path = PathAndQuery::try_from(path);
        path.map_or_else(|_| Uri::from_static("/"), Uri::from)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_targets() {
        for (url, address, target) in [
            ("http://localhost:4318", "localhost:4318", "/v1/traces"),
            ("http://localhost:4318/", "localhost:4318", "/v1/traces"),
            (
                "https://otel.example/otlp",
                "otel.example:443",
                "/otlp/v1/traces",
            ),
            ("http://[::1]:1/a/b/", "[::1]:1", "/a/b/v1/traces"),
            ("http://collector", "collector:80", "/v1/traces"),
        ] {
            let endpoint = Endpoint::parse(url).expect(url);
            assert_eq!(endpoint.address(), address);
            assert_eq!(endpoint.below("v1/traces").target(), target);
        }
        let alone = Endpoint::parse("http://c:1").expect("a URL");
        assert_eq!(alone.target(), "/");
    }

    #[test]
    fn a_collector_is_no_url_of_one_signal() {
        for url in ["http://c:4318", "http://c/v1", "http://c/v1/traces/otlp"] {
            assert_eq!(Endpoint::parse_collector(url), Endpoint::parse(url));
        }
        for signal in SIGNALS {
            let url = format!("http://c:4318/otlp{signal}/");
            let problem = Endpoint::parse_collector(&url).expect_err(&url);
            assert!(
                problem.ends_with(&format!("leave out `{signal}`")),
                "{problem}"
            );
        }
        assert!(Endpoint::parse_collector("c:1").is_err());
    }

    #[test]
    fn what_is_no_endpoint_is_an_error() {
        for (url, problem) in [
            ("localhost:4318", "does not begin with"),
            ("grpc://localhost:4317", "does not begin with"),
            ("http://", "is not a URL"),
            ("", "is not a URL"),
            ("/v1/traces", "does not begin with"),
            ("http://user:hunter2@host", "has a user or a password"),
            ("http://host/?key=1", "has a query"),
            ("http://:80", "has no host"),
        ] {
            let found = Endpoint::parse(url).expect_err(url);
            assert!(found.contains(problem), "{url}: {found}");
            assert!(!found.contains("hunter2"), "{found}");
        }
    }
}
