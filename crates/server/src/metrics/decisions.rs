//! Decisions by domain, rule and outcome.
//!
//! Rules come from the operator's files, so each has its own series, found by its address without
//! hashing a text. What clients can name, the values of `detailed_metric` and `value_to_metric`,
//! has at most [`VALUE_SERIES_MAX`] series; what comes later is counted as its domain's
//! [`OTHER`]. The name of a domain that has no rules is never kept.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use tollgate_core::{Answer, Decision, Enforcement, Limited, RuleName, Status};
use tollgate_rules::{Resolved, RuleSet};

/// The most series whose names depend on what clients send.
pub const VALUE_SERIES_MAX: usize = 1000;
/// The longest such name, in bytes; a longer one is counted as [`OTHER`].
const VALUE_PATH_BYTES_MAX: usize = 512;
/// What is told in place of a name that there is no room for.
const OTHER: &str = "(other)";

/// The outcomes of one descriptor. The order is that of [`Outcome`].
const OUTCOMES: [&str; 10] = [
    "allowed",
    "over_soft",
    "uncharged",
    "denied",
    "store_unavailable",
    "quota_over",
    "shadow_denied",
    "unlimited",
    "no_limit",
    "unknown_domain",
];

/// What became of one descriptor.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// Admitted and charged.
    Allowed,
    /// Admitted and charged, in the soft part.
    OverSoft,
    /// Its limit admits it, another one refused the request.
    Uncharged,
    /// Refused.
    Denied,
    /// Denied because the shared store has no answer; its limit is not exceeded as far as anybody
    /// knows.
    StoreUnavailable,
    /// A quota that is over in a request that passes, because another quota is not.
    QuotaOver,
    /// Would be refused if the limit were enforced.
    ShadowDenied,
    /// Met a rule that does not count.
    Unlimited,
    /// Met no rule, or one that another replaces.
    NoLimit,
    /// Its domain has no rules.
    UnknownDomain,
}

/// How often each outcome came.
#[derive(Debug, Default)]
struct Tally([AtomicU64; OUTCOMES.len()]);

/// A domain, and a path below it.
type Series = (Arc<str>, Box<str>);

/// Every series.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    /// Those of the rules in force, and of their domains with an empty path and with [`OTHER`].
    rules: RwLock<BTreeMap<Series, Arc<Tally>>>,
    /// Those with clients' values in them. Clients can choose one so that it looks like a rule.
    values: RwLock<BTreeMap<Series, Arc<Tally>>>,
    unknown_domain: Tally,
}

/// The series of the rules in force, for the way of a decision.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    /// By the address of the rule's name, which lives as long as the rules that this belongs to.
    rules: HashMap<usize, Arc<Tally>>,
    domains: HashMap<String, OfDomain>,
}

/// The series of a domain that are no rule's.
#[derive(Debug)]
struct OfDomain {
    name: Arc<str>,
    no_limit: Arc<Tally>,
    other: Arc<Tally>,
}

/// Writes [`Decisions`] at each scrape.
#[derive(Debug)]
pub(super) struct Scrape(pub(super) Arc<Decisions>);

// === impl Decisions ===

impl Decisions {
    /// Makes a series for every rule, goes on with those that were there, and forgets the others.
    pub(crate) fn take_up(&self, rules: &RuleSet) -> Tallies {
        let mut before = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        let mut after = BTreeMap::new();
        let mut tallies = Tallies::default();
        for name in rules.domains() {
            let domain: Arc<str> = name.into();
            let of_domain = OfDomain {
                no_limit: go_on(&before, &mut after, &domain, ""),
                other: go_on(&before, &mut after, &domain, OTHER),
                name: domain,
            };
            tallies.domains.insert(name.to_owned(), of_domain);
        }
        for view in rules.rules() {
            let Some(OfDomain { name, .. }) = tallies.domains.get(&view.rule.domain) else {
                continue;
            };
            let tally = go_on(&before, &mut after, name, &view.rule.path);
            tallies.rules.insert(address(&view.rule), tally);
        }
        *before = after;
        tallies
    }

    /// The series of a path with a client's values in it; `None` if there is no room for it.
    fn of_values(&self, domain: &Arc<str>, path: &str) -> Option<Arc<Tally>> {
        if path.len() > VALUE_PATH_BYTES_MAX {
            return None;
        }
        let series = (Arc::clone(domain), Box::from(path));
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(tally) = values.get(&series) {
            return Some(Arc::clone(tally));
        }
        if values.len() >= VALUE_SERIES_MAX {
            return None;
        }
        drop(values);
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        // Others may have filled the last place since.
        if values.len() >= VALUE_SERIES_MAX && !values.contains_key(&series) {
            return None;
        }
        Some(Arc::clone(values.entry(series).or_default()))
    }
}

