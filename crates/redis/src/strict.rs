//! Decisions that Redis makes, each with one script call.

use std::ops::ControlFlow;
use std::sync::Arc;

use tokio::time::Instant;
use tollgate_core::{Charge, StoreError};

use crate::cross_slot::{Refunds, crosses_slots};
use crate::fit::unfit;
use crate::resp::bad_reply;
use crate::router::Router;
use crate::script_reply;
use crate::script_request::{self, ScriptRequest};
use crate::stage::{Answer, Request, Single};

/// Has Redis decide.
pub(crate) struct Strict {
    router: Arc<Router>,
}

/// An answer; or what is left to do for a two-phase commit, which is needed over several slots and
/// where another request's reservation is in the way.
type Outcome = ControlFlow<Answer, Refunds>;

// === impl Strict ===

impl Strict {
    pub(crate) const fn new(router: Arc<Router>) -> Strict {
        Strict { router }
    }

    /// Decides, if one script call can.
    pub(crate) async fn decide(&self, request: &Request<'_>) -> Result<Outcome, StoreError> {
        match (&request.only, request.charges) {
            _ if request.is_blocked => Ok(ControlFlow::Continue(Refunds::Done)),
            (_, []) => Ok(ControlFlow::Break(Answer::default())),
            (Some(only), _) => self.decide_one(only, request.since).await,
            (None, charges) => self.decide_all(charges, request.since).await,
        }
    }

    async fn decide_one(&self, only: &Single<'_>, since: Instant) -> Result<Outcome, StoreError> {
        let Single { charge, fitted } = only;
        let reply = self.router.ask_one(charge, fitted, since).await?;
        if reply.is_blocked() {
            return Ok(ControlFlow::Continue(Refunds::Done));
        }
        let verdict = reply.of_one(charge, fitted).map_err(bad_reply)?;
        let reply = Some(reply);
        Ok(ControlFlow::Break(Answer { verdict, reply }))
    }

    async fn decide_all(
        &self,
        charges: &[Charge<'_>],
        since: Instant,
    ) -> Result<Outcome, StoreError> {
        let fitted = script_request::fit_all(charges).map_err(unfit)?;
        let in_micros = script_reply::charges_in_micros(charges, &fitted);
        let (bill, fitted) = script_reply::bill(&in_micros, &fitted)?;
        if self.router.is_cluster() && crosses_slots(&bill) {
            return Ok(ControlFlow::Continue(Refunds::ToDo));
        }
        let reply = self.router.ask(|| ScriptRequest::of(&bill, &fitted), since);
        let reply = reply.await.map_err(|asked| self.router.error(asked))?;
        if reply.is_blocked() {
            return Ok(ControlFlow::Continue(Refunds::Done));
        }
        let verdict = reply.of(&bill, &fitted).map_err(bad_reply)?;
        Ok(ControlFlow::Break(verdict.into()))
    }
}
