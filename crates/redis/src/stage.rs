//! What the stages of a decision hand to each other.

use tokio::time::Instant;
use tollgate_core::{Charge, StoreError, Verdict};

use crate::fit::{Fitted, unfit};
use crate::script_reply::ScriptReply;

/// The start of a decision's time budget: one for all that is asked in the course of it. The clock
/// is read when it is needed first, so a decision that waits for nothing does not read it.
#[derive(Debug, Default)]
pub(crate) struct Budget(Option<Instant>);

/// A request that Redis is to decide, if nothing known of its key tells the outcome.
pub(crate) struct Request<'r> {
    pub(crate) charges: &'r [Charge<'r>],
    /// The charge, if it is the only one: most stages decide on no others.
    pub(crate) only: Option<Single<'r>>,
    /// Another request's reservation is in the way. What was to be refunded is refunded.
    pub(crate) is_blocked: bool,
    /// When its time budget starts.
    pub(crate) since: Instant,
}

/// A charge, and how its limit reads in Redis.
#[derive(Clone, Copy)]
pub(crate) struct Single<'r> {
    pub(crate) charge: &'r Charge<'r>,
    pub(crate) fitted: Fitted,
}

/// A verdict, and Redis's reply if that was about a single charge.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) verdict: Verdict,
    pub(crate) reply: Option<ScriptReply>,
}

// === impl Budget ===

impl Budget {
    /// When it starts: at the first call.
    pub(crate) fn since(&mut self) -> Instant {
        *self.0.get_or_insert_with(Instant::now)
    }
}

// === impl Request ===

impl<'r> Request<'r> {
    /// # Errors
    ///
    /// [`StoreError::Unfit`] if Redis cannot keep the limit of a single charge.
    pub(crate) fn new(
        charges: &'r [Charge<'r>],
        is_blocked: bool,
        since: Instant,
    ) -> Result<Request<'r>, StoreError> {
        let only = match charges {
            [charge] => Some(Single {
                charge,
                fitted: Fitted::new(charge.limit).map_err(unfit)?,
            }),
            _ => None,
        };
        Ok(Request {
            charges,
            only,
            is_blocked,
            since,
        })
    }
}

// === impl Answer ===

impl From<Verdict> for Answer {
    fn from(verdict: Verdict) -> Answer {
        Answer {
            verdict,
            reply: None,
        }
    }
}
