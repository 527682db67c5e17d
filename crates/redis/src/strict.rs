//! Decisions that Redis makes, each with one script call.

use std::ops::ControlFlow;
use std::sync::Arc;

use tollgate_core::{StoreError, Verdict};

use crate::cross_slot::{Outcome, Refunds, crosses_slots, decide_whole};
use crate::leases::InFlight;
use crate::resp::bad_reply;
use crate::router::Router;
use crate::script_request::ScriptRequest;
use crate::single::Single;
use crate::stage::Request;

/// Has Redis decide.
pub(crate) struct Strict {
    router: Arc<Router>,
}

// === impl Strict ===

impl Strict {
    pub(crate) const fn new(router: Arc<Router>) -> Strict {
        Strict { router }
    }

    /// Decides, if one script call can. `ask` learns from Redis's reply.
    pub(crate) async fn decide(
        &self,
        request: &Request<'_>,
        ask: Option<InFlight<'_>>,
    ) -> Result<Outcome, StoreError> {
        match (&request.only, request.charges) {
            _ if request.is_blocked => Ok(ControlFlow::Continue(Refunds::Done)),
            (_, []) => Ok(ControlFlow::Break(Verdict::default())),
            (Some(only), _) => self.decide_one(request, only, ask).await,
            (None, _) => self.decide_all(request).await,
        }
    }

    /// Decides on one charge. A refund is left to a task, which learns its outcome in any case.
    async fn decide_one(
        &self,
        request: &Request<'_>,
        only: &Single<'_>,
        ask: Option<InFlight<'_>>,
    ) -> Result<Outcome, StoreError> {
        let Single { charge, fitted, .. } = only;
        let reply = match request.caches.guard_refunds(request.charges) {
            None => self.router.ask_one(charge, fitted, request.turn).await?,
            Some(guard) => {
                // The general script decides on refunds, so no other one is to follow.
                let refund = ScriptRequest::of_one(charge, fitted);
                guard.ask(&self.router, refund, request.turn.since).await?
            }
        };
        if reply.is_blocked() {
            return Ok(ControlFlow::Continue(Refunds::Done));
        }
        let verdict = reply.of_one(charge, fitted).map_err(bad_reply)?;
        if let Some(ask) = ask {
            ask.finish(only, &reply);
        }
        request.caches.denials().remember(only, &reply, &verdict);
        Ok(ControlFlow::Break(verdict))
    }

    /// Decides on several charges in one script call, unless they are in several slots.
    async fn decide_all(&self, request: &Request<'_>) -> Result<Outcome, StoreError> {
        // Before anything is allocated: under overload, most requests over several slots are
        // rejected next.
        let keys = request.charges.iter().map(|charge| charge.key);
        if self.router.is_cluster() && crosses_slots(keys) {
            return Ok(ControlFlow::Continue(Refunds::ToDo));
        }
        decide_whole(&self.router, request, None).await
    }
}
