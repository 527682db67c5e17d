//! What is loaded, for people to read.

use std::sync::Arc;

use tollgate_core::{Algorithm, Anchor, Enforcement, Limit, OnDenial, RuleName};

use crate::domain::RuleLimit;
use crate::rule_set::RuleSet;

/// One rule, as it is in force.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleView {
    /// Which.
    pub rule: Arc<RuleName>,
    /// How much may pass; `None` if it is unlimited.
    pub limit: Option<Limit>,
    /// The same in words: `100 per 1m token_bucket burst 200`, or `unlimited`.
    pub text: String,
    /// What its refusal does.
    pub enforcement: Enforcement,
    /// What a refused request costs it.
    pub on_denial: OnDenial,
    /// How often its limit was changed since the process began.
    pub changes: usize,
}

// === impl RuleSet ===

impl RuleSet {
    /// Every rule, by domain and in the order of the files.
    pub fn rules(&self) -> impl Iterator<Item = RuleView> {
        self.domains.values().flat_map(|domain| {
            domain.rules.iter().map(|rule| {
                let (limit, text, changes) = match &rule.limit {
                    RuleLimit::Unlimited => (None, "unlimited".to_owned(), 0),
                    RuleLimit::Limited { limit, past } => {
                        (Some(*limit), in_words(limit), usize::from(past.revision()))
                    }
                };
                RuleView {
                    rule: Arc::clone(&rule.name),
                    limit,
                    text,
                    enforcement: rule.enforcement,
                    on_denial: domain.on_denial,
                    changes,
                }
            })
        })
    }
}

fn in_words(limit: &Limit) -> String {
    let mut text = format!("{limit:?}");
    match limit.algorithm() {
        Algorithm::FixedWindow(Anchor::FirstRequest) => text.push_str(" from the first request"),
        Algorithm::SlidingWindow(segments) if segments.get() > 1 => {
            text.push_str(&format!(" in {} segments", segments.get()));
        }
        _ => {}
    }
    text
}
