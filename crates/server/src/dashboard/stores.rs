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
        "fallbacks": fallbacks.allowed + fallbacks.denied + fallbacks.failed + fallbacks.local,
        "metrics": numbers.collect::<Map<_, _>>(),
    })
}
