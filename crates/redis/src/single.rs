//! One charge, asked of Redis by itself.

use tokio::time::Instant;
use tollgate_core::{Charge, StoreError, Verdict, Wait};

use crate::apart::Refunds;
use crate::failure::Failure;
use crate::fit::Fitted;
use crate::question::{Plain, Question};
use crate::reach::Asked;
use crate::resp::malformed;
use crate::store::Redis;
use crate::told::Told;

impl Redis {
    /// The verdict that an answer makes; asks again if a reservation was in the way.
    pub(crate) async fn conclude(
        &self,
        charge: &Charge<'_>,
        fitted: &Fitted,
        told: &Told,
        since: Instant,
    ) -> Result<Verdict, StoreError> {
        if told.is_blocked() {
            return self.decide_apart(&[*charge], Refunds::Done, since).await;
        }
        let verdict = told.of_one(charge, fitted).map_err(malformed)?;
        if let Some(Wait::For(wait)) = verdict.denial.map(|refusal| refusal.wait) {
            self.remember(charge, fitted, told, wait);
        }
        Ok(verdict)
    }

    /// Asks for one charge: the plain script if it can answer, otherwise the general one.
    pub(crate) async fn ask_one(
        &self,
        charge: &Charge<'_>,
        fitted: &Fitted,
        since: Instant,
    ) -> Result<Told, StoreError> {
        let asked = self.ask(|| Question::of_one(charge, fitted), since).await;
        let told = match asked {
            Err(Asked {
                failure: Failure::Changed,
                ..
            }) => self.ask(|| Plain::generalised(charge, fitted), since).await,
            asked => asked,
        };
        told.map_err(|asked| asked.into_error(self.timeout()))
    }
}
