//! The outcome of a decision.

use tollgate_core::{Answer, StoreError};

/// The outcome of a decision, and where it was made.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// By Redis, a lease, a local count or the denial cache.
    Decided(Answer),
    /// By the fallback: its choice or its memory.
    FellBack(Answer),
    Failed(StoreError),
    /// The caller cancelled it.
    Cancelled,
}
