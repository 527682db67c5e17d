//! The store: from charges to a verdict, wherever their keys are.

use std::fmt;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant, sleep};
use tollgate_core::{Charge, Cost, Key, KeyHasher, Span, Store, StoreError, Verdict, Wait};

use crate::apart::{self, Refunds};
use crate::cluster::{Cluster, Node};
use crate::config::{Config, InvalidConfig, Servers};
use crate::connection::Opener;
use crate::driver::{Driver, Place};
use crate::failure::Failure;
use crate::fit::{Fitted, InvalidForRedis};
use crate::keys;
use crate::lane::Lane;
use crate::question::{self, Bucket, Question};
use crate::refusals::Refusals;
use crate::resp::Malformed;
use crate::script::{Caller, Scripts};
use crate::stats::{Counts, Stats};
use crate::told::{self, Told};

/// How often a question follows a redirection.
const REDIRECTIONS_MAX: usize = 8;
/// How long to wait while a slot moves and some of its keys are on either side.
const SETTLING: Duration = Duration::from_millis(1);

/// The shared store: any number of processes, one budget.
///
/// Cheap to share behind an [`Arc`]; every task may ask at once, and those that ask together share
/// calls and round trips. See the crate's documentation for what it promises and what it costs.
pub struct Redis {
    reach: Reach,
    timeout: Span,
    stats: Arc<Stats>,
    refusals: Refusals,
    /// What keeps the map of a Cluster.
    keeper: Option<JoinHandle<()>>,
    #[cfg(test)]
    now: Option<Arc<std::sync::atomic::AtomicU64>>,
}

