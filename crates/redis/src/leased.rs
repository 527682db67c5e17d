//! Decisions on leased units.

mod several_limits;

use std::ops::ControlFlow;
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep, timeout_at};
use tollgate_core::{Charge, Cost, Enforcement, Key, Mode, OnDenial, StoreError, Verdict};

use crate::caches::{Caches, returns_units};
use crate::environment::Environment;
use crate::fit::FittedLimit;
use crate::join::join_all;
use crate::leases::{CHECK_EVERY, GrantedLease, InFlight, LASTS, Leases, Renewal, Spend};
use crate::monotonic::MonotonicClock;
use crate::resp::bad_reply;
use crate::router::{Form, NodeFailure, Router, Waits};
use crate::script_reply::ScriptReply;
use crate::script_request::{Leasing, ScriptRequest};
use crate::single::Single;
use crate::stage::Request;
use crate::stats::Stats;
pub(crate) use several_limits::acts_if_denied;

/// The most concurrent renewals in the background.
const AT_ONCE: usize = 512;
/// The pause between attempts to return all leases while the store closes.
const PAUSE: Duration = Duration::from_millis(1);

/// The part of a caller's charge that a renewal needs, which may outlive the caller.
#[derive(Clone, Copy)]
struct Caller {
    cost: Cost,
    enforcement: Enforcement,
    on_denial: OnDenial,
}

/// What a renewal needs that outlives its caller.
#[derive(Clone)]
struct Renewer {
    router: Arc<Router>,
    stats: Arc<Stats>,
    caches: Arc<Caches>,
}

/// Decides on leased units.
pub(crate) struct Leased {
    leases: Arc<Leases>,
    renewer: Renewer,
    /// Renews and returns leases in the background, for as long as it is held.
    _keeper: JoinSet<()>,
}

/// A verdict; or, for a request in this mode, the estimate that learns from Redis's reply.
type Outcome<'l> = ControlFlow<Verdict, Option<InFlight<'l>>>;

// === impl Leased ===

impl Leased {
    pub(crate) fn new(
        environment: &Environment,
        (router, stats): (Arc<Router>, Arc<Stats>),
        caches: &Arc<Caches>,
    ) -> Leased {
        let leases = Leases::new(MonotonicClock::new(environment.clock.clone()));
        let renewer = Renewer {
            router,
            stats,
            caches: Arc::clone(caches),
        };
        let mut keeper = JoinSet::new();
        keeper.spawn(keep(Arc::clone(&leases), renewer.clone()));
        Leased {
            leases,
            renewer,
            _keeper: keeper,
        }
    }

    /// Spends leased units, if the charge's mode is `leased`. A refund may be of units that were
    /// spent before a reload changed the mode.
    #[inline]
    pub(crate) fn spend(&self, charge: &Charge<'_>) -> Spend {
        match (charge.sharing.mode, charge.cost) {
            (Mode::Leased, _) | (_, Cost::Refund(_)) => self.leases.spend(charge),
            (Mode::Strict | Mode::WriteBack, _) => Spend::Cold,
        }
    }

