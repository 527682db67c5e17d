//! The bearer tokens of the admin listener, read again when their file changes.
//!
//! Only authentication codes of the tokens are kept, under a key of this process. Comparing these
//! codes takes the same time whatever the tokens are, and no dump of them shows a token.

use std::fmt;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};

use http::HeaderMap;
use http::header::AUTHORIZATION;
use ring::hmac::{HMAC_SHA256, Key, Tag, sign, verify};
use ring::rand::SystemRandom;
use tollgate_engine::Why;
use tracing::{error, info};

/// The most tokens: some of people and programs, each with the next one for rotation.
pub(crate) const TOKENS_MAX: usize = 64;
/// The shortest token. Shorter ones can be guessed.
pub(crate) const TOKEN_BYTES_MIN: usize = 16;
/// The longest token.
pub(crate) const TOKEN_BYTES_MAX: usize = 512;
/// The largest file of tokens.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// The scheme of the header, in lower case.
const SCHEME: &[u8] = b"bearer ";

const HELP_FILE: &str = "name a file that only this user may read, with one token a line, such \
    as `openssl rand -base64 32` makes";
const HELP_ENV: &str = "name an environment variable that holds the tokens, such as \
    TOLLGATE_ADMIN_TOKEN, and set it";

/// Where the tokens are, one of which the admin listener demands; it demands none without either.
///
/// The settings never contain a token itself, since they are shared more widely than a token may
/// be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenSources {
    /// `admin.token_file`: a file with one token a line, read again when it changes.
    pub file: Option<PathBuf>,
    /// `admin.token_env`: an environment variable with tokens, separated by white space.
    pub env: Option<String>,
}

/// The tokens that the admin listener accepts.
pub(crate) struct AdminTokens {
    sources: TokenSources,
    key: Key,
    /// Of the file and of the environment.
    tags: RwLock<Vec<Tag>>,
    /// What is wrong with the file now, if it is not in effect.
    invalid: RwLock<Option<String>>,
}

/// Why tokens cannot be used. Neither text repeats what may be a token.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidTokens {
    /// The setting.
    pub(crate) key: &'static str,
    pub(crate) problem: String,
    pub(crate) help: &'static str,
}

/// Why a request is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unauthorized {
    /// It has no bearer token, or more than one header with credentials.
    Missing,
    /// Its token is none of ours.
    Wrong,
}

// === impl TokenSources ===

impl TokenSources {
    /// The tokens of the file and of the environment: at least one of each that is named.
    ///
    /// # Errors
    ///
    /// [`InvalidTokens`] is the first source whose tokens cannot be used.
    pub fn read(&self) -> Result<Vec<String>, InvalidTokens> {
        let mut tokens = Vec::new();
        if let Some(path) = &self.file {
            let invalid = |problem: String| InvalidTokens {
                key: "token_file",
                problem: format!("the file with the tokens {problem}"),
                help: HELP_FILE,
            };
            let text = tollgate_files::read_text(path, FILE_BYTES_MAX)
                .map_err(|error| invalid(format!("cannot be read: {error}")))?;
            let lines = text.lines().enumerate();
            let lines = lines.map(|(index, line)| (format!("in line {}", index + 1), line.trim()));
            let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
            let before = tokens.len();
            add(&mut tokens, lines).map_err(invalid)?;
            if tokens.len() == before {
                return Err(invalid("has none".to_owned()));
            }
        }
        if let Some(name) = &self.env {
            let invalid = |problem: String| InvalidTokens {
                key: "token_env",
                problem: format!("the environment variable with the tokens {problem}"),
                help: HELP_ENV,
            };
            let text = std::env::var(name).map_err(|error| match error {
                std::env::VarError::NotPresent => invalid("is not set".to_owned()),
                std::env::VarError::NotUnicode(_) => invalid("is not UTF-8".to_owned()),
            })?;
            let words = text.split_whitespace().enumerate();
            let words = words.map(|(index, word)| (format!("at place {}", index + 1), word));
            let before = tokens.len();
            add(&mut tokens, words).map_err(invalid)?;
            if tokens.len() == before {
                return Err(invalid("has none".to_owned()));
            }
        }
        Ok(tokens)
    }
}

// === impl InvalidTokens ===

impl fmt::Display for InvalidTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.problem, self.help)
    }
}

