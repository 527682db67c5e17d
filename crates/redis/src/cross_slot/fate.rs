//! What becomes of the requests of a round.

use tollgate_core::{StoreError, Verdict};

use crate::resp::{Malformed, bad_reply};

/// Whether a request is allowed if its parts that are charged at once have charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commitment {
    /// It may be: nothing is charged at once.
    Open,
    /// It is: everything else is reserved, and its caller knows that it may be charged.
    Committed,
    /// It is not: something else is not reserved, or nobody waits.
    Excluded,
}

/// What becomes of one request of a round.
pub(super) enum Fate {
    Failed(StoreError),
    Denied(Verdict),
    /// What it asks is reserved by others, or another request of the round gets it.
    Blocked,
    /// Once these lines are charged.
    Allowed(Verdict, Vec<usize>),
}

// === impl Fate ===

impl Fate {
    pub(super) fn bad_reply(error: Malformed) -> Fate {
        Fate::Failed(bad_reply(error))
    }
}
