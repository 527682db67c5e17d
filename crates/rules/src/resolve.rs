//! Resolves requests: descriptors in, charges out, and the verdict back to descriptors.

use std::borrow::Cow;
use std::sync::Arc;

use tollgate_core::{
    Answer, Charge, ChargeDenied, Cost, Descriptor, Enforcement, Key, KeyHasher, Limit,
    LimitHistory, Limited, Override, PerCharge, PerDescriptor, Request, RequestDenial, Resolution,
    RuleName, Status, Verdict,
};

use crate::domain::{Domain, Rule, RuleLimit};
use crate::headroom::{Headroom, NoHeadroom};
use crate::observer::Observer;
use crate::rule_set::RuleSet;

mod charged_rule;
mod enforced;
mod explained;
mod metadata;
mod priority;
mod replaced;
mod view;

use view::Circumstances;

pub use charged_rule::ChargedRule;
pub use explained::{Explained, Finding};

/// Kinds of keys, with a version: a change of what a key is made of needs a new version.
const RULE_KEY: &[u8] = b"rule/1";
const OVERRIDE_KEY: &[u8] = b"override/2";

/// A resolved request: for each descriptor its rule, if any.
#[derive(Debug)]
#[must_use = "a request that is not charged is not limited"]
pub struct Resolved<'s> {
    domain: Option<&'s Domain>,
    /// The protocol's default, for rules that do not set it.
    charge_denied: ChargeDenied,
    /// One for each descriptor, in their order.
    parts: PerDescriptor<Part<'s>>,
}

/// What applies to one descriptor.
#[derive(Debug)]
enum Part<'s> {
    /// No rule, or a rule that another one replaces.
    Nothing,
    /// A rule without a limit.
    Unlimited {
        rule: &'s Rule,
        /// Where this counts in metrics, if that depends on the request.
        metric: Option<Box<str>>,
    },
    /// A rule's limit.
    Limited {
        rule: &'s Rule,
        /// As the request meets it: with or without priority and headroom.
        limit: &'s Limit,
        history: &'s LimitHistory,
        key: Key,
        /// That of the rule for this key.
        enforcement: Enforcement,
        cost: Cost,
        /// Where this counts in metrics, if that depends on the request.
        metric: Option<Box<str>>,
    },
    /// A limit that is part of the descriptor itself.
    Overridden {
        domain: &'s Domain,
        limit: Limit,
        key: Key,
        cost: Cost,
    },
}

// === impl RuleSet ===

impl RuleSet {
    /// Finds the rule for each descriptor of `request`.
    ///
    /// Never fails, whatever the request contains, and stores nothing.
    ///
    /// Each entry is looked up first among exact values, then among values with stars in the order
    /// of the file, then as a key without a value; there is no backtracking if the search ends
    /// further down. A rule applies only if it is exactly as deep as the descriptor is long. A
    /// limit that is part of a descriptor replaces the rule's own if the domain is known, and is
    /// shared as the domain says; if it is invalid, the rule's own limit applies.
    ///
    /// There is no headroom: see [`RuleSet::resolve_with_headroom`].
    pub fn resolve<'s, H: KeyHasher>(&'s self, request: &Request<'_>, hasher: &H) -> Resolved<'s> {
        self.resolve_with_headroom(request, hasher, &NoHeadroom)
    }

    /// As [`RuleSet::resolve`], with the elastic parts of limits for which there is headroom.
    pub fn resolve_with_headroom<'s, H: KeyHasher>(
        &'s self,
        request: &Request<'_>,
        hasher: &H,
        headroom: &dyn Headroom,
    ) -> Resolved<'s> {
        self.resolve_observed(request, hasher, headroom, &mut ())
    }

    /// As [`RuleSet::resolve`], while `observer` sees each step.
    pub(crate) fn resolve_observed<'s, H: KeyHasher>(
        &'s self,
        request: &Request<'_>,
        hasher: &H,
        headroom: &dyn Headroom,
        observer: &mut impl Observer<'s>,
    ) -> Resolved<'s> {
        let Some(domain) = request.domain_name().and_then(|name| self.domain(name)) else {
            let parts = request.descriptors.iter().map(|_| Part::Nothing).collect();
            return Resolved {
                domain: None,
                charge_denied: request.charge_denied,
                parts,
            };
        };
        let priority = priority::of(request, domain);
        let parts = request.descriptors.iter().map(|descriptor| {
            observer.begin();
            if domain.states_priority(descriptor) {
                return Part::Nothing;
            }
            let cost = descriptor.cost.unwrap_or(request.cost);
            let overridden = descriptor
                .limit
                .and_then(|limit| resolve_override(domain, descriptor, limit, cost, hasher));
            overridden.unwrap_or_else(|| {
                let stated = Circumstances {
                    cost,
                    priority,
                    headroom,
                };
                match_descriptor(domain, descriptor, &stated, hasher, observer)
            })
        });
        let mut resolved = Resolved {
            domain: Some(domain),
            charge_denied: request.charge_denied,
            parts: parts.collect(),
        };
        resolved.drop_replaced(observer);
        resolved
    }
}

