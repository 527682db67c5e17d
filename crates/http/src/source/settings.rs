//! `from` in a file of settings.

use http::HeaderName;
use serde::Deserialize;

use crate::setting::InvalidSetting;

/// Where the value of an entry is from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SourceSettings {
    /// The client's address, cut to the prefixes in `client_address`. Never missing: `unix` for a
    /// peer without an address.
    ClientAddress,
    /// The client's address, cut to other prefixes.
    ClientNetwork {
        /// As in `client_address`.
        #[serde(default)]
        ipv4_prefix: Option<u8>,
        /// As in `client_address`.
        #[serde(default)]
        ipv6_prefix: Option<u8>,
    },
    /// The header with this name.
    Header(String),
    /// The cookie with this name, percent-decoded.
    Cookie(String),
    /// The parameter of the query with this name, decoded.
    Query(String),
    /// The method: `GET`, `HEAD`, `POST`, `PUT`, `DELETE`, `CONNECT`, `OPTIONS`, `TRACE` or `PATCH`
    /// in capital letters; `OTHER` for all others, so that clients cannot make up keys.
    Method,
    /// The host that the request is for, without its port, in small letters.
    Host,
    /// The normalised path.
    Path,
    /// The template in `routes` that the path matches.
    Route,
    /// The header `User-Agent`.
    UserAgent,
    /// The value of the first of these patterns that is found in `User-Agent`; an absent header
    /// is matched as an empty one.
    UserAgentMatch(Vec<UserAgentPattern>),
    /// The claim of the request's token with this name: text, a number or a boolean.
    #[cfg(feature = "jwt")]
    Claim(String),
    /// Always this value.
    Constant(String),
}

/// A pattern in `user_agent_match`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserAgentPattern {
    /// A regular expression over bytes.
    pub regex: String,
    /// The value of user agents in which it is found.
    pub value: String,
}

// === impl SourceSettings ===

impl SourceSettings {
    /// Whether a request may lack it.
    pub(crate) const fn may_be_missing(&self) -> bool {
        !matches!(
            self,
            Self::ClientAddress
                | Self::ClientNetwork { .. }
                | Self::Method
                | Self::Path
                | Self::Constant(_)
        )
    }
}

/// A name that is not empty.
pub(super) fn name(at: &str, name: &str) -> Result<String, InvalidSetting> {
    match name.is_empty() {
        true => Err(InvalidSetting::new(at, "an empty name", "write its name")),
        false => Ok(name.to_owned()),
    }
}

/// The name of a header, if it is one.
pub(crate) fn header_name(
    at: &str,
    header: &str,
    instead: &str,
) -> Result<HeaderName, InvalidSetting> {
    HeaderName::try_from(header).map_err(|_| {
        let problem = format!("\"{header}\" is not a valid header name");
        InvalidSetting::new(at, problem, instead)
    })
}

/// The name of a cookie, if any request can have it.
pub(crate) fn cookie_name(at: &str, cookie: &str) -> Result<String, InvalidSetting> {
    let is_separator = |char: char| matches!(char, '=' | ';') || char.is_ascii_control();
    if cookie.contains(is_separator) || cookie.trim() != cookie {
        let problem = format!("\"{cookie}\" is not a valid cookie name");
        return Err(InvalidSetting::new(at, problem, "write one such as sid"));
    }
    name(at, cookie)
}
