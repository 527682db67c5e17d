//! The store: from charges to a verdict, wherever their keys are.

use std::fmt;
use std::sync::{Arc, OnceLock};

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tollgate_core::{
    Charge, Cost, Decision, Key, KeyHasher, Mode, Span, Store, StoreError, Verdict,
};

use crate::apart::{self, Queues, Refunds};
use crate::config::{Config, InvalidConfig};
use crate::connection::Opener;
use crate::fit::{Fitted, unfit};
use crate::keys;
use crate::leased;
use crate::leases::{Leases, Spend};
use crate::nodes::{self, Nodes};
use crate::question::{self, Question};
use crate::reach::{Asked, Reach};
use crate::refusals::Refusals;
use crate::resp::{Malformed, malformed};
use crate::script::{Caller, ClockOf, Scripts};
use crate::simulated::Surroundings;
use crate::stats::{Counts, Stats};
use crate::told::{self, Told};
use crate::watch::Watch;
use crate::write_back::{self, Here, Table};

/// The shared store: any number of processes, one budget.
///
/// Cheap to share behind an [`Arc`]; every task may ask at once, and those that ask together share
/// calls and round trips. See the crate's documentation for what it promises and what it costs.
pub struct Redis {
    reach: Arc<Reach>,
    timeout: Span,
    stats: Arc<Stats>,
    refusals: Refusals,
    /// Requests over several slots that wait for their round.
    queues: Arc<Queues>,
    leases: Arc<Leases>,
    /// Gives back leases that nobody uses.
    keeper: JoinHandle<()>,
    table: Arc<Table>,
    /// Reports what was admitted here.
    reporter: JoinHandle<()>,
    node: Arc<Nodes>,
    /// Says that this node is there, once it is one.
    heart: OnceLock<JoinHandle<()>>,
    #[cfg(test)]
    now: Option<Arc<std::sync::atomic::AtomicU64>>,
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
        let caller = Caller {
            prefix: config.prefix.clone(),
            ..Caller::default()
        };
        Redis::with(config, Scripts::new(ClockOf::Redis), &caller, None)
    }

    /// A store that runs these scripts.
    pub(crate) fn with(
        config: &Config,
        scripts: Scripts,
        caller: &Caller,
        surroundings: Option<&Surroundings>,
    ) -> Result<Redis, InvalidConfig> {
        config.validate()?;
        let stats = Arc::new(Stats::default());
        let transport = surroundings.map(|given| Arc::clone(&given.transport));
        let opener = Opener::new(config, scripts, transport)?;
        let reach = Arc::new(Reach::new(config, opener, caller, &stats));
        #[cfg(not(test))]
        let watch = || Watch::of(surroundings.map(|given| Arc::clone(&given.clock)));
        #[cfg(test)]
        let watch = || Watch::told(caller.now.clone());
        let leases = Leases::new(watch());
        let keeper = leased::keep(Arc::clone(&leases), Arc::clone(&reach), Arc::clone(&stats));
        let keeper = tokio::spawn(keeper);
        let lasts = config.sync_interval + config.timeout;
        #[cfg(not(test))]
        let table = Table::new(watch(), lasts);
        #[cfg(test)]
        let table = Table::under_test(caller.now.clone(), lasts);
        let reporter = write_back::keep(
            Arc::clone(&table),
            Arc::clone(&reach),
            Arc::clone(&stats),
            (config.sync_interval, config.timeout),
        );
        let reporter = tokio::spawn(reporter);
        let node = Nodes::new(&config.prefix);
        Ok(Redis {
            reach,
            timeout: config.timeout,
            stats,
            refusals: Refusals::default(),
            queues: Arc::default(),
            leases,
            keeper,
            table,
            reporter,
            node,
            heart: OnceLock::new(),
            #[cfg(test)]
            now: None,
        })
    }

    /// How long a decision may take.
    pub(crate) const fn timeout(&self) -> Span {
        self.timeout
    }

    pub(crate) const fn reach(&self) -> &Arc<Reach> {
        &self.reach
    }

    pub(crate) const fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    pub(crate) const fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    pub(crate) const fn queues(&self) -> &Arc<Queues> {
        &self.queues
    }

    pub(crate) const fn leases(&self) -> &Arc<Leases> {
        &self.leases
    }

    /// Counts among the nodes from now on.
    pub(crate) fn join_nodes(&self) {
        let keep = || nodes::keep(Arc::clone(&self.node), Arc::clone(&self.reach));
        self.heart.get_or_init(|| tokio::spawn(keep()));
    }

    pub(crate) fn is_node(&self) -> bool {
        self.heart.get().is_some()
    }

    pub(crate) const fn node(&self) -> &Arc<Nodes> {
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
        self.reach.is_up()
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

    /// Asks Redis, unless it has refused lately.
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
                self.refusals.forget(charge.key);
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
                        self.refusals.verdict(charge, &fitted, connections, since)
                {
                    self.stats.refused_here();
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
        let told = self.ask_one(charge, fitted, since).await?;
        self.conclude(charge, fitted, &told, since).await
    }

    /// Remembers a refusal, so that the next one on the key costs Redis nothing.
    pub(crate) fn remember(&self, charge: &Charge<'_>, fitted: &Fitted, told: &Told, wait: Span) {
        // Under test the time is made up, and nothing is refused for as long as it really takes.
        #[cfg(test)]
        if self.now.is_some() {
            return;
        }
        if let Ok(seen) = told.seen(fitted) {
            let connections = self.stats.connections();
            self.refusals
                .remember(charge, fitted, seen, wait, connections, Instant::now());
        }
    }

    async fn decide_all(
        &self,
        charges: &[Charge<'_>],
        since: Instant,
    ) -> Result<Verdict, StoreError> {
        let fitted = question::fitted(charges).map_err(unfit)?;
        let in_micros = told::charges_in_micros(charges, &fitted);
        let (bill, fitted) = told::bill(&in_micros, &fitted)?;
        if self.reach.is_cluster() && apart::is_apart(&bill) {
            return self.decide_apart(charges, Refunds::ToDo, since).await;
        }
        let told = self.ask(|| Question::of(&bill, &fitted), since).await;
        let told = told.map_err(|asked| asked.into_error(self.timeout))?;
        if told.is_blocked() {
            return self.decide_apart(charges, Refunds::Done, since).await;
        }
        told.of(&bill, &fitted).map_err(malformed)
    }

    /// Asks whoever serves the keys.
    pub(crate) async fn ask(
        &self,
        question: impl Fn() -> Question,
        since: Instant,
    ) -> Result<Told, Asked> {
        self.reach.ask(question, since).await
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.keeper.abort();
        self.reporter.abort();
        if let Some(heart) = self.heart.get() {
            heart.abort();
        }
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("reach", &self.reach.name())
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
mod under_test;
