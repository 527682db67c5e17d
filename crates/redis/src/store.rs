//! The store: from charges to a verdict, wherever their keys are.

use std::fmt;
use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;

use tollgate_core::{Charge, Cost, Decision, Key, KeyHasher, Store, StoreError, Verdict};

use crate::config::{Config, InvalidConfig};
use crate::connection::Opener;
use crate::cross_slot::CrossSlot;
use crate::denial_cache::DenialCache;
use crate::environment::Environment;
use crate::keys;
use crate::leased::Leased;
use crate::leases::Spend;
use crate::membership::Membership;
use crate::resp::{Malformed, bad_reply};
use crate::router::Router;
use crate::stage::{Budget, Request};
use crate::stats::Stats;
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
    membership: Membership,
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
            membership: Membership::new(&config.prefix, Arc::clone(&router)),
            router,
            stats,
        })
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
                let nothing = || bad_reply(Malformed("a verdict without a decision"));
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
        let ask = match self.leased.decide(request, spend).await? {
            Break(answer) => return Ok(self.denial_cache.remember(request, answer)),
            Continue(ask) => ask,
        };
        match self.strict.decide(request).await? {
            Break(answer) => {
                self.leased.finish_ask(ask, request, &answer);
                Ok(self.denial_cache.remember(request, answer))
            }
            Continue(refunds) => {
                drop(ask);
                self.cross_slot.decide(request, refunds).await
            }
        }
    }

    fn forget_refunded(&self, charges: &[Charge<'_>]) {
        for charge in charges {
            if matches!(charge.cost, Cost::Refund(_)) {
                self.denial_cache.forget(charge.key);
                self.leased.forget_estimate(charge.key);
            }
        }
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
}

mod operations;

#[cfg(test)]
pub(crate) mod under_test;
