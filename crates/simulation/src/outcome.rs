//! The outcome of a decision.

use tollgate_core::{StoreError, Verdict};

/// The outcome of a decision, and where it was made.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// By Redis, a lease, a local count or the denial cache.
    Decided(Verdict),
    /// By the fallback: its choice or its memory.
    FellBack(Verdict),
    Failed(StoreError),
    /// The caller cancelled it.
    Cancelled,
}
