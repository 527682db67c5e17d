//! Tokens: the claims of a JSON Web Token (RFC 7519) that a request carries.

use http::HeaderName;
use http::header::AUTHORIZATION;
use jsonwebtoken::dangerous::insecure_decode_claims;
use jsonwebtoken::{Validation, decode, decode_header};
use serde_json::{Map, Value};
use tollgate_files::read_text;

use crate::head::Head;
use crate::rejection::Flaw;
use crate::setting::{InvalidSetting, InvalidSettings};
use crate::source::{cookie, cookie_name, header, header_name};

mod key;

mod keys;

mod settings;

mod spelling;

mod verifier;

pub use settings::{TokenSettings, TokenSource, Verify};

use keys::Keys;
use spelling::{is_misspelled, is_scheme_misspelled, is_signed};

/// The longest token that is read, in bytes.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// The most keys of a file.
pub const KEYS_MAX: usize = 64;
/// The largest file of keys, in bytes.
pub const KEYS_FILE_BYTES_MAX: u64 = 1024 * 1024;
/// The longest `leeway_secs`: an hour.
pub const LEEWAY_SECS_MAX: u64 = 3600;

/// What introduces a token in `Authorization` (RFC 6750).
const SCHEME: &[u8] = b"bearer";

/// The claims of a token.
pub(crate) type Claims = Map<String, Value>;

/// Reads tokens.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    source: Source,
    /// None if tokens are not verified.
    keys: Option<Keys>,
    validation: Validation,
}

#[derive(Clone, Debug)]
enum Source {
    Header(HeaderName),
    Cookie(String),
}

// === impl Token ===

impl Token {
    /// Checks the settings and reads the file of keys.
    pub(crate) fn new(settings: &TokenSettings) -> Result<Token, InvalidSettings> {
        let text = match &settings.verify {
            Verify::Unverified => Ok(None),
            Verify::KeysFile(path) => {
                let text = read_text(path, KEYS_FILE_BYTES_MAX);
                text.map(Some).map_err(|problem| {
                    let problem = format!("{}: {problem}", path.display());
                    let instead =
                        "name a file with a JSON Web Key Set, or with a public key in PEM";
                    InvalidSetting::new("verify.keys_file", problem, instead)
                })
            }
        };
        Token::with_keys(settings, text)
    }

    /// The same with the text of a key set; without one, tokens are not verified.
    fn with_keys(
        settings: &TokenSettings,
        text: Result<Option<String>, InvalidSetting>,
    ) -> Result<Token, InvalidSettings> {
        verifier::install();
        let mut errors = InvalidSettings::default();
        let source = match &settings.from {
            TokenSource::Cookie(name) => cookie_name("from.cookie", name).map(Source::Cookie),
            TokenSource::Header(name) => {
                header_name("from.header", name, "write authorization").map(Source::Header)
            }
        };
        let source = errors.take(source);
        let is_unverified = settings.verify == Verify::Unverified;
        let keys = text.and_then(|text| text.map(|text| Keys::read(&text)).transpose());
        let keys = errors.take(keys);
        for (key, allowed) in [
            ("issuers", &settings.issuers),
            ("audiences", &settings.audiences),
        ] {
            if is_unverified && !allowed.is_empty() {
                let problem = "nothing of an unverified token is checked";
                let instead = "remove it, or write `verify: { keys_file: keys.json }`";
                errors.push(InvalidSetting::new(key, problem, instead));
            }
        }
        let leeway_secs = settings.leeway_secs;
        let checked =
            InvalidSetting::check_at_most("leeway_secs", leeway_secs, "seconds", LEEWAY_SECS_MAX);
        errors.take(checked);
        let mut validation = Validation {
            leeway: settings.leeway_secs,
            validate_nbf: true,
            ..Validation::default()
        };
        let mut required = vec!["exp"];
        if !settings.issuers.is_empty() {
            validation.set_issuer(&settings.issuers);
            required.push("iss");
        }
        validation.validate_aud = !settings.audiences.is_empty();
        if validation.validate_aud {
            validation.set_audience(&settings.audiences);
            required.push("aud");
        }
        validation.set_required_spec_claims(&required);
        match (source, keys) {
            (Some(source), Some(keys)) if errors.is_empty() => Ok(Token {
                source,
                keys,
                validation,
            }),
            _ => Err(errors),
        }
    }

    /// The claims of a request's token; `None` if there is none, or none that is valid. A token in
    /// another spelling is rejected, and so is one that is too long to be read: the upstream may
    /// find claims in it.
    pub(crate) fn claims(&self, head: &Head<'_>) -> Result<Option<Claims>, Flaw> {
        let value = match &self.source {
            Source::Header(name) => header(head.headers, name)?,
            Source::Cookie(name) => cookie(head.headers, name)?,
        };
        let Some(value) = value else {
            return Ok(None);
        };
        let token = match &self.source {
            Source::Header(name) if *name == AUTHORIZATION => bearer(&value)?,
            _ => Some(value.as_ref()),
        };
        if token.is_some_and(is_misspelled) {
            return Err(Flaw::BadToken);
        }
        let is_long = |token: &&[u8]| token.len() > TOKEN_BYTES_MAX;
        if token.filter(is_long).is_some_and(is_signed) {
            return Err(Flaw::TooLong);
        }
        let token = token.filter(|token| !is_long(token));
        Ok(token.and_then(|token| match &self.keys {
            None => insecure_decode_claims(token).ok(),
            Some(keys) => self.verify(token, keys),
        }))
    }

    /// The algorithms are the key's: a token does not choose how it is verified, but only which of
    /// the keys with its id it names.
    fn verify(&self, token: &[u8], keys: &Keys) -> Option<Claims> {
        let header = decode_header(token).ok()?;
        // What a token declares critical must be understood (RFC 7515, section 4.1.11).
        if header.crit.is_some() {
            return None;
        }
        let key = keys.of(header.kid.as_deref(), header.alg)?;
        let mut validation = self.validation.clone();
        validation.algorithms.clone_from(&key.algorithms);
        let data = decode::<Claims>(token, &key.key, &validation).ok()?;
        Some(data.claims)
    }
}

/// A claim as a value: text, a number or a boolean.
pub(crate) fn text(claim: &Value) -> Option<String> {
    match claim {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// What follows the scheme, whose letter case does not matter.
fn bearer(value: &[u8]) -> Result<Option<&[u8]>, Flaw> {
    if is_scheme_misspelled(value) {
        return Err(Flaw::BadToken);
    }
    let token = value
        .split_at_checked(SCHEME.len())
        .filter(|(scheme, rest)| scheme.eq_ignore_ascii_case(SCHEME) && rest.starts_with(b" "))
        .map(|(_, token)| token.trim_ascii());
    Ok(token)
}

#[cfg(test)]
mod tests;
