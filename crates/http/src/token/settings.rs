//! `token` in a file of settings.

use std::path::PathBuf;

use serde::Deserialize;

/// The section `token`: where a request's token is, and how it is verified.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenSettings {
    /// Where it is. `{ header: authorization }`, behind `Bearer`.
    #[serde(default)]
    pub from: TokenSource,
    /// How it is verified. There is no default.
    pub verify: Verify,
    /// The issuers (`iss`) of which one must have issued it. Empty: any.
    #[serde(default)]
    pub issuers: Vec<String>,
    /// The audiences (`aud`) of which it must be for one. Empty: any.
    #[serde(default)]
    pub audiences: Vec<String>,
    /// By how many seconds clocks may differ, for `exp` and `nbf`. Default: 60.
    #[serde(default = "leeway_secs")]
    pub leeway_secs: u64,
}

/// Where a token is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenSource {
    /// In this header.
    Header(String),
    /// In this cookie.
    Cookie(String),
}

/// How tokens are verified.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verify {
    /// With a key of this file: a JSON Web Key Set (RFC 7517), or one public key in PEM
    /// (RFC 7468). Signature, `exp` and `nbf` are verified; a token without `exp` is not valid.
    KeysFile(PathBuf),
    /// Not at all: clients can claim what they like. Only behind something that verifies.
    Unverified,
}

// === impl TokenSource ===

impl Default for TokenSource {
    fn default() -> TokenSource {
        TokenSource::Header("authorization".to_owned())
    }
}

const fn leeway_secs() -> u64 {
    60
}
