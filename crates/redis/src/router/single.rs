//! A decision on a single charge.

use tollgate_core::{Charge, StoreError};

use super::{Form, Router, Waits};
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
        let request = |form| match form {
            Form::Short => ScriptRequest::of_one(charge, fitted),
            Form::General => Plain::general_request(charge, fitted),
        };
        let reply = self.ask_in_form(request, turn, Waits::Yes).await;
        reply.map_err(|failure| self.error(failure))
    }
}
