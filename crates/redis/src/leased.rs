//! Decisions on leased units.

use std::sync::Arc;

use tokio::time::{Instant, sleep, timeout_at};
use tollgate_core::{Bill, Charge, Cost, StoreError, Verdict, Wait};

use crate::fit::Fitted;
use crate::leases::{IDLE, LASTS, Leases, Renewal, Spend};
use crate::question::{Question, Step};
use crate::reach::Reach;
use crate::stats::Stats;
use crate::store::{Redis, malformed};
use crate::told::{Status, Told};

impl Redis {
    /// Decides on leased units; nothing, if the key is cold or another request's reservation is in
    /// the way.
    pub(crate) async fn decide_leased(
        &self,
        charge: &Charge<'_>,
        fitted: &Fitted,
        since: Instant,
    ) -> Result<Option<Verdict>, StoreError> {
        let deadline = since + self.timeout().into();
        let mut now = since;
        loop {
            match self.leases().spend(charge, fitted, now) {
                Spend::Granted(verdict) => {
                    self.stats().decided_on_lease();
                    return Ok(Some(verdict));
                }
                Spend::Cold => return Ok(None),
                Spend::Ask(renewal) => return self.renew(renewal, charge, since).await,
                Spend::Wait(renewed) => {
                    if timeout_at(deadline, renewed).await.is_err() {
                        return Err(StoreError::Contended);
                    }
                    now = Instant::now();
                }
            }
        }
    }

    /// Leases units, of which the charge takes its own.
    async fn renew(
        &self,
        renewal: Renewal,
        charge: &Charge<'_>,
        since: Instant,
    ) -> Result<Option<Verdict>, StoreError> {
        let fitted = renewal.fitted;
        let asked = self.ask(|| renewal.question(charge), since).await;
        let told = asked.map_err(|asked| asked.into_error(self.timeout()))?;
        let (told, granted, lasts) = told.lease().map_err(malformed)?;
        self.stats().settled(renewal.spent, renewal.left);
        let Told::General(general) = &told else {
            return Ok(None);
        };
        match general.status {
            Status::Blocked => return Ok(None),
            Status::Refused => {
                let verdict = told.of_one(charge, &fitted).map_err(malformed)?;
                if let Some(Wait::For(wait)) = verdict.refusal.map(|refusal| refusal.wait) {
                    self.remember(charge, &fitted, &told, wait);
                }
                return Ok(Some(verdict));
            }
            Status::Admitted => {}
        }
        let verdict = told.of_one(charge, &fitted).map_err(malformed)?;
        let (mut seen, now) = told.seen(&fitted).map_err(malformed)?;
        seen.charge(charge, &fitted, now);
        self.stats().leased(granted);
        renewal.granted(granted, lasts, seen, now);
        Ok(Some(verdict))
    }

    /// Gives back every lease, after which this node holds nothing. To be called before the store
    /// is dropped; what is not given back is charged when it ends, [`crate::LEASE_LASTS`] later.
    pub async fn close(&self) {
        let all = self.leases().idle(std::time::Duration::ZERO);
        give_back(all, self.reach(), self.stats()).await;
    }
}

/// Gives back what nobody uses; never ends.
pub(crate) async fn keep(leases: Arc<Leases>, reach: Arc<Reach>, stats: Arc<Stats>) {
    loop {
        sleep(IDLE / 4).await;
        give_back(leases.idle(IDLE), &reach, &stats).await;
    }
}

async fn give_back(idle: Vec<Renewal>, reach: &Reach, stats: &Stats) {
    let returns = idle.iter().map(|renewal| async {
        let limit = renewal.fitted.limit;
        let nothing = Charge::new(renewal.key, &limit, Cost::Refund(0));
        let question = || renewal.question(&nothing);
        // What is not told ends by itself.
        if reach.ask(question, Instant::now()).await.is_ok() {
            stats.settled(renewal.spent, renewal.left);
            stats.lease_returned();
        }
    });
    crate::apart::together(returns.collect()).await;
}

impl Renewal {
    /// What is asked of Redis: nothing new for a refund of nothing.
    fn question(&self, charge: &Charge<'_>) -> Question {
        let charge = Charge {
            limit: &self.fitted.limit,
            ..*charge
        };
        let bill = Bill::new(&[charge]).expect("one charge is not too many");
        let lasts = LASTS.as_nanos() / 1_000;
        let step = Step::Lease {
            name: self.name,
            lasts,
            spent: self.spent,
            want: self.want,
            least: 1,
        };
        Question::step(step, &[(&bill.lines()[0], &self.fitted)])
    }
}

/// Whether units of this limit can be leased, so that [`Mode::Leased`](tollgate_core::Mode::Leased) makes its decisions cheaper.
pub fn is_leasable(limit: &tollgate_core::Limit) -> bool {
    Fitted::new(limit).is_ok_and(|fitted| crate::leases::can_lease(&fitted))
}