impl std::error::Error for InvalidTokens {}

// === impl AdminTokens ===

impl AdminTokens {
    /// Reads the tokens; `None` if no source is named.
    ///
    /// # Errors
    ///
    /// [`InvalidTokens`] is the first setting whose tokens cannot be used.
    pub(crate) fn load(sources: &TokenSources) -> Result<Option<AdminTokens>, InvalidTokens> {
        if *sources == TokenSources::default() {
            return Ok(None);
        }
        let tokens = sources.read()?;
        let key = Key::generate(HMAC_SHA256, &SystemRandom::new());
        let key = key.map_err(|_| InvalidTokens {
            key: "token_file",
            problem: "the system has no random numbers, which comparing tokens needs".to_owned(),
            help: "check /dev/urandom",
        })?;
        Ok(Some(AdminTokens {
            sources: sources.clone(),
            tags: RwLock::new(tags(&key, &tokens)),
            key,
            invalid: RwLock::new(None),
        }))
    }

    /// Whether a request with these headers has one of the tokens.
    ///
    /// # Errors
    ///
    /// [`Unauthorized`] if it has not.
    pub(crate) fn authorize(&self, headers: &HeaderMap) -> Result<(), Unauthorized> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return Err(Unauthorized::Missing);
        };
        let token = bearer(value.as_bytes()).ok_or(Unauthorized::Missing)?;
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Unauthorized::Wrong);
        }
        let tags = self.tags.read().unwrap_or_else(PoisonError::into_inner);
        // Each is compared, whichever matches.
        let matching = tags
            .iter()
            .filter(|tag| verify(&self.key, token, tag.as_ref()).is_ok());
        match matching.count() {
            0 => Err(Unauthorized::Wrong),
            _ => Ok(()),
        }
    }

    /// The file of tokens.
    pub(crate) fn path(&self) -> Option<&PathBuf> {
        self.sources.file.as_ref()
    }

    /// Reads the tokens again. If they cannot be used, the previous ones stay in effect. Logs what
    /// is new, or what is wrong if an operator asked for it.
    pub(crate) fn reload(&self, why: Why) {
        let mut invalid = self.invalid.write().unwrap_or_else(PoisonError::into_inner);
        match self.sources.read() {
            Ok(tokens) => {
                let next = tags(&self.key, &tokens);
                let mut tags = self.tags.write().unwrap_or_else(PoisonError::into_inner);
                let same = tags
                    .iter()
                    .map(Tag::as_ref)
                    .eq(next.iter().map(Tag::as_ref));
                if invalid.take().is_some() || !same {
                    info!(
                        tokens = next.len(),
                        "the admin listener's tokens are in effect"
                    );
                }
                *tags = next;
            }
            Err(InvalidTokens { key, problem, .. }) => {
                if why == Why::Noticed && invalid.as_ref() == Some(&problem) {
                    return;
                }
                let setting = format!("admin.{key}");
                error!(
                    setting,
                    problem, "the previous tokens of the admin listener stay in effect"
                );
                *invalid = Some(problem);
            }
        }
    }
}

impl fmt::Debug for AdminTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminTokens").finish_non_exhaustive()
    }
}

/// The token in a header's value, whose scheme is read in any letter case.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    scheme
        .eq_ignore_ascii_case(SCHEME)
        .then(|| token.trim_ascii())
}

fn tags(key: &Key, tokens: &[String]) -> Vec<Tag> {
    let tags = tokens.iter().map(|token| sign(key, token.as_bytes()));
    tags.collect()
}

/// Adds tokens, each with its place for an error.
fn add<'t>(
    tokens: &mut Vec<String>,
    found: impl Iterator<Item = (String, &'t str)>,
) -> Result<(), String> {
    for (place, token) in found {
        let bytes = token.len();
        if !(TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&bytes) {
            return Err(format!(
                "has one of {bytes} bytes {place}; a token has {TOKEN_BYTES_MIN} to \
                 {TOKEN_BYTES_MAX}"
            ));
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        if !token.bytes().all(is_plain) {
            return Err(format!(
                "has one {place} with other characters than letters, digits and -._~+/="
            ));
        }
        if tokens.len() == TOKENS_MAX {
            return Err(format!("has more than {TOKENS_MAX} tokens"));
        }
        tokens.push(token.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