/// The series of a path after a reload: the one from before, if there was one.
fn go_on(
    before: &BTreeMap<Series, Arc<Tally>>,
    after: &mut BTreeMap<Series, Arc<Tally>>,
    domain: &Arc<str>,
    path: &str,
) -> Arc<Tally> {
    let series = (Arc::clone(domain), path.into());
    let known = after.get(&series).or_else(|| before.get(&series));
    let tally = known.cloned().unwrap_or_default();
    after.insert(series, Arc::clone(&tally));
    tally
}

// === impl Tallies ===

impl Tallies {
    /// Counts every descriptor of a request.
    pub(crate) fn count(
        &self,
        decisions: &Decisions,
        domain: Option<&str>,
        resolved: &Resolved<'_>,
        answer: &Answer,
    ) {
        let Some(of_domain) = domain.and_then(|name| self.domains.get(name)) else {
            decisions.unknown_domain.add(Outcome::UnknownDomain);
            return;
        };
        for (index, status) in answer.statuses.iter().enumerate() {
            let outcome = Outcome::of(status, answer);
            let (Status::Unlimited { rule } | Status::Limited(Limited { rule, .. })) = status
            else {
                of_domain.no_limit.add(outcome);
                continue;
            };
            let of_rule = self.rules.get(&address(rule));
            let path = resolved.metric(index).unwrap_or(&rule.path);
            match of_rule.filter(|_| path == rule.path) {
                Some(tally) => tally.add(outcome),
                None => match decisions.of_values(&of_domain.name, path) {
                    Some(tally) => tally.add(outcome),
                    None => of_domain.other.add(outcome),
                },
            }
        }
    }
}

fn address(rule: &Arc<RuleName>) -> usize {
    Arc::as_ptr(rule).addr()
}

// === impl Outcome ===

impl Outcome {
    fn of(status: &Status, answer: &Answer) -> Outcome {
        let Status::Limited(limited) = status else {
            return match status {
                Status::Unlimited { .. } => Outcome::Unlimited,
                _ => Outcome::NoLimit,
            };
        };
        match (limited.decision, limited.enforcement) {
            (Decision::Deny(_), Enforcement::Shadow) => Outcome::ShadowDenied,
            (Decision::Deny(_), Enforcement::Quota) if answer.is_allowed() => Outcome::QuotaOver,
            (Decision::Deny(_), _) if answer.is_store_unavailable() => Outcome::StoreUnavailable,
            (Decision::Deny(_), _) => Outcome::Denied,
            (Decision::Allow(_), _) if !answer.is_allowed() => Outcome::Uncharged,
            (Decision::Allow(grant), _) if grant.over_soft => Outcome::OverSoft,
            (Decision::Allow(_), _) => Outcome::Allowed,
        }
    }

    const fn index(self) -> usize {
        match self {
            Outcome::Allowed => 0,
            Outcome::OverSoft => 1,
            Outcome::Uncharged => 2,
            Outcome::Denied => 3,
            Outcome::StoreUnavailable => 4,
            Outcome::QuotaOver => 5,
            Outcome::ShadowDenied => 6,
            Outcome::Unlimited => 7,
            Outcome::NoLimit => 8,
            Outcome::UnknownDomain => 9,
        }
    }
}

// === impl Tally ===

impl Tally {
    fn add(&self, outcome: Outcome) {
        // Relaxed: a count publishes nothing else.
        self.0[outcome.index()].fetch_add(1, Ordering::Relaxed);
    }

    fn counts(&self) -> [u64; OUTCOMES.len()] {
        self.0.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

// === impl Scrape ===

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "Descriptors decided, by domain, rule and outcome";
        let name = "decisions";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        let mut write = |domain: &str, rule: &str, counts: [u64; OUTCOMES.len()]| {
            for (count, outcome) in counts.into_iter().zip(OUTCOMES) {
                if count > 0 {
                    let labels = [("domain", domain), ("rule", rule), ("outcome", outcome)];
                    ConstCounter::new(count).encode(metric.encode_family(&labels)?)?;
                }
            }
            Ok::<(), Error>(())
        };
        let decisions = &self.0;
        let rules = decisions.rules.read();
        let rules = rules.unwrap_or_else(PoisonError::into_inner);
        let values = decisions.values.read();
        let values = values.unwrap_or_else(PoisonError::into_inner);
        // No series may come twice, or a scrape is refused as a whole.
        for (series @ (domain, rule), tally) in rules.iter() {
            let mut counts = tally.counts();
            if let Some(values) = values.get(series) {
                for (count, more) in counts.iter_mut().zip(values.counts()) {
                    *count += more;
                }
            }
            write(domain, rule, counts)?;
        }
        let only = values
            .iter()
            .filter(|(series, _)| !rules.contains_key(series));
        for ((domain, rule), tally) in only {
            write(domain, rule, tally.counts())?;
        }
        write("", "", decisions.unknown_domain.counts())
    }
}

#[cfg(test)]
mod tests;
