//! Opens the stores that the settings name.

use std::sync::Arc;

use tollgate_core::{Clock, Limit};
use tollgate_engine::{AnyShared, DEFAULT_STORE, Stores};
use tollgate_memory::Memory;
use tollgate_redis::{InvalidConfig, Redis, Servers};
use tracing::info;

use crate::config::{Config, Place};

/// Builds every store. Redis is connected in the background. If the settings do not set the size of
/// the store in memory, it is sized for these limits.
///
/// # Errors
///
/// The name of the store whose settings cannot be used, and why.
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
    let mut stores = Stores::new(builder.build());
    if let Some(shared) = open_shared(DEFAULT_STORE, &config.store)? {
        stores = stores.with_default(shared);
    }
    for other in &config.stores {
        let (name, domains) = (&other.name, other.domains.iter().cloned());
        stores = match open_shared(name, &other.place)? {
            Some(shared) => stores.with_shared(name, domains, shared),
            None => stores.with_memory(name, domains),
        };
    }
    Ok(stores)
}

/// The shared store at `place`; `None` for memory.
fn open_shared(name: &str, place: &Place) -> Result<Option<AnyShared>, (String, InvalidConfig)> {
    let config = match place {
        Place::Memory => return Ok(None),
        Place::Redis(config) => config,
    };
    let redis = Redis::connect(config).map_err(|invalid| (name.to_owned(), invalid))?;
    let (servers, tls) = (shown(&config.servers), config.tls.is_some());
    info!(store = name, servers, tls, "connecting to Redis");
    Ok(Some(AnyShared::new(redis)))
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
