//! Decisions on leased units.

use std::sync::Arc;

use tokio::time::{Duration, Instant, sleep, timeout_at};
use tollgate_core::{
    Account, Charge, Cost, Enforcement, Key, Mode, OnDenial, StoreError, Verdict, Wait,
};

use crate::failure::Failure;
use crate::fit::Fitted;
use crate::join::together;
use crate::leases::{Granted, LASTS, LOOK_EVERY, Leases, Renewal, Spend};
use crate::resp::malformed;
use crate::router::{Asked, Router};
use crate::script_reply::ScriptReply;
use crate::script_request::{Leasing, ScriptRequest};
use crate::snapshot::Snapshot;
use crate::stats::Stats;
use crate::store::Redis;

/// Renewals that are on their way at once when leases are looked after.
const AT_ONCE: usize = 512;
/// How long to wait, while the store closes, for callers.
const PAUSE: Duration = Duration::from_millis(1);

/// What of a charge matters to whoever asks for it, and outlives it.
#[derive(Clone, Copy)]
struct Asker {
    cost: Cost,
    enforcement: Enforcement,
    on_denial: OnDenial,
}

impl Redis {
    /// Spends leased units, if the charge's mode is to.
    #[inline]
    pub(crate) fn spend(&self, charge: &Charge<'_>) -> Spend {
        match charge.sharing.mode {
            Mode::Leased => self.leases().spend(charge),
            Mode::Strict | Mode::WriteBack => Spend::Cold,
        }
    }

    /// Decides on leased units, once `spend` has come to an end; nothing, if Redis is to be asked
    /// for this decision alone.
    pub(crate) async fn decide_leased(
        &self,
        charge: &Charge<'_>,
        mut spend: Spend,
        since: Instant,
    ) -> Result<Option<Verdict>, StoreError> {
        let deadline = since + self.router().reply_timeout();
        loop {
            match spend {
                Spend::Granted(decision) => return Ok(Some(Verdict::of_one(charge, decision))),
                Spend::Cold => return Ok(None),
                Spend::Ask(renewal) => return self.renew(renewal, charge, since).await,
                Spend::Wait(renewed) => {
                    if timeout_at(deadline, renewed).await.is_err() {
                        // Redis does not answer whoever asks: nothing was charged for us.
                        let after = self.timeout();
                        return Err(StoreError::TimedOut { after });
                    }
                }
            }
            spend = self.leases().spend_after_wait(charge);
        }
    }

    /// Has the charge decided, and leases units beside it: in a task of its own, so that a caller
    /// who goes away takes no lease along.
    async fn renew(
        &self,
        renewal: Renewal,
        charge: &Charge<'_>,
        since: Instant,
    ) -> Result<Option<Verdict>, StoreError> {
        let fitted = *renewal.fitted();
        let (router, stats) = (Arc::clone(self.router()), Arc::clone(self.stats()));
        let caller = Asker::of(charge);
        let reply =
            tokio::spawn(async move { renew(renewal, caller, &router, &stats, since).await });
        // A task that does not end was stopped with the runtime.
        let lost = StoreError::TimedOut {
            after: self.timeout(),
        };
        let reply = reply.await.map_err(|_stopped| lost)?;
        let reply = reply.map_err(|asked| asked.into_error(self.timeout()))?;
        if reply.is_blocked() {
            return Ok(None);
        }
        let verdict = reply.of_one(charge, &fitted).map_err(malformed)?;
        if let Some(Wait::For(wait)) = verdict.denial.map(|denial| denial.wait) {
            self.remember(charge, &fitted, &reply, wait);
        }
        if let Some(left) = self.left(charge, &fitted, &reply) {
            let connections = self.stats().connections();
            let estimates = self.leases().estimates();
            estimates.heard(charge, &fitted, left, connections);
        }
        Ok(Some(verdict))
    }

    /// Asks Redis for this decision alone, unless so little may be left that it does not fit.
    pub(crate) async fn decide_unleased(
        &self,
        charge: &Charge<'_>,
        fitted: &Fitted,
        since: Instant,
    ) -> Result<Verdict, StoreError> {
        let connections = self.stats().connections();
        let estimates = self.leases().estimates();
        let asking = match estimates.ask(charge, fitted, connections, Instant::now()) {
            Ok(asking) => asking,
            Err(denied) => {
                self.stats().denied_here();
                return Ok(denied);
            }
        };
        let reply = self.ask_one(charge, fitted, since).await?;
        asking.heard(charge, fitted, self.left(charge, fitted, &reply));
        self.conclude(charge, fitted, &reply, since).await
    }

    /// What is left of a key, and when, after the charge was decided.
    fn left(
        &self,
        charge: &Charge<'_>,
        fitted: &Fitted,
        reply: &ScriptReply,
    ) -> Option<(Account, u64)> {
        if !self.caches_denials() || reply.is_blocked() {
            return None;
        }
        let (mut snapshot, now) = reply.snapshot(fitted).ok()?;
        snapshot.charge(charge, fitted, now);
        match snapshot {
            Snapshot::Account(account) => Some((account, now)),
            Snapshot::Log(_) => None,
        }
    }

