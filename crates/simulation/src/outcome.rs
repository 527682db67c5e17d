//! The outcome of a decision, and of a settlement.

use tollgate_core::{Answer, StoreError};
use tollgate_engine::Decided;

use crate::shared_redis::Answers;

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

/// The outcome of settling a reservation.
#[derive(Debug)]
pub(crate) enum SettleOutcome {
    /// The units charged in total; `None` if no limit was charged.
    Settled(Option<u64>),
    /// There is no such reservation (any more).
    NotFound,
    Failed(StoreError),
    /// The caller cancelled it.
    Cancelled,
}

// === impl Outcome ===

impl Outcome {
    /// The outcome of a decision, during which the store gave these answers.
    pub(crate) fn of(decided: Result<Decided, StoreError>, answers: &Answers) -> Outcome {
        match decided {
            Err(error) => Outcome::Failed(error),
            Ok(Decided { answer, .. }) if answers.is_error() => Outcome::FellBack(answer),
            Ok(Decided { answer, .. }) => Outcome::Decided(answer),
        }
    }
}
