//! Why a text is not a workload.

use std::fmt;

use tollgate_core::ParseSpanError;

use crate::event::EVENTS_MAX;

/// Why a text is not a [`crate::Workload`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidWorkload {
    /// No word at all, or one that is not a kind of traffic.
    Kind {
        /// The word.
        word: String,
        /// The kind that was probably meant, if that is clear.
        meant: Option<&'static str>,
    },
    /// A word that is not a clause.
    Clause {
        /// The word.
        word: String,
        /// The clause that was probably meant, if that is clear.
        meant: Option<&'static str>,
    },
    /// Something is missing, because the text ends or because of another word.
    Missing {
        /// The word before.
        after: String,
        /// What is missing.
        missing: &'static str,
        /// The word in its place.
        found: Option<String>,
    },
    /// A text that is not a rate.
    Rate {
        /// The text.
        text: String,
    },
    /// A text that is not a number from 1 to a bound.
    Number {
        /// The text.
        text: String,
        /// What it counts.
        of: &'static str,
        /// The bound.
        max: u64,
    },
    /// A text that is not a length of time, or none that is possible.
    Span {
        /// The text.
        text: String,
        /// The word before.
        after: String,
        /// Why, if it is not zero.
        why: Option<ParseSpanError>,
    },
    /// A clause that a workload has twice.
    Twice {
        /// The clause.
        clause: &'static str,
    },
    /// `keys` of a kind that has its own keys.
    OwnKeys {
        /// The kind.
        kind: String,
    },
    /// `attempts` without `retry`.
    AttemptsWithoutRetry,
    /// A word after `retry` that is not a way to retry.
    Pause {
        /// The word.
        word: String,
    },
    /// A name of keys that is too long.
    Name {
        /// How many bytes it may have.
        max: usize,
    },
    /// More requests than are simulated.
    ManyEvents {
        /// About how many.
        requests: u128,
    },
}

impl fmt::Display for InvalidWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidWorkload::Kind { word, meant } => {
                write!(f, "`{word}` is not a kind of traffic; ")?;
                suggest(*meant, f)?;
                f.write_str("kinds: constant, poisson, bursts, new-keys, botnet")
            }
            InvalidWorkload::Clause { word, meant } => {
                write!(f, "`{word}` is not expected; ")?;
                suggest(*meant, f)?;
                f.write_str("what may follow: for, from, keys, as, retry, attempts")
            }
            InvalidWorkload::Missing {
                after,
                missing,
                found: None,
            } => write!(f, "the text ends after `{after}`; add {missing}"),
            InvalidWorkload::Missing {
                after,
                missing,
                found: Some(found),
            } => write!(f, "after `{after}` comes {missing}, not `{found}`"),
            InvalidWorkload::Rate { text } => {
                write!(f, "`{text}` is not a rate: write 20/s, 300/m or 5/10s")
            }
            InvalidWorkload::Number { text, of, max } => {
                write!(
                    f,
                    "`{text}` is not a valid number of {of}: write 1 to {max}, in digits"
                )
            }
            InvalidWorkload::Span {
                text,
                after,
                why: Some(why),
            } => write!(f, "`{text}` after `{after}`: {why}"),
            InvalidWorkload::Span { text, after, .. } => {
                write!(f, "`{text}` after `{after}`: it must be longer than zero")
            }
            InvalidWorkload::Twice { clause } => {
                write!(f, "`{clause}` is there twice; leave one out")
            }
            InvalidWorkload::OwnKeys { kind } => {
                write!(f, "`{kind}` has its own keys; leave out `keys`")
            }
            InvalidWorkload::AttemptsWithoutRetry => f.write_str(
                "`attempts` without `retry`: denied clients give up; \
                 add such as `retry backoff 1s`",
            ),
            InvalidWorkload::Pause { word } => write!(
                f,
                "`{word}` after `retry`: write `every 100ms`, `backoff 1s` or `retry-after`"
            ),
            InvalidWorkload::Name { max } => {
                write!(f, "a name after `as` has more than {max} bytes")
            }
            InvalidWorkload::ManyEvents { requests } => write!(
                f,
                "{requests} requests; {EVENTS_MAX} is the most. Shorten it with `for`, or lower \
                 its rate"
            ),
        }
    }
}

fn suggest(meant: Option<&str>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match meant {
        Some(meant) => write!(f, "did you mean `{meant}`? "),
        None => Ok(()),
    }
}

impl std::error::Error for InvalidWorkload {}
