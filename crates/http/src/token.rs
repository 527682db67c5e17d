//! Tokens: the claims of a JSON Web Token (RFC 7519) that a request carries.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use http::HeaderName;
use http::header::AUTHORIZATION;
use jsonwebtoken::dangerous::insecure_decode_claims;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Validation, decode, decode_header};
use serde_json::{Map, Value};

use crate::head::Head;
use crate::rejection::Flaw;
use crate::setting::{InvalidSetting, InvalidSettings};
use crate::source::{cookie, cookie_name, header, header_name};

mod key;

mod settings;

mod verifier;

pub use settings::{TokenSettings, TokenSource, Verify};

use key::Key;

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
    /// Empty if tokens are not verified.
    keys: Vec<Key>,
    is_unverified: bool,
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
            Verify::KeysFile(path) => read(path).map(Some).map_err(|problem| {
                let problem = format!("{}: {problem}", path.display());
                let instead = "name a file with a JSON Web Key Set";
                InvalidSetting::new("verify.keys_file", problem, instead)
            }),
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
        let keys = text.and_then(|text| text.map_or(Ok(Vec::new()), |text| keys(&text)));
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
                is_unverified,
                validation,
            }),
            _ => Err(errors),
        }
    }

    /// The claims of a request's token; `None` if there is none, or none that is valid.
    pub(crate) fn claims(&self, head: &Head<'_>) -> Result<Option<Claims>, Flaw> {
        let value = match &self.source {
            Source::Header(name) => header(head.headers, name)?,
            Source::Cookie(name) => cookie(head.headers, name)?,
        };
        let Some(value) = value else {
            return Ok(None);
        };
        let token = match &self.source {
            Source::Header(name) if *name == AUTHORIZATION => bearer(&value),
            _ => Some(value.as_ref()),
        };
        let token = token.filter(|token| token.len() <= TOKEN_BYTES_MAX);
        Ok(token.and_then(|token| match self.is_unverified {
            true => insecure_decode_claims(token).ok(),
            false => self.verify(token),
        }))
    }

    /// The key is the one that the token names; a token that names none is of the only key. Its
    /// algorithms are the key's: a token does not choose how it is verified.
    fn verify(&self, token: &[u8]) -> Option<Claims> {
        let header = decode_header(token).ok()?;
        // What a token declares critical must be understood (RFC 7515, section 4.1.11).
        if header.crit.is_some() {
            return None;
        }
        let key = match (&header.kid, self.keys.as_slice()) {
            (Some(id), keys) => keys.iter().find(|key| key.id.as_ref() == Some(id))?,
            (None, [key]) => key,
            (None, _) => return None,
        };
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
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    let is_bearer = scheme.eq_ignore_ascii_case(SCHEME) && token.starts_with(b" ");
    is_bearer.then(|| token.trim_ascii())
}

fn read(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut text = String::new();
    let read = file.take(KEYS_FILE_BYTES_MAX + 1).read_to_string(&mut text);
    read.map_err(|error| error.to_string())?;
    match u64::try_from(text.len()) {
        Ok(0..=KEYS_FILE_BYTES_MAX) => Ok(text),
        _ => Err(format!("more than {KEYS_FILE_BYTES_MAX} bytes")),
    }
}

/// The keys of a set that may verify signatures.
fn keys(text: &str) -> Result<Vec<Key>, InvalidSetting> {
    let wrong = |problem: String, instead: &str| {
        Err(InvalidSetting::new("verify.keys_file", problem, instead))
    };
    let set: JwkSet = match serde_json::from_str(text) {
        Ok(set) => set,
        Err(error) => {
            // Not the error's text: it can quote the file, which has secrets.
            let (line, column) = (error.line(), error.column());
            let problem = format!("no JSON Web Key Set (line {line}, column {column})");
            return wrong(problem, "write {\"keys\": [...]}");
        }
    };
    InvalidSetting::check_at_most("verify.keys_file", set.keys.len(), "keys", KEYS_MAX)?;
    let keys: Vec<Key> = set.keys.iter().filter_map(Key::new).collect();
    if let Some(weakness) = keys.iter().find_map(Key::weakness) {
        return wrong(weakness.to_owned(), "make a longer one");
    }
    match keys.is_empty() {
        true => wrong(
            "there is no key that verifies signatures".to_owned(),
            "add an RSA, P-256, P-384, Ed25519 or octet key",
        ),
        false => Ok(keys),
    }
}

#[cfg(test)]
mod tests;
