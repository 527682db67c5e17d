//! Counts decisions by domain, rule and outcome.
//!
//! Rules come from the operator's files, so each has its own series, found by its address without
//! hashing a text. The values that clients can choose, those of `detailed_metric` and
//! `value_to_metric`, have at most [`VALUE_SERIES_MAX`] series; further ones are counted as their
//! domain's [`OTHER`]. They go with their rule, at a reload. The name of a domain that has no rules
//! is never kept.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use foldhash::fast::RandomState;
use tollgate_core::{Answer, Decision, Enforcement, Limited, RuleName, Status};
use tollgate_rules::{Resolved, RuleSet};

/// The most series whose names depend on what clients send.
pub const VALUE_SERIES_MAX: usize = 1000;
/// The longest such name, in bytes; a longer one is counted as [`OTHER`].
const VALUE_PATH_BYTES_MAX: usize = 512;
/// Stands for every name beyond the maximum.
const OTHER: &str = "(other)";

/// The outcomes of one descriptor. The order is that of [`DescriptorOutcome`].
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

/// The outcome of one descriptor of a request, as metrics and `/v1/check` report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorOutcome {
    /// Allowed and charged.
    Allowed,
    /// Allowed and charged, in the soft part.
    OverSoft,
    /// Its limit allows it, another one denied the request.
    Uncharged,
    /// Denied.
    Denied,
    /// Denied because the shared store has no answer; whether its limit is exceeded is unknown.
    StoreUnavailable,
    /// A quota that is exceeded in a request that is allowed, because another quota is not.
    QuotaOver,
    /// Would be denied if the limit were enforced.
    ShadowDenied,
    /// Met an unlimited rule.
    Unlimited,
    /// Met no rule, or one that another replaces.
    NoLimit,
    /// Its domain has no rules.
    UnknownDomain,
}

/// How often each outcome occurred.
#[derive(Debug, Default)]
struct Tally([AtomicU64; OUTCOMES.len()]);

/// A domain, and a path below it.
type SeriesName = (Arc<str>, Box<str>);

/// The series whose names contain clients' values.
#[derive(Debug, Default)]
struct Values {
    /// The rules in effect that have such series. A decision under former rules, which is counted
    /// after a reload, creates none for a rule that is gone.
    rules: BTreeSet<RulePath>,
    series: BTreeMap<SeriesName, ValueSeries>,
}

/// A domain, and the path of a rule in it.
type RulePath = (Arc<str>, Arc<str>);

/// The counts under a name with a client's values in it.
#[derive(Clone, Debug)]
struct ValueSeries {
    /// The path of the rule.
    rule: Arc<str>,
    tally: Arc<Tally>,
}

/// The counts of all decisions so far, by series.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    /// The series of the rules in effect, and three per domain: the empty path, for requests that
    /// meet no limit, that of requests with limits of their own, and [`OTHER`].
    rules: RwLock<BTreeMap<SeriesName, Arc<Tally>>>,
    /// The series whose paths contain clients' values. They are kept apart from `rules` because a
    /// client can choose a value that makes its path equal to a rule's.
    values: RwLock<Values>,
    unknown_domain: Tally,
}

/// The series of the rules in effect, as a decision finds them.
#[derive(Debug, Default)]
pub(crate) struct Series {
    /// By the address of the rule's name, which lives as long as the rules that this belongs to.
    rules: Table<usize, Arc<Tally>>,
    domains: Table<String, DomainSeries>,
}

/// Every decision looks up a rule and a domain here, which only the author of the rules could make
/// collide: a fast hash will do.
type Table<K, V> = HashMap<K, V, RandomState>;

/// The series of a domain that belong to no rule.
#[derive(Debug)]
struct DomainSeries {
    name: Arc<str>,
    no_limit: Arc<Tally>,
    other: Arc<Tally>,
}

// === impl Decisions ===

