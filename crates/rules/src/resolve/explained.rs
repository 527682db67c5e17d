//! A request resolved with a report: how each descriptor found its rule, or why it did not.

use tollgate_core::{KeyHasher, Limit, Request, Sharing};

use super::{Part, Resolved};
use crate::headroom::Headroom;
use crate::rule_set::RuleSet;
use crate::view::RuleView;
use crate::walk::{Recorder, Replaced, Walk};

/// A resolved request, and how it was resolved.
#[derive(Debug)]
pub struct Explained<'s> {
    /// What [`RuleSet::resolve_with_headroom`] returns.
    pub resolved: Resolved<'s>,
    /// For each descriptor, in their order, its search and what came of it.
    pub findings: Vec<(Walk, Finding)>,
}

/// What applies to a descriptor.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// Nothing: the domain has no rules.
    UnknownDomain,
    /// Nothing: the entries lead to no descriptor of the rules.
    NoMatch,
    /// Nothing: they lead to a descriptor without `rate_limit`.
    NoLimit,
    /// Nothing: the descriptor states the priority of the request.
    Priority,
    /// Nothing: another rule of the request replaces the one that was found.
    Replaced {
        /// The rule that was found.
        rule: Box<RuleView>,
        /// The rule that replaces it.
        by: Box<RuleView>,
    },
    /// A rule; its enforcement is that of the descriptor's key.
    Rule(Box<RuleView>),
    /// The limit that is part of the descriptor. No rule was searched.
    OwnLimit {
        /// The limit.
        limit: Limit,
        /// How instances share it.
        sharing: Sharing,
    },
}

// === impl RuleSet ===

impl RuleSet {
    /// As [`RuleSet::resolve_with_headroom`], with a report of each step: the same search makes
    /// both.
    pub fn explain<'s, H: KeyHasher>(
        &'s self,
        request: &Request<'_>,
        hasher: &H,
        headroom: &dyn Headroom,
    ) -> Explained<'s> {
        let mut recorder = Recorder::default();
        let resolved = self.resolve_observed(request, hasher, headroom, &mut recorder);
        let mut walks = recorder.finish();
        walks.resize_with(request.descriptors.len(), Walk::default);
        let states_priority = |index: usize| {
            let descriptor = &request.descriptors[index];
            resolved
                .domain
                .is_some_and(|domain| domain.states_priority(descriptor))
        };
        let parts = resolved.parts.iter().enumerate().zip(walks);
        let findings = parts.map(|((index, part), walk)| {
            let mut replaced = recorder.replaced.iter();
            let replaced = replaced.find(|replaced| replaced.index == index);
            let finding = match part {
                Part::Limited {
                    rule,
                    limit,
                    enforcement,
                    ..
                } => {
                    let view = RuleView::of(rule);
                    Finding::Rule(Box::new(RuleView {
                        enforcement: *enforcement,
                        has_headroom: view.has_headroom.map(|_| limit.has_headroom()),
                        sources: rule
                            .limit
                            .ask_sources(request.domain_name().unwrap_or(""), headroom),
                        ..view
                    }))
                }
                Part::Unlimited { rule, .. } => Finding::Rule(Box::new(RuleView::of(rule))),
                Part::Overridden { domain, limit, .. } => Finding::OwnLimit {
                    limit: *limit,
                    sharing: domain.sharing,
                },
                Part::Nothing if resolved.domain.is_none() => Finding::UnknownDomain,
                Part::Nothing if states_priority(index) => Finding::Priority,
                Part::Nothing => Finding::of_nothing(&walk, replaced),
            };
            (walk, finding)
        });
        Explained {
            findings: findings.collect(),
            resolved,
        }
    }
}

// === impl Finding ===

impl Finding {
    fn of_nothing(walk: &Walk, replaced: Option<&Replaced<'_>>) -> Finding {
        match replaced {
            Some(Replaced { rule, by, .. }) => Finding::Replaced {
                rule: Box::new(RuleView::of(rule)),
                by: Box::new(RuleView::of(by)),
            },
            None if walk.arrivals.is_empty() => Finding::NoMatch,
            None => Finding::NoLimit,
        }
    }
}
