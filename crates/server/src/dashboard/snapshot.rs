//! What a page shows, as JSON; docs/dashboard.md describes its members.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::task::spawn_blocking;
use tollgate_core::{RuleName, Span};
use tollgate_engine::{Engine, HOT_KEYS_MAX, KeyWatch, Outcome, ReloadRecord};

use super::budgets::Budgets;
use super::gateway::gateway;
use super::keys::Shown;
use super::stores;
use crate::metrics::Metrics;
use crate::options::Options;

/// The version of a snapshot. It changes when a member changes its meaning or is removed.
const VERSION: u32 = 1;
/// The most rules in a snapshot, those with the most decisions. `outcomes` has them all.
const RULES_SHOWN: usize = 100;
/// The live keys in memory are counted for every snapshot with a number that this divides.
const MEMORY_EVERY: u64 = 10;

/// Makes snapshots. Keys are counted as long as this lives.
pub(super) struct Snapshots {
    engine: Arc<Engine>,
    metrics: Arc<Metrics>,
    options: Options,
    watch: KeyWatch,
    count: u64,
    memory: Value,
}

/// The counts of a rule by outcome.
type Counts = Map<String, Value>;

// === impl Snapshots ===

impl Snapshots {
    pub(super) fn new(engine: &Arc<Engine>, metrics: &Arc<Metrics>, options: Options) -> Snapshots {
        Snapshots {
            engine: Arc::clone(engine),
            metrics: Arc::clone(metrics),
            options,
            watch: engine.watch_keys(),
            count: 0,
            memory: Value::Null,
        }
    }

    /// The state of the service now, so long after it started.
    pub(super) async fn make(&mut self, uptime: Duration) -> Value {
        let shown = Shown {
            engine: &self.engine,
            show_values: self.options.show_values,
        };
        let keys = self.watch.hot_keys(HOT_KEYS_MAX);
        let budgets = shown.budgets(&keys).await;
        if self.count.is_multiple_of(MEMORY_EVERY) {
            let engine = Arc::clone(&self.engine);
            let counted = spawn_blocking(move || stores::memory(&engine)).await;
            self.memory = counted.unwrap_or(Value::Null);
        }
        self.count += 1;
        let (outcomes, rules) = decisions(&self.engine, budgets);
        let reloads = self.engine.recent_reloads();
        let counts = self.engine.reload_counts();
        json!({
            "version": VERSION,
            "program": env!("CARGO_PKG_VERSION"),
            "uptimeMillis": u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX),
            "outcomes": outcomes,
            "rules": rules,
            "latency": self.metrics.latency(),
            "keys": shown.keys(&keys),
            "memory": self.memory,
            "stores": stores::shared(&self.engine),
            "gateway": gateway(&self.metrics),
            "reloads": {
                "ok": counts.ok,
                "failed": counts.failed,
                "recent": reloads.iter().map(reload).collect::<Vec<_>>(),
            },
        })
    }
}

/// All decisions by outcome, and the rules with the most of them.
fn decisions(engine: &Engine, mut budgets: Budgets) -> (Counts, Vec<Value>) {
    let mut outcomes: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut by_rule: BTreeMap<(String, String), (u64, Counts)> = BTreeMap::new();
    let visited = engine.visit_decisions(|domain, rule, outcome, count| {
        *outcomes.entry(outcome).or_default() += count;
        let (total, counts) = by_rule
            .entry((domain.to_owned(), rule.to_owned()))
            .or_default();
        *total += count;
        counts.insert(outcome.to_owned(), json!(count));
        Ok::<(), Infallible>(())
    });
    let Ok(()) = visited;
    let limits = engine.rules();
    let limits = limits.rules();
    let mut known: BTreeMap<(String, String), (Option<String>, String)> = limits
        .map(|view| {
            let RuleName { domain, path, name } = &*view.rule;
            ((domain.clone(), path.clone()), (name.clone(), view.text))
        })
        .collect();
    let mut rules: Vec<_> = by_rule.into_iter().collect();
    rules.sort_by_key(|(_, (total, _))| Reverse(*total));
    rules.truncate(RULES_SHOWN);
    let rules = rules.into_iter().map(|(rule, (_, counts))| {
        let (name, limit) = known.remove(&rule).unzip();
        json!({
            "domain": rule.0,
            "rule": rule.1,
            "name": name.flatten(),
            "limit": limit,
            "budget": budgets.remove(&rule),
            "counts": counts,
        })
    });
    let outcomes = outcomes.into_iter();
    let outcomes = outcomes.map(|(outcome, count)| (outcome.to_owned(), json!(count)));
    (outcomes.collect(), rules.collect())
}

/// One of `reloads.recent`.
fn reload((record, ago): &(ReloadRecord, Span)) -> Value {
    let diagnostics = record.diagnostics.iter().map(|found| {
        json!({
            "severity": found.severity.to_string(),
            "file": found.file,
            "line": found.line,
            "column": found.column,
            "message": found.message,
            "help": found.help,
        })
    });
    json!({
        "secondsAgo": ago.as_nanos() / 1_000_000_000,
        "ok": record.outcome == Outcome::InEffect,
        "rules": record.rules,
        "domains": record.domains,
        "diagnostics": diagnostics.collect::<Vec<_>>(),
        "omitted": record.omitted,
        "unreadable": record.unreadable,
    })
}
