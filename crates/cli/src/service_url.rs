//! The address of a listener of a running service.

use std::fmt::{self, Display};
use std::str::FromStr;

use http::uri::{Authority, Scheme};
use http::{HeaderValue, Uri};
use rustls::pki_types::ServerName;

/// `http://HOST:PORT` or `https://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceUrl {
    is_encrypted: bool,
    authority: Authority,
    port: u16,
    server_name: ServerName<'static>,
}

/// Why a text is not a [`ServiceUrl`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidUrl(&'static str);

// === impl ServiceUrl ===

impl ServiceUrl {
    /// Whether it has `https`.
    pub(crate) const fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// The host, without the brackets of an IPv6 address, and the port.
    pub(crate) fn address(&self) -> (&str, u16) {
        (host(&self.authority), self.port)
    }

    /// The name in the certificate.
    pub(crate) fn server_name(&self) -> ServerName<'static> {
        self.server_name.clone()
    }

    /// The value of the header `Host`.
    pub(crate) fn authority(&self) -> HeaderValue {
        HeaderValue::from_str(self.authority.as_str()).expect("an authority is plain")
    }
}

impl FromStr for ServiceUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<ServiceUrl, InvalidUrl> {
        let uri = Uri::from_str(text).map_err(|_| InvalidUrl("this is not a valid URL"))?;
        let is_encrypted = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(InvalidUrl("it begins with neither http:// nor https://")),
        };
        if uri.path() != "/" || uri.query().is_some() {
            return Err(InvalidUrl("it has a path; the command adds its own"));
        }
        let no_host = InvalidUrl("it has no valid host");
        let authority = uri.authority().cloned().ok_or(no_host)?;
        if authority.as_str().contains('@') {
            return Err(InvalidUrl("it has a user; a token is sent in a header"));
        }
        let server_name = ServerName::try_from(host(&authority).to_owned());
        let default = if is_encrypted { 443 } else { 80 };
        Ok(ServiceUrl {
            is_encrypted,
            port: read_port(&authority)?.unwrap_or(default),
            server_name: server_name.map_err(|_| InvalidUrl("it has no valid host"))?,
            authority,
        })
    }
}

impl Display for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority)
    }
}

fn host(authority: &Authority) -> &str {
    authority.host().trim_matches(['[', ']'])
}

/// The port after the host, if there is one. `Authority::port_u16` has none for a port that is not
/// valid either, and the default port may be that of another service, which would get the token.
fn read_port(authority: &Authority) -> Result<Option<u16>, InvalidUrl> {
    let after_host = authority.as_str().strip_prefix(authority.host());
    let Some(text) = after_host.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let digits = text.strip_prefix(':');
    let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let port = digits.and_then(|digits| digits.parse().ok());
    match port.filter(|port| *port > 0) {
        Some(port) => Ok(Some(port)),
        None => Err(InvalidUrl("its port is not a number from 1 to 65535")),
    }
}

// === impl InvalidUrl ===

impl std::error::Error for InvalidUrl {}

impl Display for InvalidUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problem = self.0;
        write!(f, "{problem}; write http://HOST:PORT or https://HOST:PORT")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        let table = [
            ("http://127.0.0.1:6070", "127.0.0.1", 6070, false),
            ("http://localhost", "localhost", 80, false),
            ("https://tollgate.example/", "tollgate.example", 443, true),
            ("http://[::1]:7", "::1", 7, false),
            ("https://[::1]", "::1", 443, true),
            ("http://host:65535", "host", 65535, false),
        ];
        for (text, host, port, is_encrypted) in table {
            let url: ServiceUrl = text.parse().unwrap();
            assert_eq!(url.address(), (host, port), "{text}");
            assert_eq!(url.is_encrypted(), is_encrypted, "{text}");
            assert_eq!(url.to_string(), text.trim_end_matches('/'));
        }
    }

    #[test]
    fn everything_else_is_an_error_that_says_what_to_write() {
        let table = [
            ("", "this is not a valid URL"),
            ("localhost:6070", "neither http:// nor https://"),
            ("ftp://host", "neither http:// nor https://"),
            ("http://host/v1", "has a path"),
            ("http://host/?a", "has a path"),
            ("http://user:secret@host", "has a user"),
            ("http://:80", "host"),
            (
                "http://127.0.0.1:260393",
                "its port is not a number from 1 to 65535",
            ),
            ("http://127.0.0.1:65536", "its port"),
            ("https://host:abc", "its port"),
            ("http://host:", "its port"),
            ("http://host:0", "its port"),
            ("http://host:+80", "its port"),
            ("http://[::1]:65536", "its port"),
            ("http://[::1]80", "its port"),
        ];
        for (text, expected) in table {
            let error = text.parse::<ServiceUrl>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains("secret"));
        }
    }
}
