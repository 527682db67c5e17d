//! The stores of a service: which of them serves which domain, and a good end for each.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate_core::{Charge, Clock, Key, KeyHasher, Limit, Store, StoreError, Verdict};
use tollgate_memory::Memory;
use tollgate_redis::{Fallback, InvalidConfig, Redis, Servers};
use tracing::{debug, info, warn};

use crate::config::{Config, DEFAULT_STORE, Place};

/// How long giving back what a service has leased, and reporting what it has counted itself, may
/// take at its end.
pub const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// All stores. The state of all domains that are kept in memory, and of those that are decided on
/// locally while their Redis is away, is in one memory of a fixed size.
pub(crate) struct Stores {
    memory: Arc<Memory<Arc<dyn Clock>>>,
    /// The first one serves every domain that has no other.
    all: Vec<NamedStore>,
    /// By domain, the place of its store in `all`.
    others: HashMap<String, usize>,
}

/// A store and what it is called in logs and metrics.
pub(crate) struct NamedStore {
    pub(crate) name: String,
    pub(crate) store: DomainStore,
}

/// The store of some domains.
pub(crate) enum DomainStore {
    Memory(Shared),
    Redis(Box<Fallback<Shared>>),
}

/// The memory that several stores share.
pub(crate) struct Shared(Arc<Memory<Arc<dyn Clock>>>);

// === impl Stores ===

impl Stores {
    /// Builds every store. Redis is connected in the background. The store in memory is sized for
    /// these limits, if the settings do not say how large it is.
    ///
    /// # Errors
    ///
    /// What is wrong with which of them.
    pub(crate) fn open(
        config: &Config,
        limits: &[Limit],
        clock: Arc<dyn Clock>,
    ) -> Result<Stores, (String, InvalidConfig)> {
        let mut builder = Memory::builder().clock(clock).limits(limits);
        if let Some(keys) = config.memory.max_keys {
            builder = builder.max_keys(keys);
        }
        if let Some(bytes) = config.memory.max_bytes {
            builder = builder.max_bytes(bytes);
        }
        let mut stores = Stores {
            memory: Arc::new(builder.build()),
            all: Vec::new(),
            others: HashMap::new(),
        };
        stores.add(DEFAULT_STORE, &config.store)?;
        for other in &config.stores {
            let place = stores.add(&other.name, &other.place)?;
            let domains = other.domains.iter();
            stores
                .others
                .extend(domains.map(|domain| (domain.clone(), place)));
        }
        Ok(stores)
    }

    fn add(&mut self, name: &str, place: &Place) -> Result<usize, (String, InvalidConfig)> {
        let memory = Shared(Arc::clone(&self.memory));
        let store = match place {
            Place::Memory => DomainStore::Memory(memory),
            Place::Redis(config) => {
                let redis = Redis::connect(config).map_err(|invalid| (name.to_owned(), invalid))?;
                let (servers, tls) = (shown(&config.servers), config.tls.is_some());
                info!(store = name, servers, tls, "connecting to Redis");
                DomainStore::Redis(Box::new(Fallback::new(redis, memory)))
            }
        };
        self.all.push(NamedStore {
            name: name.to_owned(),
            store,
        });
        Ok(self.all.len() - 1)
    }

    /// The store of a domain; the default one for a name that is not UTF-8.
    pub(crate) fn of(&self, domain: Option<&str>) -> &NamedStore {
        // Most services have one store, and need not look.
        let place = match self.others.is_empty() {
            true => None,
            false => domain.and_then(|name| self.others.get(name)),
        };
        &self.all[place.copied().unwrap_or(0)]
    }

    /// The domains that a store was chosen for.
    pub(crate) fn chosen(&self) -> impl Iterator<Item = (&str, &NamedStore)> {
        let chosen = self.others.iter();
        chosen.map(|(domain, place)| (domain.as_str(), &self.all[*place]))
    }

    /// What is kept in this process.
    pub(crate) fn memory(&self) -> &Memory<Arc<dyn Clock>> {
        &self.memory
    }

    /// Those in Redis, by name.
    pub(crate) fn in_redis(&self) -> impl Iterator<Item = (&str, &Redis)> {
        self.all.iter().filter_map(|named| match &named.store {
            DomainStore::Memory(_) => None,
            DomainStore::Redis(fallback) => Some((named.name.as_str(), fallback.redis())),
        })
    }

    /// Gives back leases and reports own counts, within [`CLOSE_WITHIN`]. Nothing may be decided
    /// afterwards.
    pub(crate) async fn close(self: Arc<Stores>) {
        let mut closing = JoinSet::new();
        for place in 0..self.all.len() {
            let stores = Arc::clone(&self);
            closing.spawn(async move { stores.all[place].close().await });
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

fn shown(servers: &Servers) -> String {
    match servers {
        Servers::Single(address) => address.clone(),
        Servers::Cluster(addresses) => format!("cluster {}", addresses.join(", ")),
        Servers::Sentinel { addresses, master } => {
            format!("sentinel {master} at {}", addresses.join(", "))
        }
    }
}

// === impl NamedStore ===

impl NamedStore {
    /// Whether other nodes share it.
    pub(crate) const fn is_shared(&self) -> bool {
        matches!(self.store, DomainStore::Redis(_))
    }

    async fn close(&self) {
        let DomainStore::Redis(fallback) = &self.store else {
            return;
        };
        let store = &*self.name;
        match timeout(CLOSE_WITHIN, fallback.redis().close()).await {
            Ok(()) => debug!(store, "leases given back, counts reported"),
            Err(_) => warn!(
                store,
                within = ?CLOSE_WITHIN,
                "leases could not all be given back, and end by themselves; some counts may be lost"
            ),
        }
    }
}

// === impl DomainStore ===

impl KeyHasher for DomainStore {
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key {
        match self {
            DomainStore::Memory(memory) => memory.key(parts),
            DomainStore::Redis(redis) => redis.key(parts),
        }
    }
}

impl Store for DomainStore {
    async fn decide(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        match self {
            DomainStore::Memory(memory) => memory.decide(charges).await,
            DomainStore::Redis(redis) => redis.decide(charges).await,
        }
    }
}

// === impl Shared ===

impl KeyHasher for Shared {
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key {
        self.0.key(parts)
    }
}

impl Store for Shared {
    fn decide(
        &self,
        charges: &[Charge<'_>],
    ) -> impl Future<Output = Result<Verdict, StoreError>> + Send {
        self.0.decide(charges)
    }
}
