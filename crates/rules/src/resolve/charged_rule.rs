//! The rule of a charge, found again after a reload.

use std::sync::Arc;

use tollgate_core::{Limit, LimitHistory, RuleName};

use super::{Part, Resolved};
use crate::domain::RuleLimit;
use crate::rule_set::RuleSet;

/// The rule that a request was charged to. Later rules have it too, perhaps with another limit.
#[derive(Clone, Debug)]
pub struct ChargedRule {
    name: Arc<RuleName>,
    origin: Origin,
}

/// Where the limit is written.
#[derive(Clone, Debug)]
enum Origin {
    /// In a rules file: the rule's identity.
    Rule(Arc<[u8]>),
    /// In the request, so that no reload changes it.
    Request(Limit),
}

// === impl Resolved ===

impl Resolved<'_> {
    /// The rule of each of [`Resolved::charges`], in their order.
    pub fn charged_rules(&self) -> impl Iterator<Item = ChargedRule> {
        self.parts.iter().filter_map(|part| match part {
            Part::Nothing | Part::Unlimited(_) => None,
            Part::Limited { rule, .. } => Some(ChargedRule {
                name: Arc::clone(&rule.name),
                origin: Origin::Rule(Arc::clone(&rule.identity)),
            }),
            Part::Overridden { domain, limit, .. } => Some(ChargedRule {
                name: Arc::clone(&domain.overridden),
                origin: Origin::Request(*limit),
            }),
        })
    }
}

// === impl ChargedRule ===

impl ChargedRule {
    /// Its name, under the rules that charged the request.
    pub const fn name(&self) -> &Arc<RuleName> {
        &self.name
    }

    /// Its limit under `rules`, and the limits that it had before. `None` if it was removed or does
    /// not limit any more.
    pub fn limit<'r>(&'r self, rules: &'r RuleSet) -> Option<(&'r Limit, &'r LimitHistory)> {
        let identity = match &self.origin {
            Origin::Rule(identity) => identity,
            Origin::Request(limit) => return Some((limit, LimitHistory::none())),
        };
        let mut of_domain = rules.domain(&self.name.domain)?.rules.iter();
        match &of_domain.find(|rule| rule.identity == *identity)?.limit {
            RuleLimit::Unlimited => None,
            RuleLimit::Limited { limit, history } => Some((limit, history)),
        }
    }
}
