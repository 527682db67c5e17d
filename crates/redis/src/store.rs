//! The store: from charges to a verdict, wherever their keys are.

use std::convert::Infallible;
use std::fmt;
use std::ops::ControlFlow::Break;
use std::sync::Arc;

use tokio::time::Instant;
use tollgate_core::{
    Charge, Decision, KeptReservation, Key, KeyHasher, NewReservation, ReserveVerdict, Settled,
    SettledCharge, Store, StoreError, Verdict,
};

use crate::caches::{Caches, ChargeGuard};
use crate::config::{Config, InvalidConfig};
use crate::connection::Opener;
use crate::cross_slot::CrossSlot;
use crate::denial_cache::DenialCache;
use crate::environment::Environment;
use crate::keys;
use crate::leased::{Leased, acts_if_denied};
use crate::leases::Spend;
use crate::membership::Membership;
use crate::resp::{Malformed, bad_reply};
use crate::router::Router;
use crate::settlement::Settlements;
use crate::stage::{Budget, Request, Stage, end_or_pass};
use crate::stats::Stats;
use crate::strict::Strict;
use crate::write_back::{SetAside, WriteBack};

/// The shared store: any number of instances share one budget.
///
/// Cheap to share behind an [`Arc`]; any number of tasks may use it concurrently, and their
/// requests share calls and round trips. See the crate's documentation for its guarantees and
/// costs.
pub struct Redis {
    router: Arc<Router>,
    stats: Arc<Stats>,
    leased: Leased,
    write_back: WriteBack,
    denial_cache: DenialCache,
    caches: Arc<Caches>,
    strict: Strict,
    cross_slot: CrossSlot,
    settlements: Settlements,
    membership: Membership,
}

// === impl Redis ===

impl Redis {
    /// A store with these settings. Connects in the background, and retries until Redis is
    /// reachable; until then decisions are errors.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`].
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub fn connect(config: &Config) -> Result<Redis, InvalidConfig> {
        Redis::connect_within(config, &Environment::default())
    }

    /// As [`Redis::connect`], with the caller's connections and clocks. Not part of the crate's
    /// interface: it may change with any version.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`].
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    #[doc(hidden)]
    pub fn connect_within(
        config: &Config,
        environment: &Environment,
    ) -> Result<Redis, InvalidConfig> {
        config.validate()?;
        let stats = Arc::new(Stats::default());
        let opener = Opener::new(config, environment)?;
        let router = Arc::new(Router::new(config, environment, opener, &stats));
        let shared = || (Arc::clone(&router), Arc::clone(&stats));
        let caches = Arc::new(Caches::new(environment, &stats));
        Ok(Redis {
            leased: Leased::new(environment, shared(), &caches),
            write_back: WriteBack::new(config, environment, shared(), &caches),
            denial_cache: DenialCache::new(Arc::clone(&caches)),
            strict: Strict::new(Arc::clone(&router)),
            cross_slot: CrossSlot::new(environment, Arc::clone(&router), &caches),
            settlements: Settlements::new(Arc::clone(&router)),
            membership: Membership::new(&config.prefix, Arc::clone(&router)),
            caches,
            router,
            stats,
        })
    }

    /// Decides `charges`, all or nothing, at Redis's time.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unfit`] if Redis cannot keep a limit ([`crate::check`]),
    /// [`StoreError::TooManyCharges`], [`StoreError::Unreachable`], [`StoreError::Rejected`],
    /// [`StoreError::TimedOut`] or [`StoreError::BadReply`].
    pub async fn decide(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        self.decide_within(charges, Budget::default()).await
    }

