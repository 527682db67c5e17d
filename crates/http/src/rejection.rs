//! Requests that are denied before any limit is asked.

use std::fmt;

use http::StatusCode;

use crate::path::InvalidPath;
use crate::problem::Problem;

/// Why a request cannot be described. It must be denied: a request without its key would have no
/// limit, or a server might find another value in it than we did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The key of the descriptor's entry.
    pub key: String,
    /// What is wrong with its value.
    pub flaw: Flaw,
}

/// What is wrong with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flaw {
    /// There is none, and `if_missing` is `deny`.
    Missing,
    /// It was sent more than once, with different values.
    Repeated,
    /// Servers may find it elsewhere, or find another: a header has its name with `_` or another
    /// character for `-`, or the reverse, which is the same to those of CGI; a parameter or cookie
    /// has another name that is the same to PHP; or some servers separate it where others do not,
    /// parameters by `;`, and cookies by white space or a comma.
    Respelled,
    /// It is a cookie in quotes with a backslash, which servers read in different ways.
    Escaped,
    /// It has a control character.
    ControlCharacter,
    /// It is longer than [`crate::VALUE_BYTES_MAX`], or than a token may be.
    TooLong,
    /// It is one of more parameters or cookies than [`crate::PAIRS_MAX`].
    ManyPairs,
    /// It is a token in another spelling than that of RFC 7515, or after another one of `Bearer`
    /// and a space, as some servers read it.
    BadToken,
    /// It is not a host.
    BadHost,
    /// The path has no normal form.
    Path(InvalidPath),
}

// === impl Rejection ===

impl Rejection {
    /// 403 for a missing value, 400 for one that cannot be used.
    pub const fn status(&self) -> StatusCode {
        match self.flaw {
            Flaw::Missing => StatusCode::FORBIDDEN,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// The problem document. It has nothing that the client sent.
    pub fn problem(&self) -> Problem {
        Problem::new(self.status(), self.to_string())
    }
}

impl std::error::Error for Rejection {}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the request cannot be limited by {}: {}",
            self.key, self.flaw
        )
    }
}

// === impl Flaw ===

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the request does not have it"),
            Self::Repeated => f.write_str("the request has it more than once, with other values"),
            Self::Respelled => f.write_str(
                "the request has it under another name, or with another separator, that is the \
                 same to some servers, such as `_` for `-`, or `;` for `&`",
            ),
            Self::Escaped => f.write_str("it has a backslash in quotes"),
            Self::ControlCharacter => f.write_str("it has a control character"),
            Self::TooLong => write!(f, "it has more than {} bytes", crate::VALUE_BYTES_MAX),
            Self::ManyPairs => write!(f, "the request has more than {} pairs", crate::PAIRS_MAX),
            Self::BadToken => f.write_str("its token is not spelled as RFC 6750 and RFC 7515 say"),
            Self::BadHost => f.write_str("it is not a valid host"),
            Self::Path(invalid) => write!(f, "{invalid}"),
        }
    }
}
