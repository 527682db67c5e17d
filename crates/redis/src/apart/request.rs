//! What a decision over several slots needs of its request, once the caller may be gone.

use tokio::sync::oneshot;
use tollgate_core::{Charge, Cost, Enforcement, Key, OnDenial, Sharing, StoreError, Verdict};

use super::Refunds;
use crate::fit::Fitted;
use crate::store::unfit;

/// A request that outlives its caller.
pub(super) struct Request {
    pub(super) fitted: Vec<Fitted>,
    asked: Vec<Asking>,
}

/// What of a charge matters besides its limit.
struct Asking {
    key: Key,
    cost: Cost,
    enforcement: Enforcement,
    on_denial: OnDenial,
    sharing: Sharing,
}

/// Who waits for the verdict, until it is told.
pub(super) struct Caller(Option<oneshot::Sender<Result<Verdict, StoreError>>>);

// === impl Request ===

impl Request {
    pub(super) fn new(charges: &[Charge<'_>]) -> Result<Request, StoreError> {
        let fitted = crate::question::fitted(charges).map_err(unfit)?;
        let asked = charges.iter().map(|charge| Asking {
            key: charge.key,
            cost: charge.cost,
            enforcement: charge.enforcement,
            on_denial: charge.on_denial,
            sharing: charge.sharing,
        });
        Ok(Request {
            asked: asked.collect(),
            fitted,
        })
    }

    pub(super) fn charges(&self, refunds: Refunds) -> Vec<Charge<'_>> {
        let pairs = self.asked.iter().zip(&self.fitted);
        let charges = pairs.map(|(asked, fitted)| Charge {
            enforcement: asked.enforcement,
            on_denial: asked.on_denial,
            sharing: asked.sharing,
            ..Charge::new(asked.key, &fitted.limit, asked.cost_to_do(refunds))
        });
        charges.collect()
    }
}

// === impl Asking ===

impl Asking {
    const fn cost_to_do(&self, refunds: Refunds) -> Cost {
        match (self.cost, refunds) {
            (Cost::Refund(_), Refunds::Done) => Cost::Refund(0),
            (cost, _) => cost,
        }
    }
}

// === impl Caller ===

impl Caller {
    pub(super) const fn new(caller: oneshot::Sender<Result<Verdict, StoreError>>) -> Caller {
        Caller(Some(caller))
    }

    /// Whether somebody still waits.
    pub(super) fn is_here(&self) -> bool {
        self.0.as_ref().is_some_and(|caller| !caller.is_closed())
    }

    pub(super) fn tell(&mut self, verdict: Result<Verdict, StoreError>) {
        if let Some(caller) = self.0.take() {
            let _nobody_waits_any_more = caller.send(verdict);
        }
    }
}