    /// As [`Redis::decide`], with this time budget.
    async fn decide_within(
        &self,
        charges: &[Charge<'_>],
        mut budget: Budget,
    ) -> Result<Verdict, StoreError> {
        let spend = match charges {
            [charge] => match self.leased.spend(charge) {
                Spend::Granted(decision) => return Ok(Verdict::of_one(charge, decision)),
                spend => spend,
            },
            _ => return self.decide_several(charges, budget).await,
        };
        let Break(decided) = self.pass_through(charges, spend, &mut budget).await;
        decided
    }

    /// Decides a request with several limits, which Redis decides: at most twice, if units that
    /// this instance had leased denied it.
    async fn decide_several(
        &self,
        charges: &[Charge<'_>],
        mut budget: Budget,
    ) -> Result<Verdict, StoreError> {
        let mut is_last = acts_if_denied(charges);
        if is_last {
            let _returned = self.leased.return_leases(charges, &mut budget).await;
        }
        loop {
            let Break(decided) = self.pass_through(charges, Spend::Cold, &mut budget).await;
            let denied = match &decided {
                Ok(verdict) if !is_last && !verdict.is_allowed() => verdict,
                _ => return decided,
            };
            is_last = true;
            let returned = self.leased.return_denying(charges, denied, &mut budget);
            if !returned.await {
                return decided;
            }
        }
    }

    /// Decides a single charge, as [`Redis::decide`], without a list.
    ///
    /// # Errors
    ///
    /// As [`Redis::decide`].
    pub async fn check(&self, charge: &Charge<'_>) -> Result<Decision, StoreError> {
        match self.leased.spend(charge) {
            Spend::Granted(decision) => Ok(decision),
            spend => {
                let (charges, mut budget) = (std::slice::from_ref(charge), Budget::default());
                let Break(decided) = self.pass_through(charges, spend, &mut budget).await;
                let nothing = || bad_reply(Malformed("a verdict without a decision"));
                decided?.decisions.first().copied().ok_or_else(nothing)
            }
        }
    }

    /// Runs the stages in order: each decides, or passes the request on; the last one decides.
    /// Leased units were tried before, in `decide` and `check`, without a future.
    async fn pass_through(
        &self,
        charges: &[Charge<'_>],
        spend: Spend,
        budget: &mut Budget,
    ) -> Stage<Infallible> {
        let passed = end_or_pass(self.write_back.decide(charges, budget).await)?;
        let request = Request::new(charges, passed.is_blocked, budget.turn(), &self.caches)?;
        self.denial_cache.decide(&request, &spend)?;
        let guard = ChargeGuard::new(&self.caches, charges);
        let Break(decided) = self.ask_redis(&request, spend, passed.aside).await;
        guard.end(decided.as_ref().ok());
        Break(decided)
    }

    /// Runs the stages that have Redis decide.
    async fn ask_redis(
        &self,
        request: &Request<'_>,
        spend: Spend,
        aside: Option<SetAside>,
    ) -> Stage<Infallible> {
        let ask = end_or_pass(self.leased.renew(request, spend).await)?;
        let refunds = end_or_pass(self.strict.decide(request, ask).await)?;
        Break(self.cross_slot.decide(request, refunds, aside).await)
    }

    /// Decides, and stores a reservation if the request is allowed; see
    /// [`SharedStore::reserve`](tollgate_core::SharedStore::reserve).
    pub(crate) async fn reserve_kept(
        &self,
        charges: &[Charge<'_>],
        new: &NewReservation<'_>,
    ) -> Result<ReserveVerdict, StoreError> {
        let since = Instant::now();
        self.settlements.check(charges, new)?;
        let _not_counted_here = self.write_back.pass_on(charges, since).await?;
        let guard = ChargeGuard::new(&self.caches, charges);
        let reserved = self.settlements.reserve(charges, new, since).await;
        let verdict = reserved.as_ref().ok().map(|reserved| &reserved.verdict);
        // No estimate learns from what was reserved.
        guard.end(verdict.filter(|verdict| !verdict.is_allowed()));
        reserved
    }

    pub(crate) async fn find_kept(
        &self,
        record: Key,
    ) -> Result<Option<KeptReservation>, StoreError> {
        self.settlements.find(record).await
    }

    /// Settles a reservation. Drops its keys from the caches, as any refund does, also if the
    /// caller goes away.
    pub(crate) async fn settle_kept(
        &self,
        record: Key,
        settled: &[SettledCharge<'_>],
    ) -> Result<Settled, StoreError> {
        let since = Instant::now();
        let charges: Vec<Charge<'_>> = settled.iter().map(|one| one.charge).collect();
        let keys: Vec<Key> = charges.iter().map(|charge| charge.key).collect();
        let _not_counted_here = self.write_back.pass_on(&charges, since).await?;
        let (lines, guard) = ((settled, &charges[..]), self.caches.guard(keys));
        let settled = self.settlements.settle(record, lines, guard, since);
        settled.await
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("servers", &self.router.name())
            .finish_non_exhaustive()
    }
}

impl KeyHasher for Redis {
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key {
        keys::key(parts)
    }
}

impl Store for Redis {
    fn decide(
        &self,
        charges: &[Charge<'_>],
    ) -> impl Future<Output = Result<Verdict, StoreError>> + Send {
        Redis::decide(self, charges)
    }

    fn decide_batch(
        &self,
        batch: &[&[Charge<'_>]],
    ) -> impl Future<Output = Vec<Result<Verdict, StoreError>>> + Send {
        batch::decide(self, batch)
    }
}

mod batch;

mod operations;

#[cfg(test)]
pub(crate) mod under_test;
