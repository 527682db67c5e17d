//! One request at one moment.

use tollgate_core::Moment;

/// The most events of a simulation, with all retries: 16 bytes each.
pub const EVENTS_MAX: u64 = 50_000_000;

/// One request at one moment: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) at: Moment,
    /// The line among those of all inputs, from 0.
    pub(crate) line: u32,
    /// The request, as a number.
    pub(crate) request: u32,
}
