//! The outcomes of the requests of a round.

use tollgate_core::{StoreError, Verdict};

use crate::resp::{Malformed, bad_reply};

/// Whether a request is allowed provided that its immediately charged part has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commitment {
    /// Undecided: no part is charged immediately.
    Open,
    /// It is: all other parts are reserved, and its caller can no longer withdraw.
    Committed,
    /// It is not: another part is not reserved, or the caller has given up.
    Excluded,
}

/// The outcome of one request of a round.
pub(super) enum Outcome {
    Failed(StoreError),
    Denied(Verdict),
    /// Its units are reserved by others, or taken by another request of the round.
    Blocked,
    /// Allowed, once these lines are charged.
    Allowed(Verdict, Vec<usize>),
}

// === impl Outcome ===

impl Outcome {
    pub(super) fn bad_reply(error: Malformed) -> Outcome {
        Outcome::Failed(bad_reply(error))
    }
}