    /// Gives back every lease, after which this node holds nothing and leases nothing any more. To
    /// be called before the store is dropped; what is not given back is charged when it ends,
    /// [`crate::LEASE_LASTS`] later.
    pub async fn close(&self) {
        let deadline = Instant::now() + 2 * Duration::from(self.timeout());
        self.report_all(deadline).await;
        self.leave().await;
        loop {
            look_after(self.leases().close(), self.router(), self.stats()).await;
            if self.leases().count() == 0 || Instant::now() >= deadline {
                return;
            }
            sleep(PAUSE).await;
        }
    }

    /// Looks after the leases as the keeper does, but now.
    #[cfg(test)]
    pub(crate) async fn look_after_leases(&self) {
        look_after(self.leases().due(), self.router(), self.stats()).await;
    }
}

/// Renews leases before they end, and gives back what nobody uses; never ends.
pub(crate) async fn keep(leases: Arc<Leases>, router: Arc<Router>, stats: Arc<Stats>) {
    loop {
        sleep(LOOK_EVERY.into()).await;
        look_after(leases.due(), &router, &stats).await;
    }
}

async fn look_after(due: Vec<Renewal>, router: &Router, stats: &Stats) {
    let mut due = due.into_iter();
    loop {
        let some = due.by_ref().take(AT_ONCE);
        let asked: Vec<_> = some
            .map(|renewal| renew_alone(renewal, router, stats))
            .collect();
        if asked.is_empty() {
            return;
        }
        together(asked).await;
    }
}

/// Renews a lease, or gives it back, without a request.
async fn renew_alone(renewal: Renewal, router: &Router, stats: &Stats) {
    let caller = Asker {
        cost: match renewal.want {
            0 => Cost::Refund(0),
            _ => Cost::Peek(1),
        },
        enforcement: Enforcement::Enforce,
        on_denial: OnDenial::Keep,
    };
    // Without a reply it is asked for again, until it ends by itself.
    let _told = renew(renewal, caller, router, stats, Instant::now()).await;
}

/// Has the caller's charge decided, leases units beside it, and tells them to the leases.
async fn renew(
    renewal: Renewal,
    caller: Asker,
    router: &Router,
    stats: &Stats,
    since: Instant,
) -> Result<ScriptReply, Asked> {
    let fitted = *renewal.fitted();
    let charge = caller.charge(renewal.key, &fitted);
    let reply = match ask(router, &renewal, &charge, since).await {
        Ok(reply) => reply,
        Err(asked) => {
            if !asked.failure.is_unknown() {
                renewal.not_done();
            }
            return Err(asked);
        }
    };
    let (reply, units, lasts) = reply.lease().map_err(|_| Asked::malformed(renewal.key))?;
    stats.settled(renewal.spent, renewal.left);
    if units == 0 {
        if renewal.want == 0 {
            stats.lease_returned();
        }
        renewal.returned();
        return Ok(reply);
    }
    if let Ok((mut snapshot, now)) = reply.snapshot(&fitted) {
        snapshot.charge(&charge, &fitted, now);
        stats.leased(units);
        renewal.granted(Granted {
            units,
            lasts,
            snapshot,
            now,
        });
    }
    Ok(reply)
}

/// Asks the plain script, if it can, and the general one if it could not.
async fn ask(
    router: &Router,
    renewal: &Renewal,
    charge: &Charge<'_>,
    since: Instant,
) -> Result<ScriptReply, Asked> {
    let (fitted, leasing) = (renewal.fitted(), renewal.leasing());
    let request = || ScriptRequest::leasing(charge, fitted, leasing);
    let reply = router.ask(request, since).await;
    let is_changed = |asked: &Asked| matches!(asked.failure, Failure::Changed);
    if !reply.as_ref().is_err_and(is_changed) {
        return reply;
    }
    let request = || ScriptRequest::leasing_generally(charge, fitted, leasing);
    router.ask(request, since).await
}

impl Renewal {
    fn leasing(&self) -> Leasing {
        Leasing {
            name: self.name,
            lasts: LASTS.as_nanos() / 1_000,
            spent: self.spent,
            want: self.want,
            least: self.least,
            next: self.next,
        }
    }
}

// === impl Asker ===

impl Asker {
    const fn of(charge: &Charge<'_>) -> Asker {
        Asker {
            cost: charge.cost,
            enforcement: charge.enforcement,
            on_denial: charge.on_denial,
        }
    }

    fn charge<'f>(&self, key: Key, fitted: &'f Fitted) -> Charge<'f> {
        Charge {
            enforcement: self.enforcement,
            on_denial: self.on_denial,
            ..Charge::new(key, &fitted.limit, self.cost)
        }
    }
}
