//! Decisions that Redis makes, each with one script call.

use std::ops::ControlFlow;
use std::sync::Arc;

use tokio::time::Instant;
use tollgate_core::{Charge, StoreError, Verdict};

use crate::cross_slot::{Outcome, Refunds, crosses_slots, decide_whole};
use crate::fit::Single;
use crate::leases::InFlight;
use crate::resp::bad_reply;
use crate::router::Router;
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
            (None, charges) => self.decide_all(charges, request.since).await,
        }
    }

    async fn decide_one(
        &self,
        request: &Request<'_>,
        only: &Single<'_>,
        ask: Option<InFlight<'_>>,
    ) -> Result<Outcome, StoreError> {
        let Single { charge, fitted } = only;
        let reply = self.router.ask_one(charge, fitted, request.since).await?;
        if reply.is_blocked() {
            return Ok(ControlFlow::Continue(Refunds::Done));
        }
        let verdict = reply.of_one(charge, fitted).map_err(bad_reply)?;
        if let Some(ask) = ask {
            ask.finish(only, &reply);
        }
        request.caches.denials.remember(only, &reply, &verdict);
        Ok(ControlFlow::Break(verdict))
    }

    /// Decides on several charges in one script call, unless they are in several slots.
    async fn decide_all(
        &self,
        charges: &[Charge<'_>],
        since: Instant,
    ) -> Result<Outcome, StoreError> {
        // Before anything is allocated: under overload, most requests over several slots are
        // rejected next.
        let keys = charges.iter().map(|charge| charge.key);
        if self.router.is_cluster() && crosses_slots(keys) {
            return Ok(ControlFlow::Continue(Refunds::ToDo));
        }
        decide_whole(&self.router, charges, since, None).await
    }
}