impl Decisions {
    /// Finds or creates the series of every rule, and drops those of rules that are gone.
    pub(crate) fn track(&self, rules: &RuleSet) -> Series {
        let mut before = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        let mut after = BTreeMap::new();
        let mut series = Series::default();
        for name in rules.domains() {
            let domain: Arc<str> = name.into();
            let of_domain = DomainSeries {
                no_limit: keep_or_create(&before, &mut after, &domain, ""),
                other: keep_or_create(&before, &mut after, &domain, OTHER),
                name: domain,
            };
            series.domains.insert(name.to_owned(), of_domain);
        }
        let mut varying = BTreeSet::new();
        let views = rules.rules().map(|view| (view.rule, view.metric_varies));
        let overridden = rules.override_names().map(|name| (Arc::clone(name), false));
        for (rule, metric_varies) in views.chain(overridden) {
            let Some(DomainSeries { name, .. }) = series.domains.get(&rule.domain) else {
                continue;
            };
            let tally = keep_or_create(&before, &mut after, name, &rule.path);
            series.rules.insert(address(&rule), tally);
            if metric_varies {
                varying.insert((Arc::clone(name), Arc::<str>::from(&*rule.path)));
            }
        }
        *before = after;
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        values.series.retain(|(domain, _), series| {
            varying.contains(&(Arc::clone(domain), Arc::clone(&series.rule)))
        });
        values.rules = varying;
        series
    }

    /// The series of a path with a client's values in it, of the rule at the path `rule`; `None` if
    /// there is no room for it, or the rule has no such series any more.
    fn of_values(&self, domain: &Arc<str>, rule: &str, path: &str) -> Option<Arc<Tally>> {
        if path.len() > VALUE_PATH_BYTES_MAX {
            return None;
        }
        let series = (Arc::clone(domain), Box::from(path));
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = values.series.get(&series) {
            return Some(Arc::clone(&known.tally));
        }
        if values.series.len() >= VALUE_SERIES_MAX {
            return None;
        }
        drop(values);
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        // Other threads may have used the last free series since, or replaced the rules.
        let is_full = values.series.len() >= VALUE_SERIES_MAX;
        let rule: Arc<str> = rule.into();
        let is_gone = !values
            .rules
            .contains(&(Arc::clone(domain), Arc::clone(&rule)));
        if is_gone || is_full && !values.series.contains_key(&series) {
            return None;
        }
        let create = || ValueSeries {
            rule,
            tally: Arc::default(),
        };
        let series = values.series.entry(series).or_insert_with(create);
        Some(Arc::clone(&series.tally))
    }

    /// Visits every count above 0 with its domain, rule and outcome, each combination once.
    ///
    /// # Errors
    ///
    /// The first error of `visit`, which ends the visit.
    pub(crate) fn visit<E>(
        &self,
        mut visit: impl FnMut(&str, &str, &'static str, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut each = |domain: &str, rule: &str, counts: [u64; OUTCOMES.len()]| {
            let mut counts = counts.into_iter().zip(OUTCOMES);
            counts.try_for_each(|(count, outcome)| match count {
                0 => Ok(()),
                count => visit(domain, rule, outcome, count),
            })
        };
        let rules = self.rules.read();
        let rules = rules.unwrap_or_else(PoisonError::into_inner);
        // A copy: a new value, whose decision waits for this lock, does not wait for the visitor.
        let values = self.values.read();
        let values = values
            .unwrap_or_else(PoisonError::into_inner)
            .series
            .clone();
        for (series @ (domain, rule), tally) in rules.iter() {
            let mut counts = tally.counts();
            if let Some(values) = values.get(series) {
                for (count, more) in counts.iter_mut().zip(values.tally.counts()) {
                    *count += more;
                }
            }
            each(domain, rule, counts)?;
        }
        let only = values
            .iter()
            .filter(|(series, _)| !rules.contains_key(series));
        for ((domain, rule), values) in only {
            each(domain, rule, values.tally.counts())?;
        }
        each("", "", self.unknown_domain.counts())
    }
}

