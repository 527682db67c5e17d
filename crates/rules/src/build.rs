//! A checked draft into look-up tables.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::{Algorithm, ChargeDenied, Enforcement, LimitHistory, RuleName, Sharing};

use crate::domain::{
    Branch, Domain, ElasticLimit, Level, PriorityLimit, Rule, RuleDescriptor, RuleLimit, Step,
    StepMetric, push_step,
};
use crate::draft::{DescriptorDraft, DomainDraft, RateLimitDraft};
use crate::section::PRIORITY_KEY;

/// The path of limits that are part of a request, in place of a rule's path.
const OVERRIDDEN: &str = "(override)";

/// The domain of a draft without errors, whose limits are shared as `sharing` says where the draft
/// does not. `files` are the names of all files.
pub(crate) fn build_domain(draft: &DomainDraft, sharing: Sharing, files: &[Arc<str>]) -> Domain {
    let charge_denied = draft.charge_denied.map(|setting| setting.value);
    let priority_key = draft.priority_key.as_ref();
    let priority_key = priority_key.map_or(PRIORITY_KEY, |key| &key.value);
    let sharing = draft.sharing.within(sharing);
    let mut builder = Builder {
        domain: &draft.name.value,
        charge_denied,
        sharing,
        files,
        rules: Vec::new(),
        names: HashMap::new(),
        path: Vec::new(),
    };
    let top = builder.level(&draft.descriptors);
    let rules = builder.rules.iter().enumerate();
    let places = rules.map(|(place, rule)| (Arc::clone(&rule.identity), place));
    Domain {
        places: places.collect(),
        name: Arc::from(draft.name.value.as_str()),
        files: draft.files.clone(),
        charge_denied,
        sharing,
        priority_key: draft.has_reserved().then(|| priority_key.as_bytes().into()),
        has_leaky_bucket: builder.rules.iter().any(is_leaky_bucket),
        top,
        rules: builder.rules,
        overridden: Arc::new(RuleName {
            domain: draft.name.value.clone(),
            path: OVERRIDDEN.to_owned(),
            name: None,
        }),
    }
}

fn is_leaky_bucket(rule: &Rule) -> bool {
    match &rule.limit {
        RuleLimit::Limited { limit, .. } => limit.algorithm() == Algorithm::LeakyBucket,
        RuleLimit::Unlimited => false,
    }
}

struct Builder<'d> {
    domain: &'d str,
    charge_denied: Option<ChargeDenied>,
    sharing: Sharing,
    files: &'d [Arc<str>],
    rules: Vec<Rule>,
    /// A number for each name.
    names: HashMap<&'d str, usize>,
    /// From the top to the present descriptor.
    path: Vec<Step>,
}

// === impl Builder ===

impl<'d> Builder<'d> {
    fn level(&mut self, descriptors: &'d [DescriptorDraft]) -> Level {
        let mut level = Level::default();
        for descriptor in descriptors {
            self.path.push(step(descriptor));
            let rate_limit = descriptor.rate_limit.as_ref();
            let branch = Branch {
                written: Arc::new(self.written(descriptor)),
                rule: rate_limit.map(|rate_limit| self.rule(descriptor, rate_limit)),
                below: self.level(&descriptor.descriptors),
            };
            self.path.pop();
            let value = descriptor.value.as_ref().map(|value| value.value.as_str());
            level.insert(&descriptor.key.value, value, branch);
        }
        level
    }

    fn written(&self, descriptor: &DescriptorDraft) -> RuleDescriptor {
        let value = descriptor.value.as_ref();
        RuleDescriptor {
            key: descriptor.key.value.as_str().into(),
            value: value.map(|value| value.value.as_str().into()),
            file: Arc::clone(&self.files[descriptor.key.mark.file]),
            line: descriptor.key.mark.line,
        }
    }

