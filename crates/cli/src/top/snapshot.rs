//! A snapshot of a service, as docs/dashboard.md describes it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::printable::Printable;

/// The version of snapshots that this program reads.
pub(super) const VERSION: u64 = 1;
/// A snapshot has at most so many rules.
const RULES_MAX: usize = 100;
/// A snapshot has at most so many routes, and as many upstreams.
const ROUTES_MAX: usize = 50;
/// The outcomes of denied decisions. Without the store, whether the limit is exceeded is unknown.
const DENIED: [&str; 2] = ["denied", "store_unavailable"];

/// What a service did until now. Every text in it is printable.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Snapshot {
    pub(super) program: Printable,
    pub(super) uptime_millis: u64,
    /// Decisions by outcome.
    pub(super) outcomes: Counts,
    pub(super) rules: Vec<Rule>,
    /// By listener, the decisions that took at most so long.
    pub(super) latency: BTreeMap<Printable, Vec<(Bound, u64)>>,
    pub(super) keys: Keys,
    pub(super) memory: Option<MemoryUse>,
    pub(super) stores: Vec<Store>,
    /// What the gateway does, if there is one and the service sends it.
    pub(super) gateway: Option<Gateway>,
    pub(super) reloads: Reloads,
}

/// Decisions by outcome, since the start.
pub(super) type Counts = BTreeMap<Printable, u64>;

/// The upper bound of a bucket of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bound(pub(super) Duration);

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Rule {
    pub(super) domain: Printable,
    pub(super) rule: Printable,
    /// Its own name, if it has one and the service sends it.
    pub(super) name: Option<Printable>,
    pub(super) limit: Option<Printable>,
    pub(super) budget: Option<Budget>,
    pub(super) counts: Counts,
}

/// How much the hottest key of a rule has used.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Budget {
    pub(super) used: u64,
    pub(super) capacity: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Keys {
    pub(super) hottest: Vec<Key>,
    pub(super) most_denied: Vec<Key>,
    pub(super) decisions: u64,
    pub(super) denials: u64,
    pub(super) missed: u64,
    pub(super) seconds: u64,
    pub(super) error_max: u64,
    pub(super) denial_error_max: u64,
    pub(super) hashed: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Key {
    pub(super) domain: Printable,
    pub(super) rule: Printable,
    pub(super) entries: Vec<(Printable, Printable)>,
    pub(super) whole: bool,
    pub(super) count: u64,
    pub(super) error: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MemoryUse {
    pub(super) live_keys: u64,
    pub(super) evicted_keys: u64,
    pub(super) arena_bytes: u64,
    pub(super) bytes_max: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Store {
    pub(super) name: Printable,
    pub(super) up: bool,
    pub(super) instances: u64,
    pub(super) fallbacks: u64,
    /// The state of its circuit breaker, if it has one and the service sends it.
    pub(super) breaker: Option<Printable>,
    /// Why it cannot be used, or a part of it.
    pub(super) trouble: Option<Printable>,
    pub(super) metrics: BTreeMap<Printable, u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Gateway {
    pub(super) routes: Vec<Route>,
    pub(super) upstreams: Vec<Upstream>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Route {
    pub(super) route: Printable,
    pub(super) counts: Counts,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Upstream {
    pub(super) upstream: Printable,
    pub(super) answers: u64,
    /// The answers that took at most so long.
    pub(super) times: Vec<(Bound, u64)>,
    pub(super) errors: Counts,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Reloads {
    pub(super) ok: u64,
    pub(super) failed: u64,
    pub(super) recent: Vec<Reload>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reload {
    pub(super) seconds_ago: u64,
    pub(super) ok: bool,
    pub(super) rules: u64,
    pub(super) domains: u64,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) omitted: u64,
    pub(super) unreadable: Option<Printable>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Diagnostic {
    pub(super) severity: Printable,
    pub(super) file: Printable,
    pub(super) line: u64,
    pub(super) column: u64,
    pub(super) message: Printable,
    pub(super) help: Option<Printable>,
}

// === impl Snapshot ===

impl Snapshot {
    /// The decisions of these outcomes.
    pub(super) fn count(&self, outcomes: &[&str]) -> u64 {
        sum(&self.outcomes, outcomes)
    }

    /// All decisions.
    pub(super) fn total(&self) -> u64 {
        total(&self.outcomes)
    }

    /// The decisions that denied.
    pub(super) fn denied(&self) -> u64 {
        self.count(&DENIED)
    }

    /// A count of a rule by its domain and path; see [`read`].
    pub(super) fn read_rule(
        &self,
        domain: &str,
        rule: &str,
        count: impl Fn(&Rule) -> u64,
    ) -> Option<u64> {
        let is_it = |one: &Rule| &*one.domain == domain && &*one.rule == rule;
        read(&self.rules, RULES_MAX, is_it, count)
    }
}

// === impl Gateway ===

impl Gateway {
    /// A count of a route; see [`read`].
    pub(super) fn read_route(&self, name: &str, count: impl Fn(&Route) -> u64) -> Option<u64> {
        read(&self.routes, ROUTES_MAX, |one| &*one.route == name, count)
    }

    /// Figures of an upstream; see [`read`].
    pub(super) fn read_upstream<'s, F: Default>(
        &'s self,
        name: &str,
        figures: impl Fn(&'s Upstream) -> F,
    ) -> Option<F> {
        let is_it = |one: &Upstream| &*one.upstream == name;
        read(&self.upstreams, ROUTES_MAX, is_it, figures)
    }
}

// === impl Rule ===

impl Rule {
    /// All decisions by this rule.
    pub(super) fn total(&self) -> u64 {
        total(&self.counts)
    }

    /// Those that it denied.
    pub(super) fn denied(&self) -> u64 {
        sum(&self.counts, &DENIED)
    }
}

/// Reads figures of one of the busiest, of which a snapshot has at most so many: the default, as 0,
/// if all are listed and it is not among them; `None` if it may have been left out.
fn read<'l, T, F: Default>(
    busiest: &'l [T],
    most: usize,
    is_it: impl Fn(&T) -> bool,
    figures: impl Fn(&'l T) -> F,
) -> Option<F> {
    match busiest.iter().find(|one| is_it(one)) {
        Some(found) => Some(figures(found)),
        None => (busiest.len() < most).then(F::default),
    }
}

/// All of the counts together.
pub(super) fn total(counts: &Counts) -> u64 {
    counts.values().copied().fold(0, u64::saturating_add)
}

/// Those of these outcomes.
pub(super) fn sum(counts: &Counts, outcomes: &[&str]) -> u64 {
    let named = counts
        .iter()
        .filter(|(name, _)| outcomes.contains(&&***name));
    named.map(|(_, count)| *count).fold(0, u64::saturating_add)
}

// === impl Bound ===

impl<'de> Deserialize<'de> for Bound {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bound, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        let bound = Duration::try_from_secs_f64(seconds);
        bound.map(Bound).map_err(D::Error::custom)
    }
}
