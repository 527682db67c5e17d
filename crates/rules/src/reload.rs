//! Reload: new rules replace old ones and keep what was consumed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tollgate_core::{Limit, LimitHistory, RuleName};

use crate::domain::{Domain, Rule, RuleLimit};
use crate::findings::Rejected;
use crate::rule_set::{Loaded, RuleSet};

/// The most removed rules whose limits are stored, so that a rule that comes back with another
/// limit migrates what its keys have consumed.
pub const REMOVED_RULES_MAX: usize = 10_000;

/// What a reload changed.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Changes {
    /// Rules with another limit than before.
    pub changed: Vec<Changed>,
    /// Rules with a limit that are gone from domains that are not.
    pub removed_rules: Vec<Arc<RuleName>>,
    /// Domains that stay as they were, because the new version has errors.
    pub kept: Vec<String>,
    /// Domains whose rules have errors, and that have no earlier ones: no limit applies to their
    /// requests.
    pub without_rules: Vec<String>,
    /// New domains.
    pub added: Vec<String>,
    /// Removed domains.
    pub removed: Vec<String>,
}

/// A rule with another limit than before.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Changed {
    /// Which.
    pub rule: Arc<RuleName>,
    /// Its limit until now.
    pub from: Limit,
    /// Its limit from now on.
    pub to: Limit,
}

/// Removed rules, by identity, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Removed(VecDeque<(Arc<[u8]>, FormerLimit)>);

/// The last limit of a removed rule.
#[derive(Clone, Debug)]
struct FormerLimit {
    limit: Limit,
    history: LimitHistory,
}

// === impl Loaded ===

impl Loaded {
    /// The rules that follow `previous`: at once, or not at all for each domain.
    ///
    /// A domain with errors stays as it was. A rule with the same domain, keys and values as before
    /// is the same rule: with the same limit it keeps its keys' exact state, with another one it
    /// keeps what they consumed ([`tollgate_core::LimitHistory`]).
    pub fn succeed(self, previous: &RuleSet) -> (RuleSet, Changes) {
        let mut changes = Changes::default();
        let old = FormerLimits::of(previous);
        let mut domains: BTreeMap<Arc<str>, Arc<Domain>> = BTreeMap::new();
        for (name, domain) in self.rules.domains.iter() {
            if !previous.domains.contains_key(name) {
                changes.added.push(name.to_string());
            }
            let mut domain = Domain::clone(domain);
            for rule in &mut domain.rules {
                changes.changed.extend(old.migrate(rule));
            }
            domains.insert(Arc::clone(name), Arc::new(domain));
        }
        for (name, domain) in previous.domains.iter() {
            let is_missing = !domains.contains_key(name);
            if self.rejected.keeps(domain, is_missing) {
                changes.kept.push(name.to_string());
                changes
                    .changed
                    .retain(|changed| changed.rule.domain != **name);
                domains.insert(Arc::clone(name), Arc::clone(domain));
            } else if is_missing {
                changes.removed.push(name.to_string());
            }
        }
        let rejected = self.rejected.domains.iter();
        let without_rules = rejected.filter(|name| !domains.contains_key(name.as_str()));
        changes.without_rules = without_rules.cloned().collect();
        let present = identities(&domains);
        let gone = limited_rules(previous.domains.values()).filter(|(rule, ..)| {
            domains.contains_key(&*rule.name.domain) && !present.contains(&*rule.identity)
        });
        changes.removed_rules = gone.map(|(rule, ..)| Arc::clone(&rule.name)).collect();
        let removed = Removed::after(previous, &present);
        let rules = RuleSet {
            domains: Arc::new(domains),
            removed: Arc::new(removed),
        };
        (rules, changes)
    }
}

// === impl RuleSet ===

impl RuleSet {
    /// These rules, and those that `former` has for other domains.
    #[must_use]
    pub fn with_other_domains_of(&self, former: &RuleSet) -> RuleSet {
        let mut domains = BTreeMap::clone(&former.domains);
        for (name, domain) in self.domains.iter() {
            domains.insert(Arc::clone(name), Arc::clone(domain));
        }
        RuleSet {
            domains: Arc::new(domains),
            removed: Arc::clone(&self.removed),
        }
    }
}

// === impl Rejected ===

impl Rejected {
    /// Whether the new version of this domain may be incomplete: it has an error; it was in a file
    /// of which not even the domains could be read; or it is missing, and its file has an error, or
    /// a file that may contain it could not be read to its end.
    fn keeps(&self, domain: &Domain, is_missing: bool) -> bool {
        let is_in = |files: &BTreeSet<String>| domain.files.iter().any(|file| files.contains(file));
        self.domains.contains(&*domain.name)
            || is_in(&self.files)
            || is_missing && (self.is_incomplete || is_in(&self.wrong_files))
    }
}

/// The limits of all rules in effect or removed, by identity.
struct FormerLimits<'r>(HashMap<&'r [u8], (&'r Limit, &'r LimitHistory)>);

// === impl FormerLimits ===

impl<'r> FormerLimits<'r> {
    fn of(rules: &'r RuleSet) -> FormerLimits<'r> {
        let removed = rules.removed.0.iter();
        let mut limits: HashMap<_, _> = removed
            .map(|(identity, former)| (&**identity, (&former.limit, &former.history)))
            .collect();
        for rule in limited_rules(rules.domains.values()) {
            limits.insert(&rule.0.identity, (rule.1, rule.2));
        }
        FormerLimits(limits)
    }

    /// Sets a rule's history, and returns the change if its limit has changed.
    fn migrate(&self, rule: &mut Rule) -> Option<Changed> {
        let (former, former_history) = *self.0.get(&*rule.identity)?;
        let RuleLimit::Limited { limit, history, .. } = &mut rule.limit else {
            return None;
        };
        if limit == former {
            *history = former_history.clone();
            return None;
        }
        *history = former_history.and(*former);
        Some(Changed {
            rule: Arc::clone(&rule.name),
            from: *former,
            to: *limit,
        })
    }
}

fn limited_rules<'r>(
    domains: impl Iterator<Item = &'r Arc<Domain>>,
) -> impl Iterator<Item = (&'r Rule, &'r Limit, &'r LimitHistory)> {
    let rules = domains.flat_map(|domain| &domain.rules);
    rules.filter_map(|rule| match &rule.limit {
        RuleLimit::Limited { limit, history, .. } => Some((rule, limit, history)),
        RuleLimit::Unlimited => None,
    })
}

/// The identities of all rules with limits.
fn identities(domains: &BTreeMap<Arc<str>, Arc<Domain>>) -> HashSet<&[u8]> {
    let rules = limited_rules(domains.values());
    rules.map(|(rule, ..)| &*rule.identity).collect()
}

// === impl Removed ===

impl Removed {
    /// Rules removed earlier or now, without those in effect, which are `present`; the oldest are
    /// dropped.
    fn after(previous: &RuleSet, present: &HashSet<&[u8]>) -> Removed {
        let gone = limited_rules(previous.domains.values()).map(|(rule, limit, history)| {
            let former = FormerLimit {
                limit: *limit,
                history: history.clone(),
            };
            (Arc::clone(&rule.identity), former)
        });
        let removed = previous.removed.0.iter().cloned().chain(gone);
        let mut removed: VecDeque<_> = removed
            .filter(|(identity, _)| !present.contains(&**identity))
            .collect();
        while removed.len() > REMOVED_RULES_MAX {
            removed.pop_front();
        }
        Removed(removed)
    }
}
