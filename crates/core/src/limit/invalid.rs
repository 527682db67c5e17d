//! Why a limit is invalid.

use std::fmt;

use super::{INTERVAL_MIN, SEGMENTS_MAX};
use crate::span::Span;

/// Why a limit is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidLimit {
    /// The window is zero or longer than [`crate::WINDOW_MAX`].
    Window(Span),
    /// A bucket would refill more than one unit in [`INTERVAL_MIN`].
    TooFast {
        /// Units per window, as asked.
        count: u32,
        /// The window, as asked.
        window: Span,
        /// The most units per window that a bucket can have there.
        count_max: u32,
    },
    /// A bucket would need more than [`crate::REFILL_MAX`] from empty to full.
    TooSlow {
        /// The time that it would need.
        refill: Span,
    },
    /// No number of segments, or more than [`SEGMENTS_MAX`].
    Segments(u8),
    /// The window does not divide into that many whole nanoseconds.
    Indivisible {
        /// The window, as asked.
        window: Span,
        /// The segments, as asked.
        segments: u8,
    },
    /// With its soft or elastic part the limit exceeds 2^32 - 1.
    TooLarge {
        /// What was to fit at once, without that part.
        nominal: u32,
        /// That part, in per cent.
        extra_percent: u32,
    },
    /// The algorithm has no burst or queue.
    NoBurst,
    /// A share for requests with priority of more than 100 per cent.
    PriorityShare(u8),
}

// === impl InvalidLimit ===

impl std::error::Error for InvalidLimit {}

impl fmt::Display for InvalidLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidLimit::Window(window) => {
                write!(f, "a window of {window} is outside 1ns to 366d")
            }
            InvalidLimit::TooFast {
                window,
                count_max: 0,
                ..
            } => write!(
                f,
                "a bucket refills at most one unit in {INTERVAL_MIN}, and {window} is shorter"
            ),
            InvalidLimit::TooFast {
                count,
                window,
                count_max,
            } => write!(
                f,
                "a bucket refills at most one unit in {INTERVAL_MIN}: \
                 {count} per {window} is above its {count_max}"
            ),
            // It saturates: how long it is, is not known.
            InvalidLimit::TooSlow { refill } if refill.as_nanos() == u64::MAX => {
                f.write_str("a bucket must fill within 100 years, and this one takes over 500")
            }
            InvalidLimit::TooSlow { refill } => {
                write!(
                    f,
                    "a bucket must fill within 100 years, and this one takes {refill}"
                )
            }
            InvalidLimit::Segments(segments) => {
                write!(f, "{segments} segments are outside 1 to {SEGMENTS_MAX}")
            }
            InvalidLimit::Indivisible { window, segments } => write!(
                f,
                "{window} does not divide into {segments} segments of whole nanoseconds"
            ),
            InvalidLimit::TooLarge {
                nominal,
                extra_percent,
            } => {
                write!(f, "{nominal} and {extra_percent}% more exceed {}", u32::MAX)
            }
            InvalidLimit::NoBurst => f.write_str("only a bucket has a burst or a queue"),
            InvalidLimit::PriorityShare(percent) => {
                write!(
                    f,
                    "{percent}% of a limit cannot be reserved: 100% is all of it"
                )
            }
        }
    }
}
