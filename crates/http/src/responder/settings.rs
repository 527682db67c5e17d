//! `responses` in a file of settings.

use serde::Deserialize;

use super::CorsSettings;
use crate::dialect::Dialect;

/// The section `responses`: what clients see of their limits.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResponseSettings {
    /// The status of a denial. 429.
    pub status: u16,
    /// The headers that name limits, besides `Retry-After`. `[ratelimit]`.
    pub headers: Vec<Dialect>,
    /// On which responses. `always`.
    pub headers_on: HeadersOn,
    /// Bodies of denials, for clients that prefer other media types than
    /// `application/problem+json`. Empty.
    pub bodies: Vec<BodySettings>,
    /// What scripts of other origins may read.
    pub cors: CorsSettings,
}

/// Which responses have headers that name limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadersOn {
    /// All.
    #[default]
    Always,
    /// Denials.
    Denied,
}

/// A body of denials.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BodySettings {
    /// Its media type: `text/html; charset=utf-8`.
    pub media_type: String,
    /// Its text. `{retry_after}` is replaced by the seconds of `Retry-After`, `{status}` by the
    /// status. A denial that has no retry time uses no text with `{retry_after}`.
    pub text: String,
}

// === impl ResponseSettings ===

impl Default for ResponseSettings {
    fn default() -> ResponseSettings {
        ResponseSettings {
            status: 429,
            headers: vec![Dialect::Ratelimit],
            headers_on: HeadersOn::Always,
            bodies: Vec::new(),
            cors: CorsSettings::default(),
        }
    }
}
