//! Error messages on standard error, and how their parts are worded.

use std::error::Error;
use std::fmt::Display;
use std::io::{Write, stderr};

/// Why a command failed.
pub(crate) enum Reason {
    /// One message.
    Message(String),
    /// Diagnostics of rules or settings, each of which begins with its own severity and code.
    Diagnostics(String),
}

/// Prints an error and its causes.
pub(crate) fn print_error_chain(error: &dyn Error) {
    print_error(&with_causes(error));
}

/// Prints an error message.
pub(crate) fn print_error(message: &str) {
    print("error: ", message);
}

/// Prints a warning, a diagnostic or what the command does, which is not part of its output.
pub(crate) fn print_notice(text: impl Display) {
    // As in `print`.
    let _ = writeln!(stderr(), "{text}");
}

fn print(prefix: &str, text: &str) {
    // If standard error cannot be written, there is nowhere else to report it.
    let _ = writeln!(stderr(), "{prefix}{}", text.trim_end());
}

/// An error and its causes, in one line.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut reason = error.source();
    while let Some(of) = reason {
        text.push_str(&format!(": {of}"));
        reason = of.source();
    }
    text
}

/// `1 file`, `2 files`.
pub(crate) fn pluralize(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

// === impl Reason ===

impl Reason {
    /// Prints it as an error.
    pub(crate) fn print(&self) {
        match self {
            Reason::Message(message) => print_error(message),
            Reason::Diagnostics(text) => print("", text),
        }
    }

    /// Its text, without a prefix.
    pub(crate) fn text(&self) -> &str {
        match self {
            Reason::Message(text) | Reason::Diagnostics(text) => text,
        }
    }
}
