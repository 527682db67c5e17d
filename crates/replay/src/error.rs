//! What can go wrong in a replay.

use std::fmt;
use std::io;

use tollgate_core::StoreError;

use crate::traffic::LINES_MAX;

/// Why a replay did not come to its end. Lines that cannot be read and requests that are refused
/// are no errors.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An input cannot be read, or not to its end.
    Read {
        /// Which.
        input: String,
        /// What happened.
        source: io::Error,
    },
    /// The inputs have more than [`LINES_MAX`] lines.
    ManyLines,
    /// The store gave no answer.
    Store(StoreError),
    /// The decisions cannot be written.
    Write(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Read { input, .. } => write!(f, "cannot read {input}"),
            Error::ManyLines => write!(f, "more than {LINES_MAX} lines; replay them in parts"),
            Error::Store(_) => f.write_str("the store gave no answer"),
            Error::Write(_) => f.write_str("cannot write the decisions"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Read { source, .. } | Error::Write(source) => Some(source),
            Error::Store(source) => Some(source),
            Error::ManyLines => None,
        }
    }
}
