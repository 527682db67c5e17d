//! Opens the stores that the settings name.

use std::sync::Arc;

use tollgate_core::{Clock, Limit};
use tollgate_engine::{AnyShared, DEFAULT_STORE, Stores};
use tollgate_memory::Memory;
use tracing::info;

use crate::config::{Config, Place};
use crate::serve_error::ServeError;

/// Builds every store. Shared stores connect in the background. If the settings do not set the size
/// of the store in memory, it is sized for these limits.
///
/// # Errors
///
/// The store whose settings cannot be used, and why.
pub(crate) fn open(
    config: &Config,
    limits: &[Limit],
    clock: Arc<dyn Clock>,
) -> Result<Stores, ServeError> {
    let mut builder = Memory::builder().clock(clock).limits(limits);
    if let Some(keys) = config.memory.max_keys {
        builder = builder.max_keys(keys);
    }
    if let Some(bytes) = config.memory.max_bytes {
        builder = builder.max_bytes(bytes);
    }
    let memory = builder.try_build().map_err(|bytes| ServeError::Memory {
        setting: match config.memory.max_bytes {
            Some(_) => "memory.max_bytes",
            None => "memory.max_keys",
        },
        bytes,
    })?;
    let mut stores = Stores::new(memory);
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
fn open_shared(name: &str, place: &Place) -> Result<Option<AnyShared>, ServeError> {
    let config = match place {
        Place::Memory => return Ok(None),
        Place::Shared(config) => config,
    };
    let shared = config.open();
    let shared = shared.map_err(|source| ServeError::Store {
        name: name.to_owned(),
        source,
    })?;
    let backend = config.backend().name;
    let (servers, tls) = (config.servers(), config.is_encrypted());
    info!(store = name, servers, tls, "connecting to {backend}");
    Ok(Some(shared))
}
