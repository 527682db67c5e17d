//! What a page shows, as JSON; docs/dashboard.md describes its members.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
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

/// The rules with the most decisions, of all that are added one after the other.
#[derive(Default)]
struct BusiestRules(Vec<RuleCounts>);

/// The decisions under a rule.
struct RuleCounts {
    domain: String,
    path: String,
    total: u64,
    counts: Counts,
}

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
    let mut busiest = BusiestRules::default();
    let visited = engine.visit_decisions(|domain, rule, outcome, count| {
        *outcomes.entry(outcome).or_default() += count;
        busiest.add(domain, rule, outcome, count);
        Ok::<(), Infallible>(())
    });
    let Ok(()) = visited;
    busiest.drop_others();
    let names = busiest.0.iter().map(|rule| (&*rule.domain, &*rule.path));
    let names: HashSet<(&str, &str)> = names.collect();
    let limits = engine.rules();
    let limits = limits.find_rules(|name| names.contains(&(&*name.domain, &*name.path)));
    let mut known: HashMap<(String, String), (Option<String>, String)> = limits
        .map(|view| {
            let RuleName { domain, path, name } = &*view.rule;
            ((domain.clone(), path.clone()), (name.clone(), view.text))
        })
        .collect();
    let rules = busiest.0.into_iter().map(|rule| {
        let counts = rule.counts;
        let rule = (rule.domain, rule.path);
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

// === impl BusiestRules ===

impl BusiestRules {
    /// Adds a count. Those of a rule come one after the other.
    fn add(&mut self, domain: &str, path: &str, outcome: &str, count: u64) {
        let is_last = |rule: &&mut RuleCounts| rule.domain == domain && rule.path == path;
        if self.0.last_mut().filter(is_last).is_none() {
            // Not for each rule, so that one costs little.
            if self.0.len() == 2 * RULES_SHOWN {
                self.drop_others();
            }
            self.0.push(RuleCounts {
                domain: domain.to_owned(),
                path: path.to_owned(),
                total: 0,
                counts: Counts::new(),
            });
        }
        if let Some(rule) = self.0.last_mut() {
            rule.total += count;
            rule.counts.insert(outcome.to_owned(), json!(count));
        }
    }

    /// Keeps the first [`RULES_SHOWN`], by their decisions and then by their names.
    fn drop_others(&mut self) {
        let key = |rule: &RuleCounts| (Reverse(rule.total), rule.domain.clone(), rule.path.clone());
        self.0.sort_by_cached_key(key);
        self.0.truncate(RULES_SHOWN);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_rules_only_some_are_kept_the_busiest_first() {
        let mut busiest = BusiestRules::default();
        for number in 0..1000_u64 {
            let path = format!("{number:03}");
            busiest.add("d", &path, "allowed", number % 500);
            busiest.add("d", &path, "denied", 1);
            assert!(busiest.0.len() <= 2 * RULES_SHOWN);
        }
        busiest.drop_others();
        let shown = busiest.0.iter().map(|rule| (rule.total, &*rule.path));
        let shown: Vec<_> = shown.collect();
        assert_eq!(shown.len(), RULES_SHOWN);
        assert_eq!(shown[..3], [(500, "499"), (500, "999"), (499, "498")]);
        let counts = Value::from(busiest.0[0].counts.clone());
        assert_eq!(counts, json!({"allowed": 499, "denied": 1}));
    }
}
