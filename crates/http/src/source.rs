//! Where the value of a descriptor's entry is from.

use std::borrow::Cow;

use http::HeaderName;
use http::header::USER_AGENT;
use regex::bytes::{Regex, RegexBuilder};

use crate::client_address::ClientAddress;
use crate::prefix::Prefix;
use crate::rejection::Flaw;
use crate::setting::InvalidSetting;

mod facts;

mod host;

mod settings;

mod value;

pub(crate) use facts::Facts;
pub use settings::{SourceSettings, UserAgentPattern};
pub(crate) use settings::{cookie_name, header_name};
pub use value::{PAIRS_MAX, VALUE_BYTES_MAX};
pub(crate) use value::{cookie, fold_case, header};

use settings::name;

/// The most patterns for a user agent.
pub const USER_AGENT_PATTERNS_MAX: usize = 64;
/// The most memory of a compiled pattern, in bytes. A pattern is matched in linear time.
pub const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// What the value of a client is that has no address: a peer of a Unix socket.
const UNIX: &str = "unix";

/// Where a value is from, ready to be read.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    ClientAddress(Prefix),
    Header(HeaderName),
    Cookie(String),
    Query(String),
    Method,
    Host,
    Path,
    Route,
    UserAgent(Vec<(Regex, String)>),
    #[cfg(feature = "jwt")]
    Claim(String),
    Constant(String),
}

// === impl Source ===

impl Source {
    /// Checks the names and patterns.
    pub(crate) fn new(
        settings: &SourceSettings,
        addresses: &ClientAddress,
        has_routes: bool,
    ) -> Result<Source, InvalidSetting> {
        Ok(match settings {
            SourceSettings::ClientAddress => Source::ClientAddress(addresses.prefix().clone()),
            SourceSettings::ClientNetwork {
                ipv4_prefix,
                ipv6_prefix,
            } => {
                let prefix = addresses.prefix().with_lengths(*ipv4_prefix, *ipv6_prefix);
                Source::ClientAddress(prefix.map_err(|error| error.below("client_network"))?)
            }
            SourceSettings::Header(header) if header.eq_ignore_ascii_case("host") => {
                let problem = "HTTP/2 has no header host";
                return Err(InvalidSetting::new("header", problem, "write `from: host`"));
            }
            SourceSettings::Header(header) => {
                let instead = "write one such as x-api-key";
                Source::Header(header_name("header", header, instead)?)
            }
            SourceSettings::Cookie(cookie) => Source::Cookie(cookie_name("cookie", cookie)?),
            SourceSettings::Query(query) => Source::Query(name("query", query)?),
            SourceSettings::Method => Source::Method,
            SourceSettings::Host => Source::Host,
            SourceSettings::Path => Source::Path,
            SourceSettings::Route if !has_routes => {
                return Err(InvalidSetting::new(
                    "route",
                    "there are no routes",
                    "write `routes: [/users/{id}]`, or use `path`",
                ));
            }
            SourceSettings::Route => Source::Route,
            SourceSettings::UserAgent => Source::Header(USER_AGENT),
            SourceSettings::UserAgentMatch(patterns) => Source::UserAgent(compile(patterns)?),
            #[cfg(feature = "jwt")]
            SourceSettings::Claim(claim) => Source::Claim(name("claim", claim)?),
            SourceSettings::Constant(value) => Source::Constant(name("constant", value)?),
        })
    }

    /// Whether a request may lack it.
    pub(crate) const fn may_be_missing(&self) -> bool {
        !matches!(
            self,
            Self::ClientAddress(_) | Self::Method | Self::Path | Self::Constant(_)
        )
    }

    /// The value in a request; `None` if it is missing or empty.
    pub(crate) fn read<'a>(&'a self, facts: &Facts<'a>) -> Result<Option<Cow<'a, [u8]>>, Flaw> {
        let head = facts.head;
        let found = match self {
            Self::ClientAddress(prefix) => {
                let key = facts.client().address.map(|address| prefix.key(address));
                return Ok(Some(match key {
                    Some(key) => Cow::Owned(key.into_bytes()),
                    None => Cow::Borrowed(UNIX.as_bytes()),
                }));
            }
            Self::Method => return Ok(Some(Cow::Borrowed(value::method(head.method)))),
            Self::Path => {
                let path = facts.path().map_err(Flaw::Path)?;
                return Ok(Some(Cow::Owned(path.as_str().as_bytes().to_vec())));
            }
            Self::Route => {
                let path = facts.path().map_err(Flaw::Path)?;
                let route = facts.routes.find(path);
                return Ok(route.map(|route| Cow::Borrowed(route.as_bytes())));
            }
            Self::Constant(value) => return Ok(Some(Cow::Borrowed(value.as_bytes()))),
            Self::Header(name) => header(head.headers, name)?,
            Self::Cookie(name) => cookie(head.headers, name)?,
            Self::Query(name) => value::query(head.uri, name)?,
            #[cfg(feature = "jwt")]
            Self::Claim(name) => facts.claim(name)?,
            Self::Host => host::read(&head)?,
            Self::UserAgent(patterns) => {
                let agent = header(head.headers, &USER_AGENT)?.unwrap_or_default();
                if agent.len() > VALUE_BYTES_MAX {
                    return Err(Flaw::TooLong);
                }
                let class = patterns
                    .iter()
                    .find(|(pattern, _)| pattern.is_match(&agent));
                class.map(|(_, class)| Cow::Borrowed(class.as_bytes()))
            }
        };
        found.map_or(Ok(None), value::check)
    }
}

/// Compiles patterns, whose number, memory and matching time are bounded.
fn compile(patterns: &[UserAgentPattern]) -> Result<Vec<(Regex, String)>, InvalidSetting> {
    if !(1..=USER_AGENT_PATTERNS_MAX).contains(&patterns.len()) {
        return Err(InvalidSetting::new(
            "user_agent_match",
            format!("{} patterns", patterns.len()),
            format!("write 1 to {USER_AGENT_PATTERNS_MAX}"),
        ));
    }
    let compiled = patterns.iter().enumerate().map(|(index, pattern)| {
        if pattern.value.trim().is_empty() {
            let at = format!("user_agent_match[{index}].value");
            let instead = "write one such as bot";
            return Err(InvalidSetting::new(at, "an empty value", instead));
        }
        let regex = RegexBuilder::new(&pattern.regex)
            .unicode(false)
            .size_limit(PATTERN_BYTES_MAX)
            .build();
        let regex = regex.map_err(|error| {
            InvalidSetting::new(
                format!("user_agent_match[{index}].regex"),
                error.to_string(),
                "write a regular expression over bytes, such as (?i)bot|crawler",
            )
        });
        Ok((regex?, pattern.value.clone()))
    });
    compiled.collect()
}

#[cfg(test)]
mod tests;
