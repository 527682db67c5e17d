//! The stages of a decision, and what they pass to each other.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;

use tokio::time::Instant;
use tollgate_core::{Charge, StoreError, Verdict};

use crate::caches::Caches;
use crate::fit::{FittedLimit, unfit};
use crate::single::Single;
use crate::turn::Turn;

/// The result of a stage: a decision or an error, which ends the request, or the values that the
/// next stages need.
pub(crate) type Stage<T> = ControlFlow<Result<Verdict, StoreError>, T>;

/// The start of a decision's time budget, which all its calls share. The clock is read when it is
/// first needed, so a decision that waits for nothing does not read it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budget {
    since: Option<Instant>,
    keeps_order: bool,
}

/// A request that Redis has to decide, unless a cache can.
pub(crate) struct Request<'r> {
    pub(crate) charges: &'r [Charge<'r>],
    /// The charge, if it is the only one: most stages decide no others.
    pub(crate) only: Option<Single<'r>>,
    /// Whether another request's reservation blocks it. Then its refunds are done.
    pub(crate) is_blocked: bool,
    pub(crate) turn: Turn,
    pub(crate) caches: &'r Arc<Caches>,
}

/// Ends the request if a stage has decided or failed.
pub(crate) fn end_or_pass<T>(stage: Result<ControlFlow<Verdict, T>, StoreError>) -> Stage<T> {
    match stage {
        Ok(Break(verdict)) => Break(Ok(verdict)),
        Ok(Continue(passed)) => Continue(passed),
        Err(error) => Break(Err(error)),
    }
}

// === impl Budget ===

impl Budget {
    /// The budget of a batch whose requests keep their order. It starts now.
    pub(crate) fn of_batch() -> Budget {
        Budget {
            since: Some(Instant::now()),
            keeps_order: true,
        }
    }

    /// When it starts: at the first call.
    pub(crate) fn since(&mut self) -> Instant {
        *self.since.get_or_insert_with(Instant::now)
    }

    /// The turn of the request; it starts at the first call.
    pub(crate) fn turn(&mut self) -> Turn {
        Turn {
            since: self.since(),
            keeps_order: self.keeps_order,
        }
    }
}

// === impl Request ===

impl<'r> Request<'r> {
    /// Fails with [`StoreError::Unfit`] if Redis cannot keep the limit of a single charge.
    pub(crate) fn new(
        charges: &'r [Charge<'r>],
        is_blocked: bool,
        turn: Turn,
        caches: &'r Arc<Caches>,
    ) -> Stage<Request<'r>> {
        let only = match charges {
            [charge] => match FittedLimit::new(charge.limit) {
                Ok(fitted) => Some(Single {
                    charge,
                    fitted,
                    generation: caches.generation(charge.key),
                    charges: caches.generation_of_charges(charge.key),
                }),
                Err(invalid) => return Break(Err(unfit(invalid))),
            },
            _ => None,
        };
        let request = Request {
            charges,
            only,
            is_blocked,
            turn,
            caches,
        };
        request.forget_refunded();
        Continue(request)
    }

    fn forget_refunded(&self) {
        for charge in self.charges {
            if charge.cost.is_refund() {
                self.caches.forget(charge.key);
            }
        }
    }
}

impl Drop for Request<'_> {
    /// A reply from before a refund may have been cached meanwhile.
    fn drop(&mut self) {
        self.forget_refunded();
    }
}
