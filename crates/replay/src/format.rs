//! The formats of inputs.

use std::num::NonZeroU32;

use tollgate_core::Moment;

use crate::pattern::Pattern;

/// The format of the inputs.
#[derive(Clone, Debug)]
pub enum Format {
    /// An access log in the common or combined format.
    AccessLog {
        /// Whether lines have referer and user agent.
        kind: LogKind,
        /// The domain whose rules apply.
        domain: String,
        /// The patterns, each of which makes a descriptor of a line.
        descriptors: Vec<Pattern>,
    },
    /// A trace: one event per line, in JSON.
    Trace,
    /// Requests per second, one number a line, from which events are generated.
    Counts {
        /// The domain whose rules apply.
        domain: String,
        /// The patterns, each of which makes a descriptor of an event. Its only field is
        /// [`crate::Field::Client`], the generated key: `key-0`, `key-1`, and so on.
        descriptors: Vec<Pattern>,
        /// How many keys there are, at most [`crate::KEYS_MAX`]; each event has one of them at
        /// random, with equal chances, and the same ones in each replay.
        keys: NonZeroU32,
        /// When the first second begins.
        start: Moment,
    },
}

/// What follows the size in a line of an access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// Nothing that is looked at: referer and user agent are empty.
    Common,
    /// Referer and user agent, where they can be read.
    Combined,
}
