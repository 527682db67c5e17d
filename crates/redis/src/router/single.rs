//! A decision on a single charge.

use tollgate_core::{Charge, StoreError};

use super::Router;
use crate::fit::FittedLimit;
use crate::script_reply::ScriptReply;
use crate::script_request::{Plain, ScriptRequest};
use crate::turn::Turn;

impl Router {
    /// Has Redis decide on one charge: with the plain script if possible, otherwise with the
    /// general one.
    pub(crate) async fn ask_one(
        &self,
        charge: &Charge<'_>,
        fitted: &FittedLimit,
        turn: impl Into<Turn>,
    ) -> Result<ScriptReply, StoreError> {
        let turn = turn.into();
        let reply = self
            .ask(|| ScriptRequest::of_one(charge, fitted), turn)
            .await;
        let reply = match reply {
            Err(failed) if failed.needs_general() => {
                self.ask(|| Plain::general_request(charge, fitted), turn)
                    .await
            }
            reply => reply,
        };
        reply.map_err(|failure| self.error(failure))
    }
}