    /// Decides in the call that renews the lease, or on what another request leases meanwhile;
    /// passes on the requests that Redis has to decide by itself.
    pub(crate) async fn renew<'r>(
        &self,
        request: &Request<'r>,
        spend: Spend,
    ) -> Result<Outcome<'r>, StoreError> {
        let Some(only) = &request.only else {
            return Ok(ControlFlow::Continue(None));
        };
        if let Some(verdict) = self.spend_or_renew(request, only, spend).await? {
            return Ok(ControlFlow::Break(verdict));
        }
        let Single { charge, fitted, .. } = only;
        if charge.sharing.mode != Mode::Leased {
            return Ok(ControlFlow::Continue(None));
        }
        let connections = self.renewer.stats.connections();
        let estimates = request.caches.estimates();
        match estimates.ask(charge, fitted, connections, Instant::now()) {
            Ok(ask) => Ok(ControlFlow::Continue(Some(ask))),
            // So little remains that the charge does not fit.
            Err(denied) => {
                self.renewer.stats.count_local_denial();
                Ok(ControlFlow::Break(denied))
            }
        }
    }

    /// Drops a key's lease without spending more of it, because the key was deleted in Redis.
    pub(crate) fn forget(&self, key: Key) {
        self.leases.forget(key);
    }

    /// The number of decisions on leased units, and of leases held.
    pub(crate) fn counts(&self) -> (u64, usize) {
        (self.leases.decisions(), self.leases.count())
    }

    /// Stops leasing and returns every lease; gives up at the deadline.
    pub(crate) async fn close(&self, deadline: Instant) {
        self.leases.close();
        loop {
            renew_due(&self.leases, &self.renewer).await;
            if self.leases.count() == 0 || Instant::now() >= deadline {
                return;
            }
            sleep(PAUSE).await;
        }
    }

    /// Decides on the units that this instance holds, or in the call that renews its lease; no
    /// verdict if neither is possible.
    async fn spend_or_renew(
        &self,
        request: &Request<'_>,
        only: &Single<'_>,
        mut spend: Spend,
    ) -> Result<Option<Verdict>, StoreError> {
        let charge = only.charge;
        let deadline = request.turn.since + self.renewer.router.reply_timeout();
        loop {
            match spend {
                Spend::Granted(decision) => return Ok(Some(Verdict::of_one(charge, decision))),
                Spend::Cold => return Ok(None),
                Spend::Renew(renewal) => return self.ask(renewal, request, only).await,
                Spend::Peek(free) => return self.peek(request, only, free).await,
                Spend::Wait(renewed) => {
                    if timeout_at(deadline, renewed).await.is_err() {
                        // The renewal has no reply yet, and nothing was charged for this request.
                        return Err(self.renewer.router.timeout_error());
                    }
                }
            }
            spend = self.leases.spend_after_wait(charge);
        }
    }

    /// Has Redis judge a charge that takes nothing, as if these units were not leased.
    async fn peek(
        &self,
        request: &Request<'_>,
        only: &Single<'_>,
        free: u32,
    ) -> Result<Option<Verdict>, StoreError> {
        let Single { charge, fitted, .. } = only;
        let router = &self.renewer.router;
        let reply = router.ask_one(charge, fitted, request.turn.since).await?;
        if reply.is_blocked() {
            return Ok(None);
        }
        // Others may have spent them meanwhile.
        let free = free.min(self.leases.free(charge.key));
        let verdict = reply.of_peek(charge, fitted, free).map_err(bad_reply)?;
        Ok(Some(verdict))
    }

    /// Decides the charge in a call that also leases units. The call has its own task, so that a
    /// caller that goes away does not lose the lease.
    async fn ask(
        &self,
        renewal: Renewal,
        request: &Request<'_>,
        only: &Single<'_>,
    ) -> Result<Option<Verdict>, StoreError> {
        let charge = only.charge;
        let fitted = *renewal.fitted_limit();
        let (renewer, router) = (self.renewer.clone(), &self.renewer.router);
        let (caller, since) = (Caller::of(charge), request.turn.since);
        let reply = tokio::spawn(async move { renewer.renew(renewal, caller, since).await });
        // A task that fails to complete was stopped with its runtime.
        let reply = reply.await.map_err(|_stopped| router.timeout_error())?;
        let reply = reply.map_err(|failure| router.error(failure))?;
        if reply.is_blocked() {
            return Ok(None);
        }
        let verdict = reply.of_one(charge, &fitted).map_err(bad_reply)?;
        let connections = self.renewer.stats.connections();
        let estimates = request.caches.estimates();
        estimates.learn(only, &reply, connections);
        request.caches.denials().remember(only, &reply, &verdict);
        Ok(Some(verdict))
    }
}

/// Renews leases before they expire, and returns unused ones; never returns.
async fn keep(leases: Arc<Leases>, renewer: Renewer) {
    loop {
        sleep(CHECK_EVERY.into()).await;
        renew_due(&leases, &renewer).await;
    }
}

/// Renews and returns the leases that are due. The units of those that wait for others to be
/// renewed are spent until it is their turn.
async fn renew_due(leases: &Arc<Leases>, renewer: &Renewer) {
    for keys in leases.due().chunks(AT_ONCE) {
        let renewals = keys.iter().filter_map(|key| leases.begin_if_due(*key));
        let renewals = renewals.map(|renewal| renewer.renew_alone(renewal));
        join_all(renewals.collect()).await;
    }
}

// === impl Renewer ===

impl Renewer {
    /// Renews a lease, or returns it, without a request.
    async fn renew_alone(&self, renewal: Renewal) {
        let caller = match renewal.want {
            0 => Caller::NONE,
            _ => Caller {
                cost: Cost::Peek(1),
                ..Caller::NONE
            },
        };
        // Without a reply it is repeated, until the lease expires.
        let _replied = self.renew(renewal, caller, Instant::now()).await;
    }

