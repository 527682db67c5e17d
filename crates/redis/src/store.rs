//! The store: from charges to a verdict, wherever their keys are.

use std::fmt;
use std::ops::ControlFlow::{Break, Continue};
use std::sync::{Arc, OnceLock};

use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant};
use tollgate_core::{Charge, Cost, Decision, Key, KeyHasher, Span, Store, StoreError, Verdict};

use crate::config::{Config, InvalidConfig};
use crate::connection::Opener;
use crate::cross_slot::CrossSlot;
use crate::denial_cache::DenialCache;
use crate::environment::Environment;
use crate::keys;
use crate::leased::Leased;
use crate::leases::Spend;
use crate::membership::{self, Membership};
use crate::resp::{Malformed, malformed};
use crate::router::Router;
use crate::stage::{Budget, Request};
use crate::stats::{Counts, Stats};
use crate::strict::Strict;
use crate::write_back::WriteBack;

/// The shared store: any number of processes, one budget.
///
/// Cheap to share behind an [`Arc`]; every task may ask at once, and those that ask together share
/// calls and round trips. See the crate's documentation for what it promises and what it costs.
pub struct Redis {
    router: Arc<Router>,
    stats: Arc<Stats>,
    leased: Leased,
    write_back: WriteBack,
    denial_cache: DenialCache,
    strict: Strict,
    cross_slot: CrossSlot,
    node: Arc<Membership>,
    /// Says that this node is there, once it is one.
    heartbeat: OnceLock<JoinHandle<()>>,
}

// === impl Redis ===

impl Redis {
    /// A store as `config` says. Connects in the background, again and again until Redis is there;
    /// until then decisions are errors.
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

    /// As [`Redis::connect`], with connections and clocks of the caller's. No part of the crate's
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
        Ok(Redis {
            leased: Leased::new(environment, shared()),
            write_back: WriteBack::new(config, environment, shared()),
            denial_cache: DenialCache::new(environment.caches_denials, Arc::clone(&stats)),
            strict: Strict::new(Arc::clone(&router)),
            cross_slot: CrossSlot::new(Arc::clone(&router)),
            node: Membership::new(&config.prefix),
            heartbeat: OnceLock::new(),
            router,
            stats,
        })
    }

    /// How long a decision may take.
    pub(crate) fn timeout(&self) -> Span {
        self.router.timeout()
    }

    pub(crate) const fn router(&self) -> &Arc<Router> {
        &self.router
    }

    pub(crate) const fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// Counts among the nodes from now on.
    pub(crate) fn join_nodes(&self) {
        let keep = || membership::keep(Arc::clone(&self.node), Arc::clone(&self.router));
        self.heartbeat.get_or_init(|| tokio::spawn(keep()));
    }

    pub(crate) fn is_node(&self) -> bool {
        self.heartbeat.get().is_some()
    }

    pub(crate) const fn node(&self) -> &Arc<Membership> {
        &self.node
    }

    /// Nothing that is known of the key here stands any more.
    pub(crate) fn forget(&self, key: Key) {
        self.denial_cache.forget(key);
        self.leased.forget(key);
    }

    /// What the store has done so far.
    pub fn counts(&self) -> Counts {
        let count = |count| u64::try_from(count).unwrap_or(u64::MAX);
        let (write_back_decisions, keys) = self.write_back.decided_and_count();
        let (lease_decisions, leases) = self.leased.decided_and_count();
        Counts {
            write_back_decisions,
            write_back_keys: count(keys),
            lease_decisions,
            leases_held: count(leases),
            ..self.stats.counts()
        }
    }

    /// Whether Redis answers: all of it that is known.
    pub fn is_up(&self) -> bool {
        self.router.is_up()
    }

    /// All or nothing over `charges`, at Redis's time.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unfit`] if Redis cannot keep a limit ([`crate::check`]),
    /// [`StoreError::TooManyCharges`], [`StoreError::Unreachable`], [`StoreError::TimedOut`] or
    /// [`StoreError::BadReply`].
    pub async fn decide(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        let spend = match charges {
            [charge] => self.leased.spend(charge),
            _ => Spend::Cold,
        };
        match (spend, charges) {
            (Spend::Granted(decision), [charge]) => Ok(Verdict::of_one(charge, decision)),
            (spend, _) => self.decide_on(charges, spend).await,
        }
    }

    /// One limit, one cost: as [`Redis::decide`], without a list.
    ///
    /// # Errors
    ///
    /// As [`Redis::decide`].
    pub async fn check(&self, charge: &Charge<'_>) -> Result<Decision, StoreError> {
        match self.leased.spend(charge) {
            Spend::Granted(decision) => Ok(decision),
            more => {
                let verdict = self.decide_on(std::slice::from_ref(charge), more).await?;
                let nothing = || malformed(Malformed("a verdict without a decision"));
                verdict.decisions.first().copied().ok_or_else(nothing)
            }
        }
    }

    /// Decides what is not on lease: on local counts, or else by Redis.
    async fn decide_on(&self, charges: &[Charge<'_>], spend: Spend) -> Result<Verdict, StoreError> {
        let mut budget = Budget::default();
        let passed = match self.write_back.decide(charges, &mut budget).await? {
            Break(verdict) => return Ok(verdict),
            Continue(passed) => passed,
        };
        let request = Request::new(charges, passed.is_blocked, budget.since())?;
        self.forget_refunded(charges);
        let decided = self.decide_by_redis(&request, spend).await;
        // A denial that Redis replied before it refunded may have been remembered meanwhile.
        self.forget_refunded(charges);
        decided
    }

    /// Each stage decides or passes on. What Redis answers is remembered, for the next requests.
    async fn decide_by_redis(
        &self,
        request: &Request<'_>,
        spend: Spend,
    ) -> Result<Verdict, StoreError> {
        // A lease that is to be renewed is not given up for a denial.
        if !spend.holds_some()
            && let Some(verdict) = self.denial_cache.decide(request)
        {
            return Ok(verdict);
        }
        let asking = match self.leased.decide(request, spend).await? {
            Break(answer) => return Ok(self.denial_cache.remember(request, answer)),
            Continue(asking) => asking,
        };
        match self.strict.decide(request).await? {
            Break(answer) => {
                self.leased.hear(asking, request, &answer);
                Ok(self.denial_cache.remember(request, answer))
            }
            Continue(refunds) => {
                drop(asking);
                self.cross_slot.decide(request, refunds).await
            }
        }
    }

    fn forget_refunded(&self, charges: &[Charge<'_>]) {
        for charge in charges {
            if matches!(charge.cost, Cost::Refund(_)) {
                self.denial_cache.forget(charge.key);
                self.leased.refunded(charge.key);
            }
        }
    }

    /// Returns every lease and reports every local count, after which this instance holds and
    /// leases nothing any more. To be called before the store is dropped; what is not returned is
    /// charged when its lease ends, [`crate::LEASE_LASTS`] later.
    pub async fn close(&self) {
        let deadline = Instant::now() + 2 * Duration::from(self.timeout());
        self.write_back.report_all(deadline).await;
        self.leave().await;
        self.leased.close(deadline).await;
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if let Some(heartbeat) = self.heartbeat.get() {
            heartbeat.abort();
        }
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("reach", &self.router.name())
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
}

#[cfg(test)]
pub(crate) mod under_test;