/// The tally of a path after a reload: the previous one, if there was one.
fn keep_or_create(
    before: &BTreeMap<SeriesName, Arc<Tally>>,
    after: &mut BTreeMap<SeriesName, Arc<Tally>>,
    domain: &Arc<str>,
    path: &str,
) -> Arc<Tally> {
    let series = (Arc::clone(domain), path.into());
    let known = after.get(&series).or_else(|| before.get(&series));
    let tally = known.cloned().unwrap_or_default();
    after.insert(series, Arc::clone(&tally));
    tally
}

// === impl Series ===

impl Series {
    /// Counts every descriptor of a request.
    pub(crate) fn count(
        &self,
        decisions: &Decisions,
        domain: Option<&str>,
        resolved: &Resolved<'_>,
        answer: &Answer,
    ) {
        let Some(of_domain) = domain.and_then(|name| self.domains.get(name)) else {
            for _ in &answer.statuses {
                decisions
                    .unknown_domain
                    .add(DescriptorOutcome::UnknownDomain);
            }
            return;
        };
        for (index, status) in answer.statuses.iter().enumerate() {
            let outcome = DescriptorOutcome::of(status, answer);
            let (Status::Unlimited { rule } | Status::Limited(Limited { rule, .. })) = status
            else {
                of_domain.no_limit.add(outcome);
                continue;
            };
            let of_rule = self.rules.get(&address(rule));
            let path = resolved.metric(index).unwrap_or(&rule.path);
            match of_rule.filter(|_| path == rule.path) {
                Some(tally) => tally.add(outcome),
                None => match decisions.of_values(&of_domain.name, &rule.path, path) {
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

// === impl DescriptorOutcome ===

impl DescriptorOutcome {
    /// The outcome of a descriptor with this status in this answer.
    pub fn of(status: &Status, answer: &Answer) -> DescriptorOutcome {
        match status {
            Status::NoLimit => DescriptorOutcome::NoLimit,
            Status::Unlimited { .. } => DescriptorOutcome::Unlimited,
            Status::Limited(limited) => DescriptorOutcome::of_limited(limited, answer),
        }
    }

    /// The outcome of a descriptor with a limit.
    pub fn of_limited(limited: &Limited, answer: &Answer) -> DescriptorOutcome {
        match (limited.decision, limited.enforcement) {
            (Decision::Deny(_), Enforcement::Shadow) => DescriptorOutcome::ShadowDenied,
            (Decision::Deny(_), Enforcement::Quota) if answer.is_allowed() => {
                DescriptorOutcome::QuotaOver
            }
            (Decision::Deny(_), _) if answer.is_store_unavailable() => {
                DescriptorOutcome::StoreUnavailable
            }
            (Decision::Deny(_), _) => DescriptorOutcome::Denied,
            (Decision::Allow(_), _) if !answer.is_allowed() => DescriptorOutcome::Uncharged,
            (Decision::Allow(grant), _) if grant.over_soft => DescriptorOutcome::OverSoft,
            (Decision::Allow(_), _) => DescriptorOutcome::Allowed,
        }
    }

    /// Its name in metrics and in `/v1/check`.
    pub const fn name(self) -> &'static str {
        OUTCOMES[self.index()]
    }

    const fn index(self) -> usize {
        match self {
            DescriptorOutcome::Allowed => 0,
            DescriptorOutcome::OverSoft => 1,
            DescriptorOutcome::Uncharged => 2,
            DescriptorOutcome::Denied => 3,
            DescriptorOutcome::StoreUnavailable => 4,
            DescriptorOutcome::QuotaOver => 5,
            DescriptorOutcome::ShadowDenied => 6,
            DescriptorOutcome::Unlimited => 7,
            DescriptorOutcome::NoLimit => 8,
            DescriptorOutcome::UnknownDomain => 9,
        }
    }
}

// === impl Tally ===

impl Tally {
    fn add(&self, outcome: DescriptorOutcome) {
        // Relaxed: a count publishes nothing else.
        self.0[outcome.index()].fetch_add(1, Ordering::Relaxed);
    }

    fn counts(&self) -> [u64; OUTCOMES.len()] {
        self.0.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests;
