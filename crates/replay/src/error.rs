//! The errors of a replay.

use std::fmt;
use std::io;
use std::num::NonZeroUsize;

use tollgate_core::StoreError;

use crate::foreign::{Foreign, Guess};
use crate::noun::Noun;
use crate::skipped::Skipped;
use crate::traffic::LINES_MAX;
use crate::verdicts::DECISIONS_MAX;

/// Why a replay ended early. Lines that cannot be parsed and requests that are rejected are not
/// errors.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An input cannot be read to its end.
    Read {
        /// Which.
        input: String,
        /// What happened.
        source: io::Error,
    },
    /// An input is an archive, or encoded in an unsupported way.
    Foreign {
        /// Which.
        input: String,
        /// What it is.
        what: Foreign,
    },
    /// No line of any input is an event.
    NoEvents {
        /// The inputs, each with what it seems to be.
        inputs: Vec<(String, Guess)>,
        /// The reasons why their lines are not events.
        skipped: Box<Skipped>,
    },
    /// No event of any input is selected.
    NoneSelected {
        /// How many there are.
        excluded: u64,
    },
    /// The caller stopped the replay.
    Stopped {
        /// Events that were decided until then.
        decided: u64,
    },
    /// The inputs have more than [`LINES_MAX`] lines.
    ManyLines,
    /// The workloads of a simulation have too many events, with their retries.
    ManyEvents {
        /// The most that there may be.
        max: u64,
    },
    /// Events that were decided elsewhere met more limits than can be kept.
    ManyDecisions,
    /// The system does not have the memory for a bounded store.
    LargeStore {
        /// The keys that the store is to have room for.
        max_keys: NonZeroUsize,
        /// The bytes that it would take.
        bytes: usize,
    },
    /// The store gave no answer.
    Store(StoreError),
    /// The decisions cannot be written.
    Write {
        /// Events that were decided until then. The last decisions of them may not be written.
        decided: u64,
        /// What happened.
        source: io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Read { input, .. } => write!(f, "cannot read {input}"),
            Error::ManyLines => write!(f, "more than {LINES_MAX} lines; replay them in parts"),
            Error::ManyDecisions => write!(
                f,
                "more than {DECISIONS_MAX} decisions of limits; shorten the traffic or lower its \
                 rate"
            ),
            Error::ManyEvents { max } => write!(
                f,
                "more than {max} events with their retries; shorten the traffic or lower \
                 its rate"
            ),
            Error::LargeStore { max_keys, bytes } => write!(
                f,
                "--max-keys {max_keys}: the store would take {bytes} bytes, which the system does \
                 not have; set --max-keys to a smaller number, or leave it out for a store that \
                 takes only what its keys need"
            ),
            Error::Store(_) => f.write_str("the store gave no answer"),
            Error::Foreign { input, what } => write!(f, "{input} is {what}"),
            Error::NoEvents { inputs, skipped } => no_events(inputs, skipped, f),
            Error::NoneSelected { excluded } => write!(
                f,
                "none of {excluded} {} is selected by --from, --to and --where",
                Noun(*excluded, "event")
            ),
            Error::Stopped { decided } => {
                write!(f, "stopped after {decided} {}", Noun(*decided, "event"))
            }
            Error::Write { decided, .. } => {
                let events = Noun(*decided, "event");
                write!(f, "cannot write the decisions after {decided} {events}")
            }
        }
    }
}

fn no_events(
    inputs: &[(String, Guess)],
    skipped: &Skipped,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    f.write_str("there is no event to decide")?;
    for (input, guess) in inputs {
        write!(f, "\n  {input}: {}", guess.description())?;
    }
    for (reason, count) in &skipped.reasons {
        write!(f, "\n  {count} {}: {reason}", Noun(*count, "line"))?;
    }
    if let Some(first) = skipped.first.iter().find(|line| !line.excerpt.is_empty()) {
        write!(f, "\n  such as: {}", first.excerpt)?;
    }
    Ok(())
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Read { source, .. } | Error::Write { source, .. } => Some(source),
            Error::Store(source) => Some(source),
            Error::Foreign { .. }
            | Error::NoEvents { .. }
            | Error::NoneSelected { .. }
            | Error::Stopped { .. }
            | Error::ManyEvents { .. }
            | Error::ManyDecisions
            | Error::LargeStore { .. }
            | Error::ManyLines => None,
        }
    }
}
