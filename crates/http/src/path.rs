//! Paths, normalised: one text for all spellings of a path.

use std::fmt;

use serde::Deserialize;

mod dot_segments;

mod segments;

pub use dot_segments::remove_dot_segments;
use segments::Segments;

/// The longest path that is normalised, in bytes as it was sent.
pub const PATH_BYTES_MAX: usize = 8 * 1024;

/// The section `path`: how paths are normalised before they match routes and make keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathSettings {
    /// Whether `/Login` is `/login`: ASCII letters become small. Default: `false`.
    pub fold_case: bool,
    /// What `%2f` and backslashes are. Default: `decode`.
    pub encoded_slash: EncodedSlash,
    /// What becomes of `;x=1` behind a segment. Default: `strip`.
    pub path_parameters: PathParameters,
    /// What becomes of a slash at the end. Default: `strip`.
    pub trailing_slash: TrailingSlash,
}

/// What an encoded slash (`%2f`) in a path is, and a backslash, encoded (`%5c`) or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EncodedSlash {
    /// A slash. Right for servers that decode a path before they route, as most do.
    #[default]
    Decode,
    /// A character of its segment. Right for servers whose segments contain slashes.
    Keep,
    /// Not allowed.
    Reject,
}

/// What becomes of the parameters of a segment: `;` and what follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathParameters {
    /// They are removed, as servlet containers do.
    #[default]
    Strip,
    /// They are part of the segment.
    Keep,
}

/// What becomes of a slash at the end of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrailingSlash {
    /// It is removed: `/login/` is `/login`.
    #[default]
    Strip,
    /// It stays.
    Keep,
}

/// A path in its normal form: `/` and segments without `.`, `..` and empty ones, in which exactly
/// those bytes are encoded that need to be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NormalPath(String);

/// Why a path has no normal form. Such a request must be denied: whichever form was chosen, the
/// server behind might choose another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidPath {
    /// Longer than [`PATH_BYTES_MAX`].
    TooLong,
    /// A `%` without two hexadecimal digits.
    BadEscape,
    /// A control character, encoded or not: NUL, line feed.
    ControlCharacter,
    /// `%2f` or a backslash, with [`EncodedSlash::Reject`].
    EncodedSlash,
    /// What servers understand in different ways: `..` behind `//`, `%2f` or a backslash, or
    /// written `..;` or `..%20`; `%2f` or a backslash in path parameters that are removed.
    Ambiguous,
}

// === impl PathSettings ===

impl PathSettings {
    /// The normal form of the path of a request, without its query.
    ///
    /// Percent-encoding is decoded once, so `%252e` stays what it is. Normalising a normal form
    /// changes nothing.
    ///
    /// # Errors
    ///
    /// [`InvalidPath`], if it has none.
    pub fn normalize(&self, path: &[u8]) -> Result<NormalPath, InvalidPath> {
        if path.len() > PATH_BYTES_MAX {
            return Err(InvalidPath::TooLong);
        }
        // `OPTIONS *` is about the server.
        if path == b"*" {
            return Ok(NormalPath("*".to_owned()));
        }
        let mut segments = Segments::new(*self);
        let mut bytes = path.strip_prefix(b"/").unwrap_or(path).iter();
        while let Some(&byte) = bytes.next() {
            match byte {
                b'/' => segments.end()?,
                // Not allowed in a URI, and a slash to servers that parse URLs as browsers do.
                b'\\' => segments.push_decoded(byte)?,
                b'%' => segments.push_decoded(decode(bytes.next(), bytes.next())?)?,
                _ => segments.push(byte)?,
            }
        }
        segments.finish().map(NormalPath)
    }
}

/// The byte that two hexadecimal digits stand for.
fn decode(high: Option<&u8>, low: Option<&u8>) -> Result<u8, InvalidPath> {
    let digit = |digit: Option<&u8>| char::from(*digit?).to_digit(16);
    let digits = digit(high).zip(digit(low)).ok_or(InvalidPath::BadEscape)?;
    u8::try_from(digits.0 * 16 + digits.1).map_err(|_| InvalidPath::BadEscape)
}

// === impl NormalPath ===

impl NormalPath {
    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

// === impl InvalidPath ===

impl std::error::Error for InvalidPath {}

impl fmt::Display for InvalidPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "the path is longer than {PATH_BYTES_MAX} bytes"),
            Self::BadEscape => f.write_str("the path has a % without two hexadecimal digits"),
            Self::ControlCharacter => f.write_str("the path has a control character"),
            Self::EncodedSlash => f.write_str("the path has an encoded slash or a backslash"),
            Self::Ambiguous => f.write_str(
                "the path has a .., %2f or \\ that servers understand in different ways",
            ),
        }
    }
}

#[cfg(test)]
mod tests;
