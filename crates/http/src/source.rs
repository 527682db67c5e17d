//! Where the value of a descriptor's entry is from.

use std::borrow::Cow;

use http::HeaderName;
use http::header::USER_AGENT;
use regex::bytes::{Regex, RegexBuilder};

use crate::entry_value::EntryValue;
use crate::prefix::Prefix;
use crate::rejection::Flaw;
use crate::setting::{InvalidSetting, InvalidSettings};

mod facts;

mod host;

mod settings;

mod value;

pub(crate) use facts::Facts;
pub use settings::{SourceSettings, UserAgentPattern};
pub(crate) use settings::{cookie_name, header_name};
pub use value::{PAIRS_MAX, VALUE_BYTES_MAX, is_respelled, is_same_to_cgi};
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
        addresses: &Prefix,
        has_routes: bool,
    ) -> Result<Source, InvalidSettings> {
        Ok(match settings {
            SourceSettings::ClientAddress => Source::ClientAddress(addresses.clone()),
            SourceSettings::ClientNetwork {
                ipv4_prefix,
                ipv6_prefix,
            } => {
                let prefix = addresses.with_lengths(*ipv4_prefix, *ipv6_prefix);
                Source::ClientAddress(prefix.map_err(|error| error.below("client_network"))?)
            }
            SourceSettings::Header(header) if header.eq_ignore_ascii_case("host") => {
                let problem = "HTTP/2 has no header host";
                return Err(InvalidSetting::new("header", problem, "write `from: host`").into());
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
                let instead = "write `routes: ['/users/{id}']`, or use `path`";
                return Err(InvalidSetting::new("route", "there are no routes", instead).into());
            }
            SourceSettings::Route => Source::Route,
            SourceSettings::UserAgent => Source::Header(USER_AGENT),
            SourceSettings::UserAgentMatch(patterns) => Source::UserAgent(compile(patterns)?),
            #[cfg(feature = "jwt")]
            SourceSettings::Claim(claim) => Source::Claim(name("claim", claim)?),
            SourceSettings::Constant(value) => Source::Constant(name("constant", value)?),
        })
    }

    /// The value in a request; `None` if it is missing or empty.
    pub(crate) fn read<'a>(&'a self, facts: &Facts<'a>) -> Result<Option<EntryValue<'a>>, Flaw> {
        let head = facts.head;
        let found = match self {
            Self::ClientAddress(prefix) => {
                let key = facts.client().address;
                let key = key.map(|address| EntryValue::network(prefix, address));
                return Ok(Some(key.unwrap_or_else(|| UNIX.as_bytes().into())));
            }
            Self::Method => return Ok(Some(value::method(head.method).into())),
            Self::Path => {
                let path = facts.path().map_err(Flaw::Path)?;
                return Ok(Some(EntryValue::copy_of(path.as_str().as_bytes())));
            }
            Self::Route => {
                let path = facts.path().map_err(Flaw::Path)?;
                let route = facts.routes.find(path);
                return Ok(route.map(|route| route.as_bytes().into()));
            }
            Self::Constant(value) => return Ok(Some(value.as_bytes().into())),
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
        let checked = found.map_or(Ok(None), value::check)?;
        Ok(checked.map(EntryValue::from))
    }
}

/// Compiles patterns, whose number, memory and matching time are bounded.
fn compile(patterns: &[UserAgentPattern]) -> Result<Vec<(Regex, String)>, InvalidSettings> {
    let at = "user_agent_match";
    if !(1..=USER_AGENT_PATTERNS_MAX).contains(&patterns.len()) {
        let problem = format!("{} patterns", patterns.len());
        let instead = format!("write 1 to {USER_AGENT_PATTERNS_MAX}");
        return Err(InvalidSetting::new(at, problem, instead).into());
    }
    let mut errors = InvalidSettings::default();
    let compiled = errors.take_each(at, patterns, |pattern| {
        let mut errors = InvalidSettings::default();
        if pattern.value.trim().is_empty() {
            let instead = "write one such as bot";
            errors.push(InvalidSetting::new("value", "an empty value", instead));
        }
        let regex = RegexBuilder::new(&pattern.regex)
            .unicode(false)
            .size_limit(PATTERN_BYTES_MAX)
            .build();
        let regex = regex.map_err(|error| {
            let instead = "write a regular expression over bytes, such as (?i)bot|crawler";
            InvalidSetting::new("regex", error.to_string(), instead)
        });
        match errors.take(regex) {
            Some(regex) if errors.is_empty() => Ok((regex, pattern.value.clone())),
            _ => Err(errors),
        }
    });
    errors.check()?;
    Ok(compiled)
}

#[cfg(test)]
mod tests;