    /// Adds the rule of a descriptor; returns its index.
    fn rule(&mut self, descriptor: &'d DescriptorDraft, rate_limit: &'d RateLimitDraft) -> usize {
        let detailed_metric = descriptor.flags.detailed_metric.is_some();
        let metric_varies = self.path.iter().any(|step| match step.metric {
            StepMetric::Value => true,
            StepMetric::WrittenUnlessDetailed => detailed_metric,
            StepMetric::Written => false,
        });
        let rule = Rule {
            name: Arc::new(self.name(rate_limit)),
            file: Arc::clone(&self.files[descriptor.key.mark.file]),
            line: descriptor.key.mark.line,
            limit: match rate_limit.limit {
                None => RuleLimit::Unlimited,
                Some(limit) => RuleLimit::Limited {
                    limit,
                    for_priority: rate_limit.reserved.as_ref().map(|reserved| {
                        let priorities = reserved.value.iter();
                        let priorities = priorities.map(|text| text.as_bytes().into());
                        Box::new(PriorityLimit {
                            limit: limit.for_priority(),
                            priorities: priorities.collect(),
                        })
                    }),
                    elastic: rate_limit.elastic.as_ref().map(|sources| {
                        Box::new(ElasticLimit {
                            sources: sources.value.as_slice().into(),
                            with_headroom: limit.with_headroom(),
                            whole: limit.whole(),
                        })
                    }),
                    history: LimitHistory::default(),
                },
            },
            enforcement: enforcement(descriptor),
            enforce: descriptor.enforce.map(|percent| percent.value),
            charge_denied: rate_limit
                .charge_denied
                .map(|setting| setting.value)
                .or(self.charge_denied),
            sharing: rate_limit.sharing.within(self.sharing),
            identity: identity(self.domain, &self.path).into(),
            path: self.path.clone().into(),
            name_id: rate_limit
                .name
                .as_ref()
                .map(|name| self.number(&name.value)),
            replaces: rate_limit
                .replaces
                .iter()
                .map(|name| self.number(&name.value))
                .collect(),
            metadata: descriptor
                .metadata
                .as_ref()
                .map(|metadata| Arc::new(metadata.value.clone())),
            detailed_metric,
            metric_varies,
        };
        self.rules.push(rule);
        self.rules.len() - 1
    }

    fn number(&mut self, name: &'d str) -> usize {
        let next = self.names.len();
        *self.names.entry(name).or_insert(next)
    }

    fn name(&self, rate_limit: &RateLimitDraft) -> RuleName {
        let mut path = String::new();
        for step in &self.path {
            if !path.is_empty() {
                path.push('.');
            }
            push_step(&mut path, &step.key, step.value.as_deref());
        }
        RuleName {
            domain: self.domain.to_owned(),
            path,
            name: rate_limit.name.as_ref().map(|name| name.value.clone()),
        }
    }
}

/// Shadow wins over quota: a limit that is only tried out must not deny.
fn enforcement(descriptor: &DescriptorDraft) -> Enforcement {
    if descriptor.flags.shadow_mode.is_some() {
        Enforcement::Shadow
    } else if descriptor.flags.quota_mode.is_some() {
        Enforcement::Quota
    } else {
        Enforcement::Enforce
    }
}

/// The step of a rule's path that a descriptor is.
fn step(descriptor: &DescriptorDraft) -> Step {
    let flags = &descriptor.flags;
    let is_exact = descriptor.value.is_some() && descriptor.pattern().is_none();
    let shares = flags.share_threshold.is_some();
    Step {
        key: descriptor.key.value.as_str().into(),
        value: descriptor
            .value
            .as_ref()
            .map(|value| value.value.as_str().into()),
        distinguishes: !is_exact && !shares,
        metric: if is_exact || shares {
            StepMetric::Written
        } else if flags.value_to_metric.is_some() {
            StepMetric::Value
        } else {
            StepMetric::WrittenUnlessDetailed
        },
    }
}

/// Each part with its length before it, so that no two paths have the same identity; and whether a
/// step's values are distinguished, so that switching `share_threshold` begins new counters.
fn identity(domain: &str, path: &[Step]) -> Vec<u8> {
    let mut identity = Vec::new();
    push_part(&mut identity, domain);
    for step in path {
        push_part(&mut identity, &step.key);
        identity.push(u8::from(step.value.is_some()) | u8::from(step.distinguishes) << 1);
        push_part(&mut identity, step.value.as_deref().unwrap_or_default());
    }
    identity
}

fn push_part(identity: &mut Vec<u8>, part: &str) {
    let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
    identity.extend(length.to_be_bytes());
    identity.extend(part.as_bytes());
}