/// Finds the rule for a descriptor, and the key that the rule counts.
fn match_descriptor<'s, H: KeyHasher>(
    domain: &'s Domain,
    descriptor: &Descriptor<'_>,
    stated: &Circumstances<'_>,
    hasher: &H,
    observer: &mut impl Observer<'s>,
) -> Part<'s> {
    // One entry has one order.
    let found = if descriptor.is_unordered && descriptor.entries.len() > 1 {
        let found = domain.find_in_any_order(&descriptor.entries, observer);
        found.map(|(rule, entries)| (rule, Cow::Owned(entries)))
    } else {
        let found = domain.find(&descriptor.entries, observer);
        found.map(|rule| (rule, Cow::Borrowed(&descriptor.entries[..])))
    };
    let Some((rule, entries)) = found else {
        return Part::Nothing;
    };
    let metric = rule.metric(&entries);
    let RuleLimit::Limited { limit, history, .. } = &rule.limit else {
        return Part::Unlimited { rule, metric };
    };
    let steps = rule.path.iter().zip(&*entries);
    let values = steps
        .filter(|(step, _)| step.distinguishes)
        .map(|(_, entry)| entry.value);
    let enforcement = enforced::enforcement(rule, values.clone());
    // The identity fixes how many values follow, and the boundaries between parts count.
    let parts = [RULE_KEY, &rule.identity].into_iter().chain(values);
    Part::Limited {
        rule,
        limit: stated.view(&rule.limit, &domain.name).unwrap_or(limit),
        history,
        key: hasher.key(parts),
        enforcement,
        cost: stated.cost,
        metric,
    }
}

/// The limit that is part of a descriptor; `None` if it is invalid.
fn resolve_override<'s, H: KeyHasher>(
    domain: &'s Domain,
    descriptor: &Descriptor<'_>,
    wanted: Override,
    cost: Cost,
    hasher: &H,
) -> Option<Part<'s>> {
    if descriptor.entries.is_empty() {
        return None;
    }
    let limit = Limit::fixed_window(wanted.count, wanted.window).ok()?;
    let window = wanted.window.as_nanos().to_be_bytes();
    let names = descriptor
        .entries
        .iter()
        .flat_map(|entry| [entry.key, entry.value]);
    let fixed = [OVERRIDE_KEY, domain.name.as_bytes(), &window];
    Some(Part::Overridden {
        domain,
        limit,
        key: hasher.key(fixed.into_iter().chain(names)),
        cost,
    })
}

// === impl Resolved ===

