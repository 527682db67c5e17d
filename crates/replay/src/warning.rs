//! Warnings about a report.

use std::fmt;

use serde_json::{Value, json};

use crate::compression::{Compression, Cut};
use crate::foreign::Guess;
use crate::plain::Plain;

/// A reason why the report may not answer what its reader wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// No line of an input is an event.
    NoEvents {
        /// Which.
        input: String,
        /// What it seems to be.
        guess: Guess,
    },
    /// The compressed data of an input end early; what precedes counts.
    Cut {
        /// Which.
        input: String,
        /// After how many lines, the one included in which they end.
        lines: u32,
        /// Where and why.
        cut: Cut,
    },
    /// Something that is ignored follows the compressed data of an input.
    Trailing {
        /// Which.
        input: String,
        /// How it is compressed.
        compression: Compression,
    },
    /// No rule matched any event, neither one with a limit nor an unlimited one.
    NoRule,
    /// One key has nearly all events of a rule that counts by value.
    OneKey {
        /// Which rule.
        rule: String,
        /// The keys and values of a descriptor that counts under it.
        descriptor: Vec<(String, String)>,
        /// How many events it has.
        events: u64,
        /// How many the rule has.
        of: u64,
    },
    /// Every event of a rule has a key of its own, so nothing can ever be over a limit of 1.
    OwnKeys {
        /// Which rule.
        rule: String,
        /// How many events it has.
        events: u64,
    },
}

// === impl Warning ===

impl Warning {
    /// A short name for this kind of warning, which does not change.
    pub const fn code(&self) -> &'static str {
        match self {
            Warning::NoEvents { .. } => "no-events",
            Warning::Cut { .. } => "cut",
            Warning::Trailing { .. } => "trailing",
            Warning::NoRule => "no-rule",
            Warning::OneKey { .. } => "one-key",
            Warning::OwnKeys { .. } => "own-keys",
        }
    }

    /// The warning as a JSON object.
    pub(crate) fn to_json(&self) -> Value {
        json!({"code": self.code(), "message": self.to_string()})
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::NoEvents { input, guess } => {
                write!(
                    f,
                    "no line of {} is an event: {}",
                    Plain(input),
                    guess.description()
                )
            }
            Warning::Cut { input, lines, cut } => f.write_str(&cut_message(input, *lines, cut)),
            Warning::Trailing { input, compression } => {
                f.write_str(&trailing_message(input, *compression))
            }
            Warning::NoRule => f.write_str(
                "no rule matched any event: compare the domain and the keys of the descriptors \
                 with those of the rules",
            ),
            Warning::OneKey {
                rule,
                descriptor,
                events,
                of,
            } => {
                write!(
                    f,
                    "{events} of {of} events of `{}` have one key (",
                    Plain(rule)
                )?;
                for (index, (key, value)) in descriptor.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { ", " })?;
                    write!(f, "{}={}", Plain(key), Plain(value))?;
                }
                write!(f, "). {ONE_KEY}")
            }
            Warning::OwnKeys { rule, events } => write!(
                f,
                "each of {events} events of `{}` has its own key, so this limit can stop nobody: \
                 does a value change with each request?",
                Plain(rule)
            ),
        }
    }
}

/// What it may mean that one key has nearly all requests. A log does not tell which it is.
pub(crate) const ONE_KEY: &str = "\
    If it is a proxy that stands for many clients, limits by it are of no use: take the client \
    from a header that the proxy is trusted to set. If it is one client that sends most of the \
    traffic, such as a scanner, a limit is right";

/// That the compressed data of an input end early.
pub(crate) fn cut_message(input: &str, lines: u32, cut: &Cut) -> String {
    format!("{} is not complete: {cut}, in line {lines}", Plain(input))
}

/// That something follows the compressed data of an input.
pub(crate) fn trailing_message(input: &str, compression: Compression) -> String {
    format!(
        "{} is read to the end of its {name} data; what follows it is not {name} data and is \
         ignored",
        Plain(input),
        name = compression.name()
    )
}
