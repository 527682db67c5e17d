//! What is loaded, for people to read.

use std::collections::BTreeSet;
use std::sync::Arc;

use tollgate_core::{ChargeDenied, Enforcement, Escaped, Limit, RuleName, Sharing};

use crate::diagnostic::{Diagnostic, Severity};
use crate::domain::{ElasticLimit, PriorityLimit, Rule, RuleLimit, Step};
use crate::headroom::{Headroom, HeadroomSource, NoHeadroom};
use crate::rule_set::RuleSet;
use crate::source::Source;

/// One rule in effect.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleView {
    /// Which.
    pub rule: Arc<RuleName>,
    /// The file that defines it: [`crate::Source::name`].
    pub file: Arc<str>,
    /// The line of its key in the file, from 1.
    pub line: u32,
    /// The limit; `None` if the rule is unlimited.
    pub limit: Option<Limit>,
    /// Whether there was headroom when this was made; `None` if no part of the limit is elastic.
    pub has_headroom: Option<bool>,
    /// What has to report headroom, and whether each of them did; empty if no part is elastic.
    pub sources: Vec<(HeadroomSource, bool)>,
    /// The limit as text, or `unlimited`.
    pub text: String,
    /// Whether requests with different values have different counters.
    pub distinguishes: bool,
    /// For each descriptor on the way to the rule, its value as written; `None` if requests with
    /// different values for it have different counters.
    pub shared_values: Vec<Option<Box<str>>>,
    /// Whether requests with different values have different names in metrics.
    pub metric_varies: bool,
    /// What happens when it denies.
    pub enforcement: Enforcement,
    /// The percentage of the keys for which that is so, while the limit never denies the others;
    /// `None` is all.
    pub enforce: Option<u8>,
    /// Which denied requests are charged to it; `None` if the file does not set it.
    pub charge_denied: Option<ChargeDenied>,
    /// How instances share it.
    pub sharing: Sharing,
    /// How often its limit was changed since the process began.
    pub changes: usize,
}

/// The limit, which requests can use its share, and what says whether there is headroom.
fn describe(
    limit: &Limit,
    for_priority: Option<&PriorityLimit>,
    elastic: Option<&ElasticLimit>,
) -> String {
    let mut text = limit.to_string();
    if let Some(PriorityLimit { priorities, .. }) = for_priority {
        let priorities = priorities.iter().map(|bytes| Escaped(bytes).to_string());
        let priorities: Vec<String> = priorities.collect();
        text.push_str(" for ");
        text.push_str(&priorities.join(", "));
    }
    if let Some(ElasticLimit { sources, .. }) = elastic {
        let sources: Vec<String> = sources.iter().map(ToString::to_string).collect();
        text.push_str(" while ");
        text.push_str(&sources.join(", "));
    }
    text
}

// === impl RuleSet ===

impl RuleSet {
    /// Every rule, by domain and in the order of the files.
    pub fn rules(&self) -> impl Iterator<Item = RuleView> {
        let domains = self.domains.values();
        domains.flat_map(|domain| domain.rules.iter().map(RuleView::of))
    }

    /// What stands for a rule in the answers to requests that bring a limit of their own: a name
    /// for each domain.
    pub fn override_names(&self) -> impl Iterator<Item = &Arc<RuleName>> {
        self.domains.values().map(|domain| &domain.overridden)
    }

    /// Those of [`RuleSet::rules`] whose names `is_wanted` accepts; no work is done for the others.
    pub fn find_rules(
        &self,
        is_wanted: impl Fn(&RuleName) -> bool,
    ) -> impl Iterator<Item = RuleView> {
        let rules = self.domains.values().flat_map(|domain| &domain.rules);
        let wanted = rules.filter(move |rule| is_wanted(&rule.name));
        wanted.map(RuleView::of)
    }

    /// How many rules there are.
    pub fn rule_count(&self) -> usize {
        self.domains.values().map(|domain| domain.rules.len()).sum()
    }

    /// The limits of all rules that are not unlimited.
    pub fn limits(&self) -> impl Iterator<Item = Limit> {
        let rules = self.domains.values().flat_map(|domain| &domain.rules);
        rules.filter_map(|rule| match rule.limit {
            RuleLimit::Limited { limit, .. } => Some(limit),
            RuleLimit::Unlimited => None,
        })
    }

