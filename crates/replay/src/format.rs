//! The formats of inputs.

use std::num::NonZeroU32;

use tollgate_core::Moment;

use crate::field::Field;
use crate::layout::Layout;
use crate::pattern::Pattern;

/// The format of the inputs.
#[derive(Clone, Debug)]
pub enum Format {
    /// An access log.
    AccessLog {
        /// Where the values of its lines are.
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

/// Where the values of an access log's lines are.
#[derive(Clone, Debug)]
pub enum LogKind {
    /// As in the common format; what follows the size is not looked at, so that referer and user
    /// agent are empty.
    Common,
    /// As in the common format, with referer and user agent, where they can be read.
    Combined,
    /// In another way.
    Layout(Layout),
}

// === impl Format ===

impl Format {
    /// The fields that the lines of an access log must have for its descriptors.
    pub(crate) fn required_fields(&self) -> impl Iterator<Item = Field> {
        let descriptors = match self {
            Format::AccessLog { descriptors, .. } => descriptors.as_slice(),
            Format::Trace | Format::Counts { .. } => &[],
        };
        descriptors.iter().flat_map(Pattern::required_fields)
    }

    /// Why the lines of an access log do not have a field.
    pub(crate) fn lacks(&self, field: Field) -> Option<String> {
        match self {
            Format::AccessLog {
                kind: LogKind::Layout(layout),
                ..
            } => layout.lacks(field),
            Format::AccessLog { .. } if matches!(field, Field::Host | Field::ForwardedFor) => {
                let name = field.name();
                Some(format!(
                    "the common and the combined format have no `{name}`; use --log-format"
                ))
            }
            _ => None,
        }
    }
}
