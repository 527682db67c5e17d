//! What is loaded, for people to read.

use std::sync::Arc;

use tollgate_core::{ChargeDenied, Enforcement, Escaped, Limit, RuleName, Sharing};

use crate::domain::{PriorityLimit, Rule, RuleLimit};
use crate::rule_set::RuleSet;

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
    /// The limit as text, or `unlimited`.
    pub text: String,
    /// Whether requests with different values have different counters.
    pub distinguishes: bool,
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

/// The limit, and which requests can use its share.
fn describe(limit: &Limit, for_priority: Option<&PriorityLimit>) -> String {
    let Some(PriorityLimit { priorities, .. }) = for_priority else {
        return limit.to_string();
    };
    let priorities = priorities.iter().map(|bytes| Escaped(bytes).to_string());
    let priorities: Vec<String> = priorities.collect();
    format!("{limit} for {}", priorities.join(", "))
}

// === impl RuleSet ===

impl RuleSet {
    /// Every rule, by domain and in the order of the files.
    pub fn rules(&self) -> impl Iterator<Item = RuleView> {
        let domains = self.domains.values();
        domains.flat_map(|domain| domain.rules.iter().map(RuleView::of))
    }
}

// === impl RuleView ===

impl RuleView {
    /// What people read of a rule.
    pub(crate) fn of(rule: &Rule) -> RuleView {
        let (limit, text, changes) = match &rule.limit {
            RuleLimit::Unlimited => (None, "unlimited".to_owned(), 0),
            RuleLimit::Limited {
                limit,
                for_priority,
                history,
            } => (
                Some(*limit),
                describe(limit, for_priority.as_deref()),
                usize::from(history.revision()),
            ),
        };
        RuleView {
            rule: Arc::clone(&rule.name),
            file: Arc::clone(&rule.file),
            line: rule.line,
            limit,
            text,
            distinguishes: rule.path.iter().any(|step| step.distinguishes),
            enforcement: rule.enforcement,
            enforce: rule.enforce,
            charge_denied: rule.charge_denied,
            sharing: rule.sharing,
            changes,
        }
    }
}
