//! Opens the stores that the settings name.

use std::sync::Arc;

use tollgate_core::{Clock, Limit};
use tollgate_engine::{AnyShared, DEFAULT_STORE, Stores};
use tollgate_memory::{Builder, Memory};
use tollgate_rules::RuleSet;
use tracing::info;

use crate::config::{Config, Place};
use crate::serve_error::ServeError;
use crate::setting_warning::SettingWarning;

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
    let builder = size_memory(config, limits).clock(clock);
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

/// The store in memory, as large as the settings say, or else sized for these limits.
fn size_memory<'l>(config: &Config, limits: impl IntoIterator<Item = &'l Limit>) -> Builder {
    let mut builder = Memory::builder().limits(limits);
    if let Some(keys) = config.memory.max_keys {
        builder = builder.max_keys(keys);
    }
    if let Some(bytes) = config.memory.max_bytes {
        builder = builder.max_bytes(bytes);
    }
    builder
}

/// A warning if the memory is too small for the rules that are counted in it, about the one that
/// needs the most.
pub fn find_memory_shortage(config: &Config, rules: &RuleSet) -> Option<SettingWarning> {
    let limits: Vec<Limit> = rules.limits().collect();
    let builder = size_memory(config, &limits);
    let in_memory = rules
        .rules()
        .filter(|view| *config.store_of(&view.rule.domain).1 == Place::Memory);
    let short = in_memory.filter_map(|view| Some((builder.shortage(&view.limit?)?, view)));
    let (shortage, view) = short.min_by_key(|(shortage, _)| shortage.keys)?;
    Some(SettingWarning {
        path: "memory".to_owned(),
        code: "small-memory",
        message: format!(
            "the memory has room for {} keys of `{}` in `{}`, and is meant for {}",
            shortage.keys,
            view.rule.shown(),
            view.rule.domain,
            shortage.max_keys
        ),
        help: shortage.help(),
    })
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
