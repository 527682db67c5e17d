//! What scripts of other origins may read: cross-origin resource sharing.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS,
    ORIGIN, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

use crate::framing::is_host;
use crate::setting::{InvalidSetting, InvalidSettings};

/// The most `allow_origins`.
pub const CORS_ORIGINS_MAX: usize = 256;

const ANY: &str = "*";

/// The section `cors`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CorsSettings {
    /// Whether responses that another origin may read let it read the headers about limits, too.
    /// `true`.
    pub expose_headers: bool,
    /// The origins whose scripts may read denials: `https://app.example`, or `*` for all. An allowed
    /// request's response is the upstream's, which says it itself. Empty.
    pub allow_origins: Vec<String>,
    /// Whether they may when they sent credentials. `false`.
    pub allow_credentials: bool,
}

/// Who may read what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cors {
    exposed: Option<HeaderValue>,
    origins: Vec<HeaderValue>,
    credentials: bool,
}

/// Whether a browser sends this as the origin of a script. It is compared byte for byte, so another
/// spelling of it would never match (RFC 6454, section 6.2). Browsers write the scheme in lower
/// case, and those of the web with the host in lower case and without their default port.
fn is_sent_by_browsers(origin: &str) -> bool {
    let Some((scheme, host)) = origin.split_once("://") else {
        return false;
    };
    let is_of_scheme =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte);
    let default_port = match scheme {
        "http" => Some(":80"),
        "https" => Some(":443"),
        _ => None,
    };
    let is_spelled_so = default_port.is_none_or(|port| {
        !host.ends_with(port) && !host.bytes().any(|byte| byte.is_ascii_uppercase())
    });
    !scheme.is_empty()
        && scheme.bytes().all(is_of_scheme)
        && !host.is_empty()
        && !host.starts_with(':')
        && !host.ends_with(':')
        && !host.contains('*')
        && is_host(host.as_bytes())
        && is_spelled_so
}

// === impl CorsSettings ===

impl Default for CorsSettings {
    fn default() -> CorsSettings {
        CorsSettings {
            expose_headers: true,
            allow_origins: Vec::new(),
            allow_credentials: false,
        }
    }
}

// === impl Cors ===

impl Cors {
    /// Checks the origins, and writes the list of exposed headers once.
    pub(super) fn new(
        settings: &CorsSettings,
        exposed: &[HeaderName],
    ) -> Result<Cors, InvalidSettings> {
        let mut errors = InvalidSettings::default();
        let origins = &settings.allow_origins;
        let has_any = origins.iter().any(|origin| origin == ANY);
        let (at, count) = ("allow_origins", origins.len());
        InvalidSetting::check_at_most(at, count, "origins", CORS_ORIGINS_MAX)?;
        if settings.allow_credentials && has_any {
            errors.push(InvalidSetting::new(
                "allow_credentials",
                "browsers allow no credentials for `*`",
                "name the origins",
            ));
        }
        let origins = errors.take_each(at, origins, |origin| {
            let is_origin = origin == ANY || is_sent_by_browsers(origin);
            let value = HeaderValue::try_from(origin).ok();
            value.filter(|_| is_origin).ok_or_else(|| {
                InvalidSetting::new(
                    "",
                    format!("\"{origin}\" is not an origin that a browser sends"),
                    "write one such as https://app.example: in lower case, without a path and \
                     without the default port of its scheme; or `*` for all",
                )
            })
        });
        errors.check()?;
        let names: Vec<&str> = exposed.iter().map(HeaderName::as_str).collect();
        let list = HeaderValue::try_from(names.join(", "));
        let list = list.expect("names of headers are valid in a header");
        Ok(Cors {
            exposed: settings.expose_headers.then_some(list),
            origins,
            credentials: settings.allow_credentials,
        })
    }

    /// Lets the origin of a request read our response to it.
    pub(super) fn allow(&self, request: &HeaderMap, response: &mut HeaderMap) {
        if self.origins.is_empty() {
            return;
        }
        response.append(VARY, HeaderValue::from(ORIGIN));
        let Some(origin) = request.get(ORIGIN) else {
            return;
        };
        let allowed = self
            .origins
            .iter()
            .find(|other| *other == ANY || *other == origin);
        if let Some(allowed) = allowed {
            response.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed.clone());
            if self.credentials {
                let yes = HeaderValue::from_static("true");
                response.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, yes);
            }
        }
    }

    /// Lets an origin that may read a response read our headers. What the upstream exposes stays
    /// exposed.
    pub(super) fn expose(&self, response: &mut HeaderMap) {
        if let Some(exposed) = &self.exposed
            && response.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN)
        {
            response.append(ACCESS_CONTROL_EXPOSE_HEADERS, exposed.clone());
        }
    }
}
