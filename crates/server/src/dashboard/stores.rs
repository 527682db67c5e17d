//! The health of the stores, for the page.

use serde_json::{Map, Value, json};
use tollgate_core::StoreMetricValue;
use tollgate_engine::{Engine, StoreSnapshot};

/// The memory of this process. Counting its keys reads all of it, so this is not for every
/// snapshot.
pub(super) fn memory(engine: &Engine) -> Value {
    let stats = engine.memory_stats();
    json!({
        "liveKeys": stats.live_keys,
        "evictedKeys": stats.evicted_keys,
        "arenaBytes": stats.arena_bytes,
        "bytesMax": stats.bytes_max,
    })
}

/// Each shared store with its metrics that are numbers, by their names.
pub(super) fn shared(engine: &Engine) -> Vec<Value> {
    engine.shared_stores().iter().map(store).collect()
}

/// A shared store.
fn store(store: &StoreSnapshot<'_>) -> Value {
    let numbers = store
        .metrics
        .iter()
        .filter_map(|metric| match &metric.value {
            StoreMetricValue::Gauge(number) | StoreMetricValue::Counter(number) => {
                Some((metric.name.to_owned(), json!(number)))
            }
            _ => None,
        });
    let fallbacks = &store.fallbacks;
    json!({
        "name": store.name,
        "up": store.is_up,
        "instances": store.instances,
        "breaker": breaker(store),
        "trouble": store.trouble,
        "fallbacks": fallbacks.allowed + fallbacks.denied + fallbacks.failed + fallbacks.local,
        "metrics": numbers.collect::<Map<_, _>>(),
    })
}

/// The state of the circuit breakers of a store that has them, of which there is one for each
/// connection: `closed`, `open` if it is for any of them, or `connecting` before the first
/// connection.
fn breaker(store: &StoreSnapshot<'_>) -> Option<&'static str> {
    let count = |name: &str| {
        let mut metrics = store.metrics.iter();
        let found = metrics.find(|metric| metric.name == name)?;
        match found.value {
            StoreMetricValue::Counter(count) => Some(count),
            _ => None,
        }
    };
    count("breaker_openings")?;
    Some(match (store.is_up, count("connections")) {
        (true, _) => "closed",
        (false, Some(0)) => "connecting",
        (false, _) => "open",
    })
}
