//! The world of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::account::Account;
use crate::deployment::Deployment;
use crate::fault_kind::FaultCounts;
use crate::instance::nanos_since;
use crate::network::Network;
use crate::plan::Plan;
use crate::random::Random;

/// The network, Redis, the account and the history of one run.
pub(crate) struct World {
    pub(crate) start: Instant,
    pub(crate) network: Arc<Network>,
    redis: Mutex<Deployment>,
    dead: Mutex<BTreeSet<usize>>,
    account: Mutex<Account>,
    faults: Mutex<FaultCounts>,
    /// For each instance, how many callers had gone away during a round when last checked.
    departures: Mutex<BTreeMap<usize, [u64; 2]>>,
    history: Mutex<Vec<String>>,
}

// === impl World ===

impl World {
    pub(crate) fn new(plan: &Plan) -> Arc<World> {
        let mut random = Random::new(plan.seed ^ 0x5EED);
        let network = Network::new(Random::new(random.word()));
        let servers = Random::new(random.word());
        let setup = &plan.setup;
        let redis = Deployment::new(setup.topology, setup.base_micros, servers);
        let redis = redis.with_clock(setup.standing_micros, setup.late_micros);
        Arc::new(World {
            start: Instant::now(),
            network,
            redis: Mutex::new(redis),
            dead: Mutex::default(),
            account: Mutex::new(Account::new(plan)),
            faults: Mutex::default(),
            departures: Mutex::default(),
            history: Mutex::default(),
        })
    }

    pub(crate) fn redis(&self) -> MutexGuard<'_, Deployment> {
        lock(&self.redis)
    }

    pub(crate) fn account(&self) -> MutexGuard<'_, Account> {
        lock(&self.account)
    }

    /// Faults, and those effects that neither the network nor the servers see.
    pub(crate) fn faults(&self) -> MutexGuard<'_, FaultCounts> {
        lock(&self.faults)
    }

    /// Faults, and all their effects.
    pub(crate) fn all_faults(&self) -> FaultCounts {
        let mut all = self.faults().clone();
        all.add(&self.network.faults());
        all.add(&self.redis().faults);
        all
    }

    /// Whether callers have gone away since the last call: while a round reserved, and while it
    /// confirmed. `counts` are those of the instance by now.
    pub(crate) fn note_departures(&self, instance: usize, counts: [u64; 2]) -> [bool; 2] {
        let before = lock(&self.departures).insert(instance, counts);
        let before = before.unwrap_or_default();
        [0, 1].map(|phase| counts[phase] > before[phase])
    }

    /// Virtual nanoseconds since the start.
    pub(crate) fn now(&self) -> u64 {
        nanos_since(self.start)
    }

    /// Adds a line to the history.
    pub(crate) fn note(&self, what: impl AsRef<str>) {
        let millis = self.now() / 1_000_000;
        lock(&self.history).push(format!("{millis:6} ms  {}", what.as_ref()));
    }

    pub(crate) fn take_history(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.history))
    }

    /// Marks an instance as dead: none of its requests arrives any more.
    pub(crate) fn bury(&self, instance: usize) {
        lock(&self.dead).insert(instance);
        self.network.break_all(|link| link.instance == instance);
    }

    pub(crate) fn is_dead(&self, instance: usize) -> bool {
        lock(&self.dead).contains(&instance)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
