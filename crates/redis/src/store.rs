//! The store: from charges to a verdict, wherever their keys are.

use std::fmt;
use std::sync::{Arc, OnceLock};

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tollgate_core::{
    Charge, Cost, Decision, Key, KeyHasher, Mode, Span, Store, StoreError, Verdict,
};

use crate::config::{Config, InvalidConfig};
use crate::connection::Opener;
use crate::cross_slot::{self, Queues, Refunds};
use crate::denial_cache::DenialCache;
use crate::environment::Environment;
use crate::fit::{Fitted, unfit};
use crate::keys;
use crate::leased;
use crate::leases::{Leases, Spend};
use crate::membership::{self, Membership};
use crate::monotonic::MonotonicClock;
use crate::resp::{Malformed, malformed};
use crate::router::{Asked, Router};
use crate::script_reply::{self, ScriptReply};
use crate::script_request::{self, ScriptRequest};
use crate::stats::{Counts, Stats};
use crate::write_back::{self, Here, Table};

/// The shared store: any number of processes, one budget.
///
/// Cheap to share behind an [`Arc`]; every task may ask at once, and those that ask together share
/// calls and round trips. See the crate's documentation for what it promises and what it costs.
pub struct Redis {
    router: Arc<Router>,
    timeout: Span,
    stats: Arc<Stats>,
    denial_cache: DenialCache,
    /// Requests over several slots that wait for their round.
    queues: Arc<Queues>,
    leases: Arc<Leases>,
    /// Gives back leases that nobody uses.
    keeper: JoinHandle<()>,
    table: Arc<Table>,
    /// Reports what was allowed here.
    reporter: JoinHandle<()>,
    node: Arc<Membership>,
    /// Says that this node is there, once it is one.
    heartbeat: OnceLock<JoinHandle<()>>,
    /// Whether denials are remembered.
    caches_denials: bool,
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
        let clock = || MonotonicClock::new(environment.clock.clone());
        let opener = Opener::new(config, environment)?;
        let router = Arc::new(Router::new(config, environment, opener, &stats));
        let leases = Leases::new(clock());
        let keeper = leased::keep(Arc::clone(&leases), Arc::clone(&router), Arc::clone(&stats));
        let keeper = tokio::spawn(keeper);
        let lasts = config.sync_interval + config.timeout;
        let table = Table::new(clock(), environment.redis_time.clone(), lasts);
        let reporter = write_back::keep(
            Arc::clone(&table),
            Arc::clone(&router),
            Arc::clone(&stats),
            (config.sync_interval, config.timeout),
        );
        let reporter = tokio::spawn(reporter);
        let node = Membership::new(&config.prefix);
        Ok(Redis {
            router,
            timeout: config.timeout,
            stats,
            denial_cache: DenialCache::default(),
            queues: Arc::default(),
            leases,
            keeper,
            table,
            reporter,
            node,
            heartbeat: OnceLock::new(),
            caches_denials: environment.caches_denials,
        })
    }

    /// How long a decision may take.
    pub(crate) const fn timeout(&self) -> Span {
        self.timeout
    }

    pub(crate) const fn router(&self) -> &Arc<Router> {
        &self.router
    }

    pub(crate) const fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    pub(crate) const fn caches_denials(&self) -> bool {
        self.caches_denials
    }

    pub(crate) const fn denial_cache(&self) -> &DenialCache {
        &self.denial_cache
    }

    pub(crate) const fn queues(&self) -> &Arc<Queues> {
        &self.queues
    }

    pub(crate) const fn leases(&self) -> &Arc<Leases> {
        &self.leases
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

    pub(crate) const fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// What the store has done so far.
    pub fn counts(&self) -> Counts {
        let (decided, keys) = self.table.decided_and_count();
        Counts {
            write_back_decisions: decided,
            write_back_keys: u64::try_from(keys).unwrap_or(u64::MAX),
            lease_decisions: self.leases.decided(),
            leases_held: u64::try_from(self.leases.count()).unwrap_or(u64::MAX),
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
            [charge] => self.spend(charge),
            _ => Spend::Cold,
        };
        if let (Spend::Granted(decision), [charge]) = (&spend, charges) {
            return Ok(Verdict::of_one(charge, *decision));
        }
        self.decide_on(charges, spend).await
    }

    /// One limit, one cost: as [`Redis::decide`], without a list.
    ///
    /// # Errors
    ///
    /// As [`Redis::decide`].
    pub async fn check(&self, charge: &Charge<'_>) -> Result<Decision, StoreError> {
        match self.spend(charge) {
            Spend::Granted(decision) => Ok(decision),
            more => {
                let verdict = self.decide_on(std::slice::from_ref(charge), more).await?;
                let nothing = || malformed(Malformed("a verdict without a decision"));
                verdict.decisions.first().copied().ok_or_else(nothing)
            }
        }
    }

    /// Decides what is not on lease.
    async fn decide_on(&self, charges: &[Charge<'_>], spend: Spend) -> Result<Verdict, StoreError> {
        // One budget, whoever is asked in the course of it.
        let mut began = None;
        let _aside = match self.decide_here(charges, &mut began).await? {
            Here::Decided(verdict) => return Ok(verdict),
            Here::Not(aside) => aside,
        };
        let since = began.unwrap_or_else(Instant::now);
        self.decide_there(charges, spend, since).await
    }

    /// Asks Redis, unless it has denied lately.
    async fn decide_there(
        &self,
        charges: &[Charge<'_>],
        spend: Spend,
        since: Instant,
    ) -> Result<Verdict, StoreError> {
        self.forget_refunded(charges);
        let decided = self.decide_by_redis(charges, spend, since).await;
        // A denial that Redis told before it refunded may have been remembered meanwhile.
        self.forget_refunded(charges);
        decided
    }

    fn forget_refunded(&self, charges: &[Charge<'_>]) {
        for charge in charges {
            if matches!(charge.cost, Cost::Refund(_)) {
                self.denial_cache.forget(charge.key);
                self.leases.estimates().forget(charge.key);
            }
        }
    }

    async fn decide_by_redis(
        &self,
        charges: &[Charge<'_>],
        spend: Spend,
        since: Instant,
    ) -> Result<Verdict, StoreError> {
        match charges {
            [] => Ok(Verdict::default()),
            [charge] => {
                let fitted = Fitted::new(charge.limit).map_err(unfit)?;
                let connections = self.stats.connections();
                // A lease that is to be renewed is not given up for it.
                if !spend.holds_some()
                    && let Some(verdict) =
                        self.denial_cache
                            .verdict(charge, &fitted, connections, since)
                {
                    self.stats.denied_here();
                    return Ok(verdict);
                }
                if let Some(verdict) = self.decide_leased(charge, spend, since).await? {
                    return Ok(verdict);
                }
                match charge.sharing.mode {
                    Mode::Leased => self.decide_unleased(charge, &fitted, since).await,
                    Mode::Strict | Mode::WriteBack => self.decide_one(charge, &fitted, since).await,
                }
            }
            _ => self.decide_all(charges, since).await,
        }
    }

    async fn decide_one(
        &self,
        charge: &Charge<'_>,
        fitted: &Fitted,
        since: Instant,
    ) -> Result<Verdict, StoreError> {
        let reply = self.ask_one(charge, fitted, since).await?;
        self.conclude(charge, fitted, &reply, since).await
    }

    /// Remembers a denial, so that the next one on the key costs Redis nothing.
    pub(crate) fn remember(
        &self,
        charge: &Charge<'_>,
        fitted: &Fitted,
        reply: &ScriptReply,
        wait: Span,
    ) {
        if !self.caches_denials {
            return;
        }
        if let Ok(snapshot) = reply.snapshot(fitted) {
            let connections = self.stats.connections();
            self.denial_cache
                .remember(charge, fitted, snapshot, wait, connections, Instant::now());
        }
    }

    async fn decide_all(
        &self,
        charges: &[Charge<'_>],
        since: Instant,
    ) -> Result<Verdict, StoreError> {
        let fitted = script_request::fitted(charges).map_err(unfit)?;
        let in_micros = script_reply::charges_in_micros(charges, &fitted);
        let (bill, fitted) = script_reply::bill(&in_micros, &fitted)?;
        if self.router.is_cluster() && cross_slot::crosses_slots(&bill) {
            return self.decide_apart(charges, Refunds::ToDo, since).await;
        }
        let reply = self.ask(|| ScriptRequest::of(&bill, &fitted), since).await;
        let reply = reply.map_err(|asked| asked.into_error(self.timeout))?;
        if reply.is_blocked() {
            return self.decide_apart(charges, Refunds::Done, since).await;
        }
        reply.of(&bill, &fitted).map_err(malformed)
    }

    /// Asks whoever serves the keys.
    pub(crate) async fn ask(
        &self,
        request: impl Fn() -> ScriptRequest,
        since: Instant,
    ) -> Result<ScriptReply, Asked> {
        self.router.ask(request, since).await
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.keeper.abort();
        self.reporter.abort();
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
