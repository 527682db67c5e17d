//! The stores of an engine: which of them serves which domain, and how each is closed.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tollgate_core::{
    CLOSE_WITHIN, Charge, Clock, DecidedBy, Key, KeyHasher, Limit, Moment, SharedStore, Store,
    StoreError, StoreMetric, Timeline, Verdict,
};
use tollgate_fallback::{Fallback, FallbackCounts};
use tollgate_memory::{Memory, Shortage, Stats};
use tracing::{debug, warn};

use crate::any_shared::AnyShared;

/// The name of the store that serves every domain which no other store serves.
pub const DEFAULT_STORE: &str = "default";

/// All stores. One memory of a fixed size has the state of all domains that are kept in memory, and
/// of the domains that are decided locally while their shared store is unavailable.
pub struct Stores {
    memory: Arc<EngineMemory>,
    /// The first one serves every domain that has no other.
    all: Vec<NamedStore>,
    /// By domain, the index of its store in `all`.
    by_domain: HashMap<String, usize>,
}

/// The state of a shared store at one moment.
#[derive(Clone, Debug)]
pub struct StoreSnapshot<'s> {
    /// Its name in logs and metrics.
    pub name: &'s str,
    /// [`SharedStore::is_up`].
    pub is_up: bool,
    /// [`SharedStore::trouble`].
    pub trouble: Option<String>,
    /// [`SharedStore::instances`].
    pub instances: u32,
    /// How many requests were decided without it.
    pub fallbacks: FallbackCounts,
    /// [`SharedStore::metrics`].
    pub metrics: Vec<StoreMetric>,
}

/// A store and its name in logs and metrics.
pub(crate) struct NamedStore {
    pub(crate) name: String,
    pub(crate) store: DomainStore,
}

/// The store of some domains.
pub(crate) enum DomainStore {
    Memory(SharedMemory),
    Shared(Box<Fallback<AnyShared, SharedMemory>>),
}

/// The memory of an engine.
pub(crate) type EngineMemory = Memory<Arc<dyn Clock>>;

/// The memory, which several stores use.
pub(crate) struct SharedMemory(Arc<EngineMemory>);

// === impl Stores ===

impl Stores {
    /// Every domain in `memory`.
    pub fn new(memory: Memory<Arc<dyn Clock>>) -> Stores {
        let memory = Arc::new(memory);
        let default = NamedStore {
            name: DEFAULT_STORE.to_owned(),
            store: DomainStore::Memory(SharedMemory(Arc::clone(&memory))),
        };
        Stores {
            memory,
            all: vec![default],
            by_domain: HashMap::new(),
        }
    }

    /// Every domain in `shared` that has no other store.
    #[must_use]
    pub fn with_default(mut self, shared: AnyShared) -> Stores {
        self.all[0].store = self.with_fallback(shared);
        self
    }

    /// These domains in memory, whatever the default is.
    #[must_use]
    pub fn with_memory(self, name: &str, domains: impl IntoIterator<Item = String>) -> Stores {
        let memory = SharedMemory(Arc::clone(&self.memory));
        self.with_store(name, domains, DomainStore::Memory(memory))
    }

    /// These domains in `shared`.
    #[must_use]
    pub fn with_shared(
        self,
        name: &str,
        domains: impl IntoIterator<Item = String>,
        shared: AnyShared,
    ) -> Stores {
        let store = self.with_fallback(shared);
        self.with_store(name, domains, store)
    }

    fn with_fallback(&self, shared: AnyShared) -> DomainStore {
        let memory = SharedMemory(Arc::clone(&self.memory));
        DomainStore::Shared(Box::new(Fallback::new(shared, memory)))
    }

    fn with_store(
        mut self,
        name: &str,
        domains: impl IntoIterator<Item = String>,
        store: DomainStore,
    ) -> Stores {
        let index = self.all.len();
        self.all.push(NamedStore {
            name: name.to_owned(),
            store,
        });
        let domains = domains.into_iter();
        self.by_domain.extend(domains.map(|domain| (domain, index)));
        self
    }

    /// The store of a domain; the default one for a name that is not UTF-8.
    pub(crate) fn of(&self, domain: Option<&str>) -> &NamedStore {
        // Most services have only one store, so skip the look-up.
        let index = match self.by_domain.is_empty() {
            true => None,
            false => domain.and_then(|name| self.by_domain.get(name)),
        };
        &self.all[index.copied().unwrap_or(0)]
    }

    /// The domains for which a store was chosen.
    pub(crate) fn chosen_stores(&self) -> impl Iterator<Item = (&str, &NamedStore)> {
        let chosen = self.by_domain.iter();
        chosen.map(|(domain, index)| (domain.as_str(), &self.all[*index]))
    }

    /// The memory, which has the state of every domain without a shared store.
    pub(crate) fn memory(&self) -> &EngineMemory {
        &self.memory
    }

    /// The monotonic time of this process.
    pub(crate) fn now(&self) -> Moment {
        self.memory.clock().on(Timeline::Monotonic)
    }

    pub(crate) fn memory_stats(&self) -> Stats {
        self.memory.stats()
    }

    /// [`Memory::shortage`] of the memory of this process.
    pub(crate) fn shortage(&self, limit: &Limit) -> Option<Shortage> {
        self.memory.shortage(limit)
    }

    /// Whether a store is shared with other instances.
    pub fn has_shared(&self) -> bool {
        self.shared_stores().next().is_some()
    }