    /// Decides the caller's charge in a call that also leases units, and completes the renewal.
    async fn renew(
        &self,
        mut renewal: Renewal,
        caller: Caller,
        since: Instant,
    ) -> Result<ScriptReply, NodeFailure> {
        let fitted = *renewal.fitted_limit();
        let charge = caller.charge(renewal.key, &fitted);
        let returns = returns_units(&charge) || renewal.want == 0 && renewal.left > 0;
        let _returned = returns.then(|| self.caches.guard(vec![renewal.key]));
        renewal.send();
        let reply = match ask(&self.router, &renewal, &charge, since).await {
            Ok(reply) => reply,
            Err(failure) => {
                match failure.failure.is_unknown() {
                    true => self.caches.forget_denial(renewal.key),
                    false => renewal.abort(),
                }
                return Err(failure);
            }
        };
        let (reply, units, lasts) = reply
            .lease()
            .map_err(|_| NodeFailure::bad_reply(renewal.key))?;
        self.stats.count_settled_units(renewal.spent, renewal.left);
        let is_settled = units > 0 || renewal.spent > 0;
        if is_settled || caller.is_charged(&reply, &charge, &fitted) {
            self.caches.forget_denial(renewal.key);
        }
        if units == 0 {
            if renewal.want == 0 {
                self.stats.count_lease_return();
            }
            renewal.confirm_return();
            return Ok(reply);
        }
        if let Ok((mut snapshot, now)) = reply.snapshot(&fitted) {
            snapshot.charge(&charge, &fitted, now);
            self.stats.count_lease(units);
            let granted = GrantedLease {
                units,
                lasts,
                snapshot,
                now,
            };
            if let Some(unplaced) = renewal.confirm_grant(granted) {
                // The caller does not wait for that.
                let renewer = self.clone();
                tokio::spawn(async move { renewer.give_back(unplaced).await });
            }
        }
        Ok(reply)
    }

    /// Returns units that were granted for a key that was reset meanwhile. If there is no reply,
    /// they are charged when their lease expires.
    async fn give_back(&self, unplaced: Renewal) {
        let charge = Caller::NONE.charge(unplaced.key, unplaced.fitted_limit());
        let _returned = self.caches.guard(vec![unplaced.key]);
        let reply = ask(&self.router, &unplaced, &charge, Instant::now()).await;
        if reply.is_ok() {
            let stats = &self.stats;
            stats.count_settled_units(unplaced.spent, unplaced.left);
            stats.count_lease_return();
        }
    }
}

/// Calls the plain script if it can handle the charge, and the general one if not.
async fn ask(
    router: &Router,
    renewal: &Renewal,
    charge: &Charge<'_>,
    since: Instant,
) -> Result<ScriptReply, NodeFailure> {
    let (fitted, leasing) = (renewal.fitted_limit(), renewal.terms());
    let request = |form| match form {
        Form::Short => ScriptRequest::with_lease(charge, fitted, leasing),
        Form::General => ScriptRequest::general_with_lease(charge, fitted, leasing),
    };
    router.ask_in_form(request, since, Waits::Yes).await
}

// === impl Renewal ===

impl Renewal {
    fn terms(&self) -> Leasing {
        Leasing {
            name: self.name,
            lasts: LASTS.as_nanos() / 1_000,
            spent: self.spent,
            owed: self.owed,
            want: self.want,
            least: self.least,
            next: self.next,
        }
    }
}

// === impl Caller ===

impl Caller {
    /// No caller: the call only returns units.
    const NONE: Caller = Caller {
        cost: Cost::Refund(0),
        enforcement: Enforcement::Enforce,
        on_denial: OnDenial::Keep,
    };

    const fn of(charge: &Charge<'_>) -> Caller {
        Caller {
            cost: charge.cost,
            enforcement: charge.enforcement,
            on_denial: charge.on_denial,
        }
    }

    /// Whether the call may have charged the caller's units, although it may have gone.
    fn is_charged(&self, reply: &ScriptReply, charge: &Charge<'_>, fitted: &FittedLimit) -> bool {
        let verdict = reply.of_one(charge, fitted);
        let is_denied = verdict.is_ok_and(|verdict| !verdict.is_allowed());
        !is_denied || self.on_denial == OnDenial::Charge
    }

    fn charge<'f>(&self, key: Key, fitted: &'f FittedLimit) -> Charge<'f> {
        Charge {
            enforcement: self.enforcement,
            on_denial: self.on_denial,
            ..Charge::new(key, &fitted.limit, self.cost)
        }
    }
}

#[cfg(test)]
mod under_test;