/// How nodes are reached.
enum Reach {
    One(Node),
    Cluster(Arc<Cluster>),
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
        Redis::with(config, Scripts::new(), &caller)
    }

    /// A store whose time the test tells.
    #[cfg(test)]
    pub(crate) fn under_test(config: &Config) -> Result<Redis, InvalidConfig> {
        let now = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let caller = Caller {
            prefix: config.prefix.clone(),
            now: Some(Arc::clone(&now)),
            ..Caller::default()
        };
        let mut redis = Redis::with(config, Scripts::under_test(), &caller)?;
        redis.now = Some(now);
        Ok(redis)
    }

    /// The moment that the scripts take for now.
    #[cfg(test)]
    pub(crate) fn set_now(&self, micros: u64) {
        let now = self.now.as_ref().expect("built by `under_test`");
        now.store(micros, std::sync::atomic::Ordering::SeqCst);
    }

    fn with(config: &Config, scripts: Scripts, caller: &Caller) -> Result<Redis, InvalidConfig> {
        config.validate()?;
        let stats = Arc::new(Stats::default());
        let scripts = match config.servers {
            Servers::Cluster(_) => scripts.clustered(),
            _ => scripts,
        };
        let opener = Opener::new(config, scripts)?;
        let lanes = Lanes {
            opener,
            caller: caller.clone(),
            batch: config.batch,
            count: config.connections,
            patience: Duration::from(config.timeout) / 10 * 9,
            stats: Arc::clone(&stats),
        };
        let (reach, keeper) = match &config.servers {
            Servers::Single(address) => (Reach::One(lanes.to(Place::Fixed(address.clone()))), None),
            Servers::Sentinel { addresses, master } => {
                let place = Place::Watched {
                    sentinels: addresses.as_slice().into(),
                    master: master.as_str().into(),
                };
                (Reach::One(lanes.to(place)), None)
            }
            Servers::Cluster(seeds) => {
                let open = move |address: &str| lanes.to(Place::Fixed(address.to_owned()));
                let cluster = Arc::new(Cluster::new(seeds.clone(), open));
                let kept = Arc::clone(&cluster);
                let keeper = tokio::spawn(async move { kept.keep().await });
                (Reach::Cluster(cluster), Some(keeper))
            }
        };
        Ok(Redis {
            reach,
            timeout: config.timeout,
            stats,
            refusals: Refusals::default(),
            keeper,
            #[cfg(test)]
            now: None,
        })
    }

    /// How long a decision may take.
    pub(crate) const fn timeout(&self) -> Span {
        self.timeout
    }

    /// What the store has done so far.
    pub fn counts(&self) -> Counts {
        self.stats.counts()
    }

    /// Whether Redis answers: all of it that is known.
    pub fn is_up(&self) -> bool {
        match &self.reach {
            Reach::One(node) => node.is_up(),
            Reach::Cluster(cluster) => {
                let masters = cluster.masters();
                !masters.is_empty() && masters.iter().all(|node| node.is_up())
            }
        }
    }

    /// All or nothing over `charges`, at Redis's time.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unfit`] if Redis cannot keep a limit ([`crate::check`]),
    /// [`StoreError::TooManyCharges`], [`StoreError::Unreachable`], [`StoreError::TimedOut`] or
    /// [`StoreError::BadReply`].
    pub async fn decide(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        let since = Instant::now();
        for charge in charges {
            if matches!(charge.cost, Cost::Refund(_)) {
                self.refusals.forget(charge.key);
            }
        }
        match charges {
            [] => Ok(Verdict::default()),
            [charge] => {
                let fitted = Fitted::new(charge.limit).map_err(unfit)?;
                if let Some(verdict) = self.refusals.verdict(charge, &fitted) {
                    self.stats.refused_here();
                    return Ok(verdict);
                }
                self.decide_one(charge, &fitted, since).await
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
        let asked = self.ask(|| Question::of_one(charge, fitted), since).await;
        let told = match asked {
            Err(Asked {
                failure: Failure::Changed,
                ..
            }) => {
                self.ask(|| Bucket::generalised(charge, fitted), since)
                    .await
            }
            asked => asked,
        };
        let told = told.map_err(|asked| asked.into_error(self.timeout))?;
        if told.is_blocked() {
            return self.decide_apart(&[*charge], Refunds::Done, since).await;
        }
        let verdict = told.of_one(charge, fitted).map_err(malformed)?;
        if let Some(Wait::For(wait)) = verdict.refusal.map(|refusal| refusal.wait) {
            self.remember(charge, fitted, &told, wait);
        }
        Ok(verdict)
    }

    /// Remembers a refusal, so that the next one on the key costs Redis nothing.
    fn remember(&self, charge: &Charge<'_>, fitted: &Fitted, told: &Told, wait: Span) {
        // Under test the time is made up, and nothing is refused for as long as it really takes.
        #[cfg(test)]
        if self.now.is_some() {
            return;
        }
        if let Ok((seen, now)) = told.seen(fitted) {
            self.refusals.remember(charge, fitted, seen, now, wait);
        }
    }

    /// A decision was made without Redis.
    pub(crate) fn fell_back(&self) {
        self.stats.fell_back();
    }

    async fn decide_all(
        &self,
        charges: &[Charge<'_>],
        since: Instant,
    ) -> Result<Verdict, StoreError> {
        let fitted = question::fitted(charges).map_err(unfit)?;
        let in_micros = told::charges_in_micros(charges, &fitted);
        let (bill, fitted) = told::bill(&in_micros, &fitted)?;
        if matches!(self.reach, Reach::Cluster(_)) && apart::is_apart(&bill) {
            return self.decide_apart(charges, Refunds::ToDo, since).await;
        }
        let told = self.ask(|| Question::of(&bill, &fitted), since).await;
        let told = told.map_err(|asked| asked.into_error(self.timeout))?;
        if told.is_blocked() {
            return self.decide_apart(charges, Refunds::Done, since).await;
        }
        told.of(&bill, &fitted).map_err(malformed)
    }

    /// Asks whoever serves the keys, and follows redirections: a question that was redirected was
    /// not answered.
    pub(crate) async fn ask(
        &self,
        question: impl Fn() -> Question,
        since: Instant,
    ) -> Result<Told, Asked> {
        let first = question();
        let key = first.keys()[0];
        let cluster = match &self.reach {
            Reach::One(node) => return node.ask(first, key, 0, false, since).await,
            Reach::Cluster(cluster) => cluster,
        };
        let slot = keys::slot(key);
        let mut next = Some(first);
        let mut is_asking = false;
        let mut node = cluster.serving(slot);
        for _ in 0..REDIRECTIONS_MAX {
            let Some(serving) = node.clone() else { break };
            let question = next.take().unwrap_or_else(&question);
            let asked = serving.ask(question, key, slot, is_asking, since).await;
            let Err(Asked { failure, .. }) = &asked else {
                return asked;
            };
            is_asking = false;
            match failure {
                Failure::Moved { slot, address } => {
                    cluster.moved(*slot, address);
                    node = cluster.node(address);
                }
                Failure::Ask { address } => {
                    node = cluster.node(address);
                    is_asking = true;
                }
                Failure::TryAgain => {
                    cluster.stale.notify_one();
                    sleep(SETTLING).await;
                    node = cluster.serving(slot);
                }
                Failure::Unreachable(_) => {
                    cluster.stale.notify_one();
                    return asked;
                }
                _ => return asked,
            }
            self.stats.redirected();
            if since.elapsed() >= Duration::from(self.timeout) {
                break;
            }
        }
        let address = node.map_or_else(|| "the cluster".to_owned(), |node| node.address.clone());
        Err(Asked {
            failure: Failure::unreachable("no node serves the slot"),
            address,
        })
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if let Some(keeper) = &self.keeper {
            keeper.abort();
        }
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reach = match &self.reach {
            Reach::One(node) => &node.address,
            Reach::Cluster(_) => "cluster",
        };
        f.debug_struct("Redis")
            .field("reach", &reach)
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

/// Opens the lanes of nodes.
struct Lanes {
    opener: Opener,
    caller: Caller,
    batch: usize,
    count: usize,
    /// A little less than the timeout: a timer rings late, never early.
    patience: Duration,
    stats: Arc<Stats>,
}

impl Lanes {
    fn to(&self, place: Place) -> Node {
        let lanes = (0..self.count).map(|_| {
            let driver = Driver {
                opener: self.opener.clone(),
                place: place.clone(),
                caller: self.caller.clone(),
                batch: self.batch,
            };
            let stats = Arc::clone(&self.stats);
            Lane::new(self.patience, stats, |shared| driver.drive(shared))
        });
        Node {
            address: place.name().to_owned(),
            lanes: lanes.collect(),
        }
    }
}

/// A failure and where it happened.
pub(crate) struct Asked {
    failure: Failure,
    address: String,
}

impl Asked {
    /// An answer that makes no sense.
    pub(crate) fn malformed(key: Key) -> Asked {
        Asked {
            failure: Failure::Malformed(Malformed("an answer to another question")),
            address: String::from_utf8_lossy(&keys::name(key)).into_owned(),
        }
    }

    /// The same, where it does not matter whether the question was answered.
    pub(crate) fn into_unsent(self) -> Asked {
        match self.failure {
            Failure::Lost => Asked {
                failure: Failure::unreachable("no answer in time, and nothing was charged"),
                ..self
            },
            _ => self,
        }
    }

    pub(crate) fn into_error(self, timeout: Span) -> StoreError {
        self.failure.into_error(&self.address, timeout)
    }
}

impl Node {
    /// Asks on the lane that the key belongs to, so that questions on one key gather in one call.
    async fn ask(
        &self,
        question: Question,
        key: Key,
        slot: u16,
        is_asking: bool,
        since: Instant,
    ) -> Result<Told, Asked> {
        let bits = usize::try_from(key.bits() & 0xFFFF_FFFF).unwrap_or(0);
        let lane = &self.lanes[bits % self.lanes.len()];
        lane.ask(question, slot, is_asking, since)
            .await
            .map_err(|failure| Asked {
                failure,
                address: self.address.clone(),
            })
    }
}

pub(crate) fn unfit(invalid: InvalidForRedis) -> StoreError {
    StoreError::Unfit {
        source: Box::new(invalid),
    }
}

pub(crate) fn malformed(malformed: Malformed) -> StoreError {
    StoreError::BadReply {
        source: Box::new(malformed),
    }
}