    /// The keys of all descriptors on the way to a rule of this domain.
    pub fn keys_of(&self, domain: &str) -> BTreeSet<&str> {
        let rules = self.domain(domain).into_iter();
        let rules = rules.flat_map(|domain| &domain.rules);
        let keys = rules.flat_map(|rule| rule.path.iter().map(|step| &*step.key));
        keys.collect()
    }

    /// Whether a rule of this domain is for descriptors with keys that `may_be` accepts, which gets
    /// them from the top.
    pub fn has_rule(&self, domain: &str, may_be: impl Fn(&[&str]) -> bool) -> bool {
        let rules = self.domain(domain).into_iter();
        rules.flat_map(|domain| &domain.rules).any(|rule| {
            let keys: Vec<&str> = rule.path.iter().map(|step| &*step.key).collect();
            may_be(&keys)
        })
    }

    /// Every rule whose limit has an elastic part, and whether there is headroom for it now.
    pub fn elastic_rules(&self, headroom: &dyn Headroom) -> impl Iterator<Item = RuleView> {
        let domains = self.domains.values();
        domains.flat_map(move |domain| {
            domain.rules.iter().filter_map(move |rule| {
                let has_headroom = rule.limit.has_headroom(&domain.name, headroom)?;
                Some(RuleView {
                    has_headroom: Some(has_headroom),
                    sources: rule.limit.ask_sources(&domain.name, headroom),
                    ..RuleView::of(rule)
                })
            })
        })
    }

    /// Whether a limit of this domain has an elastic part for which `source` has to report.
    pub fn uses_headroom(&self, domain: &str, source: HeadroomSource) -> bool {
        let domain = self.domain(domain);
        domain.is_some_and(|domain| domain.uses_headroom(source))
    }

    /// The domains with such limits.
    pub fn domains_with_headroom(&self, source: HeadroomSource) -> impl Iterator<Item = &str> {
        let domains = self.domains.values();
        let used = domains.filter(move |domain| domain.uses_headroom(source));
        used.map(|domain| &*domain.name)
    }
}

// === impl RuleView ===

impl RuleView {
    /// What a request without priority can use of the limit, with the headroom of
    /// [`RuleView::has_headroom`]; `None` if the rule is unlimited.
    pub fn available(&self) -> Option<u32> {
        let limit = self.limit?;
        Some(match self.has_headroom {
            Some(true) => limit.with_headroom().available(),
            _ => limit.available(),
        })
    }

    /// A warning about this rule, at the line of its key in one of the `sources`.
    pub fn warning(
        &self,
        sources: &[Source],
        code: &'static str,
        message: String,
        help: Option<String>,
    ) -> Diagnostic {
        let source = sources.iter().find(|source| *source.name == *self.file);
        let file = source.map(|source| String::from_utf8_lossy(&source.text));
        let file = file.unwrap_or_default();
        let index = usize::try_from(self.line.saturating_sub(1)).unwrap_or(usize::MAX);
        let text = file.lines().nth(index).unwrap_or_default();
        let count = |text: &str| u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        let key = text.trim_start_matches([' ', '-', '{']);
        Diagnostic {
            severity: Severity::Warning,
            code,
            message,
            help,
            file: self.file.to_string(),
            line: self.line,
            column: count(text) - count(key) + 1,
            length: count(key.trim_end()).max(1),
            text: text.to_owned(),
            domain: Some(self.rule.domain.to_string()),
        }
    }

    /// What people read of a rule.
    pub(crate) fn of(rule: &Rule) -> RuleView {
        let (limit, text, changes) = match &rule.limit {
            RuleLimit::Unlimited => (None, "unlimited".to_owned(), 0),
            RuleLimit::Limited {
                limit,
                for_priority,
                elastic,
                history,
            } => (
                Some(*limit),
                describe(limit, for_priority.as_deref(), elastic.as_deref()),
                usize::from(history.revision()),
            ),
        };
        RuleView {
            rule: Arc::clone(&rule.name),
            file: Arc::clone(&rule.file),
            line: rule.line,
            limit,
            has_headroom: rule.limit.has_headroom("", &NoHeadroom),
            sources: rule.limit.ask_sources("", &NoHeadroom),
            text,
            distinguishes: rule.path.iter().any(|step| step.distinguishes),
            shared_values: rule.path.iter().map(Step::shared_value).collect(),
            metric_varies: rule.metric_varies,
            enforcement: rule.enforcement,
            enforce: rule.enforce,
            charge_denied: rule.charge_denied,
            sharing: rule.sharing,
            changes,
        }
    }
}