impl<'s> Resolved<'s> {
    /// The charges for the store to decide on, in the order of the descriptors.
    pub fn charges(&self) -> PerCharge<Charge<'_>> {
        self.charges_under(Resolution::First)
    }

    /// As [`Resolved::charges`]; `resolution` says whether they are found again
    /// ([`Charge::resolution`]).
    ///
    /// The list has room for [`tollgate_core::CHARGES_INLINE`] charges, about a kilobyte, and is
    /// copied when it is returned. [`Resolved::append_charges`] writes to a list of the caller.
    pub fn charges_under(&self, resolution: Resolution) -> PerCharge<Charge<'_>> {
        let mut charges = PerCharge::new();
        self.append_charges(resolution, &mut charges);
        charges
    }

    /// Appends the charges of [`Resolved::charges_under`] to `charges`.
    pub fn append_charges<'c>(
        &'c self,
        resolution: Resolution,
        charges: &mut impl Extend<Charge<'c>>,
    ) {
        let found = self.parts.iter();
        let found = found.filter_map(|part| part.charge(self.charge_denied));
        charges.extend(found.map(|charge| Charge {
            resolution,
            ..charge
        }));
    }

    /// The answer, given the verdict on [`Resolved::charges`].
    pub fn answer(&self, verdict: &Verdict) -> Answer {
        let mut decisions = verdict.decisions.iter();
        let mut statuses = PerDescriptor::with_capacity(self.parts.len());
        for part in &self.parts {
            statuses.push(match part {
                Part::Nothing => Status::NoLimit,
                Part::Unlimited { rule, .. } => Status::Unlimited {
                    rule: Arc::clone(&rule.name),
                },
                Part::Limited { .. } | Part::Overridden { .. } => decisions
                    .next()
                    .and_then(|decision| part.limited_status(*decision))
                    .map_or(Status::NoLimit, Status::Limited),
            });
        }
        let denial = verdict.denial.map(|denial| RequestDenial {
            by: self.charged_descriptors().nth(denial.by).unwrap_or(0),
            wait: denial.wait,
            reason: denial.reason,
        });
        Answer {
            statuses,
            denial,
            delay: verdict.delay(),
        }
    }

    /// The metric path of the descriptor at `index`, below its domain: [`RuleName::path`], or with
    /// the request's values if `detailed_metric` or `value_to_metric` is set. `None` if no rule
    /// applies to it.
    ///
    /// The caller must bound the number of metrics: clients choose the values.
    pub fn metric(&self, index: usize) -> Option<&str> {
        match self.parts.get(index)? {
            Part::Nothing => None,
            Part::Unlimited { rule, metric } | Part::Limited { rule, metric, .. } => {
                Some(metric.as_deref().unwrap_or(&rule.name.path))
            }
            Part::Overridden { domain, .. } => Some(&domain.overridden.path),
        }
    }

    /// What the descriptor at `index` counts under; `None` if no limit applies to it.
    pub fn key(&self, index: usize) -> Option<Key> {
        self.parts.get(index)?.key()
    }

    /// What the request counts under, in the order of [`Resolved::charges`].
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.parts.iter().filter_map(Part::key)
    }
}

// === impl Part ===

impl<'s> Part<'s> {
    fn rule(&self) -> Option<&'s Rule> {
        match self {
            Part::Unlimited { rule, .. } | Part::Limited { rule, .. } => Some(rule),
            Part::Nothing | Part::Overridden { .. } => None,
        }
    }

    /// What it counts under, if it is limited and so has a charge.
    const fn key(&self) -> Option<Key> {
        match self {
            Part::Nothing | Part::Unlimited { .. } => None,
            Part::Limited { key, .. } | Part::Overridden { key, .. } => Some(*key),
        }
    }

    /// The charge for this part, if it is limited.
    fn charge(&self, default: ChargeDenied) -> Option<Charge<'_>> {
        match self {
            Part::Nothing | Part::Unlimited { .. } => None,
            Part::Limited {
                rule,
                limit,
                history,
                key,
                enforcement,
                cost,
                ..
            } => Some(Charge {
                history,
                enforcement: *enforcement,
                on_denial: rule.charge_denied.unwrap_or(default).on_denial(*cost),
                sharing: rule.sharing,
                ..Charge::new(*key, limit, *cost)
            }),
            Part::Overridden {
                domain,
                limit,
                key,
                cost,
            } => Some(Charge {
                on_denial: domain.charge_denied.unwrap_or(default).on_denial(*cost),
                sharing: domain.sharing,
                ..Charge::new(*key, limit, *cost)
            }),
        }
    }

    /// What this decision says of the limit, if there is one.
    fn limited_status(&self, decision: tollgate_core::Decision) -> Option<Limited> {
        let (rule, limit, enforcement): (&Arc<RuleName>, Limit, Enforcement) = match self {
            Part::Nothing | Part::Unlimited { .. } => return None,
            Part::Limited {
                rule,
                limit,
                enforcement,
                ..
            } => (&rule.name, **limit, *enforcement),
            Part::Overridden { domain, limit, .. } => {
                (&domain.overridden, *limit, Enforcement::Enforce)
            }
        };
        Some(Limited {
            rule: Arc::clone(rule),
            limit,
            decision,
            enforcement,
        })
    }
}