    pub(crate) fn snapshots(&self) -> impl Iterator<Item = StoreSnapshot<'_>> {
        self.shared_stores().map(|(name, fallback)| StoreSnapshot {
            name,
            is_up: fallback.shared().is_up(),
            trouble: fallback.shared().trouble(),
            instances: fallback.shared().instances(),
            fallbacks: fallback.counts(),
            metrics: fallback.shared().metrics(),
        })
    }

    /// The shared stores, by name.
    pub(crate) fn shared_stores(
        &self,
    ) -> impl Iterator<Item = (&str, &Fallback<AnyShared, SharedMemory>)> {
        self.all.iter().filter_map(|named| match &named.store {
            DomainStore::Memory(_) => None,
            DomainStore::Shared(fallback) => Some((named.name.as_str(), &**fallback)),
        })
    }

    /// Closes every shared store, within [`CLOSE_WITHIN`]. Nothing may be decided afterwards.
    pub(crate) async fn close(self: Arc<Stores>) {
        let mut closing = JoinSet::new();
        for index in 0..self.all.len() {
            let stores = Arc::clone(&self);
            closing.spawn(async move { stores.all[index].close().await });
        }
        closing.join_all().await;
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.all.iter().map(|named| &named.name);
        f.debug_list().entries(names).finish()
    }
}

// === impl NamedStore ===

impl NamedStore {
    /// Whether other instances share it.
    pub(crate) const fn is_shared(&self) -> bool {
        matches!(self.store, DomainStore::Shared(_))
    }

    /// Whether it answers; the memory of this process always does.
    pub(crate) fn is_up(&self) -> bool {
        match &self.store {
            DomainStore::Memory(_) => true,
            DomainStore::Shared(fallback) => fallback.shared().is_up(),
        }
    }

    async fn close(&self) {
        let DomainStore::Shared(fallback) = &self.store else {
            return;
        };
        let store = &*self.name;
        let deadline = Instant::now() + CLOSE_WITHIN;
        match timeout_at(deadline, fallback.shared().close()).await {
            // At the deadline, it has given up.
            Ok(()) if Instant::now() < deadline => {
                debug!(store, "leases returned, counts reported")
            }
            _ => warn!(
                store,
                within = ?CLOSE_WITHIN,
                "not all leases could be returned, and they expire by themselves; some counts may \
                 be lost"
            ),
        }
    }
}

impl fmt::Debug for NamedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NamedStore").field(&self.name).finish()
    }
}

// === impl DomainStore ===

impl DomainStore {
    /// As [`Store::decide`]. If a shared store had no answer, also this instance's share of each
    /// limit that is decided on it.
    pub(crate) async fn explain(
        &self,
        charges: &[Charge<'_>],
    ) -> Result<(Verdict, Option<Vec<Option<Limit>>>), StoreError> {
        let shared = match self {
            DomainStore::Memory(memory) => return Ok((memory.decide(charges).await?, None)),
            DomainStore::Shared(shared) => shared,
        };
        let verdict = shared.explain(charges).await?;
        let shares = || charges.iter().map(|charge| shared.share(charge)).collect();
        let is_local = verdict.decided_by == DecidedBy::Fallback;
        Ok((verdict, is_local.then(shares)))
    }

    /// Refunds units where they were charged.
    pub(crate) async fn refund(
        &self,
        charges: &[Charge<'_>],
        charged_by: DecidedBy,
    ) -> Result<Verdict, StoreError> {
        match self {
            DomainStore::Memory(memory) => memory.decide(charges).await,
            DomainStore::Shared(shared) => shared.refund(charges, charged_by).await,
        }
    }

    /// Whether it answers, as far as is known.
    pub(crate) fn is_up(&self) -> bool {
        match self {
            DomainStore::Memory(_) => true,
            DomainStore::Shared(shared) => shared.shared().is_up(),
        }
    }
}

impl KeyHasher for DomainStore {
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key {
        match self {
            DomainStore::Memory(memory) => memory.key(parts),
            DomainStore::Shared(shared) => shared.key(parts),
        }
    }
}

impl Store for DomainStore {
    async fn decide(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        match self {
            DomainStore::Memory(memory) => memory.decide(charges).await,
            DomainStore::Shared(shared) => shared.decide(charges).await,
        }
    }

    async fn decide_batch(&self, batch: &[&[Charge<'_>]]) -> Vec<Result<Verdict, StoreError>> {
        match self {
            DomainStore::Memory(memory) => memory.decide_batch(batch).await,
            DomainStore::Shared(shared) => shared.decide_batch(batch).await,
        }
    }
}

// === impl SharedMemory ===

impl SharedMemory {
    pub(crate) fn memory(&self) -> &EngineMemory {
        &self.0
    }
}

impl KeyHasher for SharedMemory {
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key {
        self.0.key(parts)
    }
}

impl Store for SharedMemory {
    fn decide(
        &self,
        charges: &[Charge<'_>],
    ) -> impl Future<Output = Result<Verdict, StoreError>> + Send {
        self.0.decide(charges)
    }

    fn decide_batch(
        &self,
        batch: &[&[Charge<'_>]],
    ) -> impl Future<Output = Vec<Result<Verdict, StoreError>>> + Send {
        self.0.decide_batch(batch)
    }
}

impl fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedMemory")
    }
}
