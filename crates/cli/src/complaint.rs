//! What went wrong, said on standard error.

use std::error::Error;
use std::fmt::Display;
use std::io::{Write, stderr};

/// Writes an error and everything that led to it.
pub(crate) fn complain(error: &dyn Error) {
    complain_of(&with_reasons(error));
}

/// Writes what is wrong.
pub(crate) fn complain_of(text: &str) {
    // There is nowhere else to complain to.
    let _ = writeln!(stderr(), "error: {}", text.trim_end());
}

/// An error and everything that led to it, in one line.
pub(crate) fn with_reasons(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut reason = error.source();
    while let Some(of) = reason {
        text.push_str(&format!(": {of}"));
        reason = of.source();
    }
    text
}

/// `1 file`, `2 files`.
pub(crate) fn counted(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {noun}{plural}")
}
