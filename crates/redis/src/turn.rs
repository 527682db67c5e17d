//! When a request's time budget starts, and its place among others.

use tokio::time::Instant;

/// When a request's time budget starts, and whether it keeps its place among others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) since: Instant,
    /// Whether it is sent after the requests of the same `since` that were queued before it: those
    /// of its batch.
    pub(crate) keeps_order: bool,
}

// === impl Turn ===

impl From<Instant> for Turn {
    /// The turn of a request that is of no batch.
    fn from(since: Instant) -> Turn {
        Turn {
            since,
            keeps_order: false,
        }
    }
}
