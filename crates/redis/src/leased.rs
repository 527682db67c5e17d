//! Decisions on leased units.

use std::sync::Arc;

use tokio::time::{Duration, Instant, sleep, timeout_at};
use tollgate_core::{Charge, Cost, StoreError, Verdict, Wait};

use crate::apart::together;
use crate::failure::Failure;
use crate::leases::{Granted, LASTS, LOOK_EVERY, Leases, Renewal, Spend};
use crate::question::{Leasing, Question};
use crate::reach::{Asked, Reach};
use crate::seen::Seen;
use crate::stats::Stats;
use crate::store::{Redis, malformed};
use crate::told::Told;

/// Renewals that are on their way at once when leases are looked after.
const AT_ONCE: usize = 512;
/// How long to wait, while the store closes, for those who ask.
const PAUSE: Duration = Duration::from_millis(1);

impl Redis {
    /// Decides on leased units, once `spend` has come to an end; nothing, if Redis is to be asked for
    /// this decision alone.
    pub(crate) async fn decide_leased(
        &self,
        charge: &Charge<'_>,
        mut spend: Spend,
        since: Instant,
    ) -> Result<Option<Verdict>, StoreError> {
        let deadline = since + self.reach().patience();
        loop {
            match spend {
                Spend::Granted(decision) => return Ok(Some(Verdict::of_one(charge, decision))),
                Spend::Cold => return Ok(None),
                Spend::Ask(renewal) => return self.renew(renewal, charge, since).await,
                Spend::Wait(renewed) => {
                    if timeout_at(deadline, renewed).await.is_err() {
                        return Err(StoreError::Contended);
                    }
                }
            }
            spend = self.leases().spend_after_wait(charge);
        }
    }

    /// Has the charge decided, and leases units beside it.
    async fn renew(
        &self,
        renewal: Renewal,
        charge: &Charge<'_>,
        since: Instant,
    ) -> Result<Option<Verdict>, StoreError> {
        let fitted = *renewal.fitted();
        let asked = ask(self.reach(), &renewal, charge, since).await;
        let told = asked.map_err(|asked| asked.into_error(self.timeout()))?;
        let (told, units, lasts) = told.lease().map_err(malformed)?;
        self.stats().settled(renewal.spent, renewal.left);
        if told.is_blocked() {
            return Ok(None);
        }
        let verdict = told.of_one(charge, &fitted).map_err(malformed)?;
        if let Some(Wait::For(wait)) = verdict.refusal.map(|refusal| refusal.wait) {
            self.remember(charge, &fitted, &told, wait);
        }
        let (mut seen, now) = told.seen(&fitted).map_err(malformed)?;
        seen.charge(charge, &fitted, now);
        tell(renewal, self.stats(), units, lasts, (seen, now));
        Ok(Some(verdict))
    }

    /// Gives back every lease, after which this node holds nothing and leases nothing any more. To be
    /// called before the store is dropped; what is not given back is charged when it ends,
    /// [`crate::LEASE_LASTS`] later.
    pub async fn close(&self) {
        let deadline = Instant::now() + 2 * Duration::from(self.timeout());
        self.report_all(deadline).await;
        self.leave().await;
        loop {
            look_after(self.leases().close(), self.reach(), self.stats()).await;
            if self.leases().count() == 0 || Instant::now() >= deadline {
                return;
            }
            sleep(PAUSE).await;
        }
    }

    /// Looks after the leases as the keeper does, but now.
    #[cfg(test)]
    pub(crate) async fn look_after_leases(&self) {
        look_after(self.leases().due(), self.reach(), self.stats()).await;
    }
}

/// Renews leases before they end, and gives back what nobody uses; never ends.
pub(crate) async fn keep(leases: Arc<Leases>, reach: Arc<Reach>, stats: Arc<Stats>) {
    loop {
        sleep(LOOK_EVERY.into()).await;
        look_after(leases.due(), &reach, &stats).await;
    }
}

async fn look_after(due: Vec<Renewal>, reach: &Reach, stats: &Stats) {
    let mut due = due.into_iter();
    loop {
        let some = due.by_ref().take(AT_ONCE);
        let asked: Vec<_> = some
            .map(|renewal| renew_alone(renewal, reach, stats))
            .collect();
        if asked.is_empty() {
            return;
        }
        together(asked).await;
    }
}

/// Renews a lease, or gives it back, without a request.
async fn renew_alone(renewal: Renewal, reach: &Reach, stats: &Stats) {
    let fitted = *renewal.fitted();
    let cost = match renewal.want {
        0 => Cost::Refund(0),
        _ => Cost::Peek(1),
    };
    let charge = Charge::new(renewal.key, &fitted.limit, cost);
    let asked = ask(reach, &renewal, &charge, Instant::now()).await;
    // What is not told ends by itself.
    let Ok(Ok((told, units, lasts))) = asked.map(Told::lease) else {
        return;
    };
    stats.settled(renewal.spent, renewal.left);
    match told.seen(&fitted) {
        Ok(seen) if units > 0 => tell(renewal, stats, units, lasts, seen),
        _ => stats.lease_returned(),
    }
}

/// Asks the plain script, if it can, and the general one if it could not.
async fn ask(
    reach: &Reach,
    renewal: &Renewal,
    charge: &Charge<'_>,
    since: Instant,
) -> Result<Told, Asked> {
    let fitted = renewal.fitted();
    let charge = Charge {
        limit: &fitted.limit,
        ..*charge
    };
    let leasing = renewal.leasing();
    let question = || Question::leasing(&charge, fitted, leasing);
    let told = reach.ask(question, since).await;
    let is_changed = |asked: &Asked| matches!(asked.failure, Failure::Changed);
    if !told.as_ref().is_err_and(is_changed) {
        return told;
    }
    let question = || Question::leasing_generally(&charge, fitted, leasing);
    reach.ask(question, since).await
}

/// Tells the leases what Redis has leased.
fn tell(renewal: Renewal, stats: &Stats, units: u64, lasts: u64, (seen, now): (Seen, u64)) {
    if units == 0 {
        return;
    }
    stats.leased(units);
    renewal.granted(Granted {
        units,
        lasts,
        seen,
        now,
    });
}

impl Renewal {
    fn leasing(&self) -> Leasing {
        Leasing {
            name: self.name,
            lasts: LASTS.as_nanos() / 1_000,
            spent: self.spent,
            want: self.want,
            least: self.least,
        }
    }
}
