//! One charge, asked of Redis by itself.

use tokio::time::Instant;
use tollgate_core::{Charge, StoreError, Verdict, Wait};

use crate::cross_slot::Refunds;
use crate::failure::Failure;
use crate::fit::Fitted;
use crate::resp::malformed;
use crate::router::Asked;
use crate::script_reply::ScriptReply;
use crate::script_request::{Plain, ScriptRequest};
use crate::store::Redis;

impl Redis {
    /// The verdict that an answer makes; asks again if a reservation was in the way.
    pub(crate) async fn conclude(
        &self,
        charge: &Charge<'_>,
        fitted: &Fitted,
        reply: &ScriptReply,
        since: Instant,
    ) -> Result<Verdict, StoreError> {
        if reply.is_blocked() {
            return self.decide_apart(&[*charge], Refunds::Done, since).await;
        }
        let verdict = reply.of_one(charge, fitted).map_err(malformed)?;
        if let Some(Wait::For(wait)) = verdict.denial.map(|denial| denial.wait) {
            self.remember(charge, fitted, reply, wait);
        }
        Ok(verdict)
    }

    /// Asks for one charge: the plain script if it can answer, otherwise the general one.
    pub(crate) async fn ask_one(
        &self,
        charge: &Charge<'_>,
        fitted: &Fitted,
        since: Instant,
    ) -> Result<ScriptReply, StoreError> {
        let asked = self
            .ask(|| ScriptRequest::of_one(charge, fitted), since)
            .await;
        let reply = match asked {
            Err(Asked {
                failure: Failure::Changed,
                ..
            }) => self.ask(|| Plain::generalised(charge, fitted), since).await,
            asked => asked,
        };
        reply.map_err(|asked| asked.into_error(self.timeout()))
    }
}
