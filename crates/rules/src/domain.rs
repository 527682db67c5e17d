//! A domain's rules, ready to be looked up.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use serde_json::{Map, Value};
use tollgate_core::{
    ChargeDenied, Enforcement, Entry, Escaped, Limit, LimitHistory, RuleName, Sharing,
};

use crate::headroom::HeadroomSource;
use crate::listed::{Listed, SHOWN_MAX};
use crate::observer::Observer;
use crate::pattern::Pattern;

/// All rules of a domain. Shared by every rule set that has it unchanged.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    pub(crate) name: Arc<str>,
    /// The files that it was read from.
    pub(crate) files: Vec<String>,
    /// `None` if the file does not set it: the request's protocol decides.
    pub(crate) charge_denied: Option<ChargeDenied>,
    /// For limits that are part of a request.
    pub(crate) sharing: Sharing,
    /// The key of the descriptor that states a request's priority; `None` if no rule asks for it.
    pub(crate) priority_key: Option<Box<[u8]>>,
    /// Whether one of its rules is a leaky bucket.
    pub(crate) has_leaky_bucket: bool,
    pub(crate) top: Level,
    /// In the order of the files.
    pub(crate) rules: Vec<Rule>,
    /// The place of each rule in them, by its identity.
    pub(crate) places: HashMap<Arc<[u8]>, usize, RandomState>,
    /// The name of limits that are part of a request.
    pub(crate) overridden: Arc<RuleName>,
}

/// The descriptors of one level, by key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Level {
    branches: Table<Branches>,
    /// All of them; `None` if there are none, as below most rules.
    written: Option<Box<Listed<Arc<RuleDescriptor>>>>,
}

/// Operators write the keys and clients look them up. A fast hash will do: only the author of the
/// rules could make entries collide.
type Table<T> = HashMap<Box<[u8]>, T, RandomState>;

/// The descriptors of one key: what each value leads to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Branches {
    /// Values written out, looked up first.
    exact: Table<Branch>,
    /// These in the order of the files.
    exact_written: Listed<Arc<RuleDescriptor>>,
    /// Values with stars, in the order of the file; the first that matches wins.
    patterns: Vec<(Pattern, Branch)>,
    /// The key without a value, looked up last.
    bare: Option<Box<Branch>>,
}

/// One descriptor of the file.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    /// How the file writes it, for people to read.
    pub(crate) written: Arc<RuleDescriptor>,
    /// Index into the domain's rules; `None` for a descriptor without `rate_limit`.
    pub(crate) rule: Option<usize>,
    pub(crate) below: Level,
}

/// A descriptor as a rules file writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleDescriptor {
    /// Its key.
    pub key: Box<str>,
    /// Its value; `None` for a key without a value, which every value matches.
    pub value: Option<Box<str>>,
    /// The file: [`crate::Source::name`].
    pub file: Arc<str>,
    /// The line of its key, from 1.
    pub line: u32,
}

/// A descriptor with a `rate_limit`.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) name: Arc<RuleName>,
    /// The file that defines it.
    pub(crate) file: Arc<str>,
    /// The line of its key, from 1.
    pub(crate) line: u32,
    pub(crate) limit: RuleLimit,
    pub(crate) enforcement: Enforcement,
    /// The percentage of the keys for which it is; `None` is all.
    pub(crate) enforce: Option<u8>,
    pub(crate) charge_denied: Option<ChargeDenied>,
    pub(crate) sharing: Sharing,
    /// Domain and patterns from the top: the rule's identity over reloads, and the part of its
    /// counters' keys that no request changes.
    pub(crate) identity: Arc<[u8]>,
    /// From the top to this rule.
    pub(crate) path: Box<[Step]>,
    /// What this rule's `name` is called in `replaces`, as an index into the domain's names.
    pub(crate) name_id: Option<usize>,
    /// The names that this rule replaces.
    pub(crate) replaces: Box<[usize]>,
    pub(crate) metadata: Option<Arc<Map<String, Value>>>,
    /// Whether every step of the metric's path shows the request's value.
    pub(crate) detailed_metric: bool,
    /// Whether the metric's path depends on the request.
    pub(crate) metric_varies: bool,
}

/// What a rule does.
#[derive(Clone, Debug)]
pub(crate) enum RuleLimit {
    /// Allows without counting.
    Unlimited,
    /// Counts.
    Limited {
        limit: Limit,
        /// The limit as requests with priority meet it, and which priorities these are; `None` if
        /// it keeps no share for them.
        for_priority: Option<Box<PriorityLimit>>,
        /// The limit as requests meet it while there is headroom, and what says so; `None` without
        /// an elastic part.
        elastic: Option<Box<ElasticLimit>>,
        /// The limits that it had before.
        history: LimitHistory,
    },
}

/// A limit as requests with priority meet it.
#[derive(Clone, Debug)]
pub(crate) struct PriorityLimit {
    pub(crate) limit: Limit,
    /// The priorities that can use the limit's share.
    pub(crate) priorities: Box<[Box<[u8]>]>,
}

/// A limit as requests meet it while there is headroom.
#[derive(Clone, Debug)]
pub(crate) struct ElasticLimit {
    /// What has to report headroom: all of them.
    pub(crate) sources: Box<[HeadroomSource]>,
    pub(crate) with_headroom: Limit,
    /// As requests with priority meet it then.
    pub(crate) whole: Limit,
}

/// One descriptor on the way to a rule.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) key: Box<str>,
    /// As written; `None` for a bare key.
    pub(crate) value: Option<Box<str>>,
    /// Whether each value that a request may have for this step has its own counter.
    pub(crate) distinguishes: bool,
    pub(crate) metric: StepMetric,
}

/// What a step is called in a metric's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepMetric {
    /// The text of the file.
    Written,
    /// The text of the file, unless the rule has a `detailed_metric`.
    WrittenUnlessDetailed,
    /// The request's value.
    Value,
}

// === impl Step ===

impl Step {
    /// The value as written, if all values that it matches count together.
    pub(crate) fn shared_value(&self) -> Option<Box<str>> {
        self.value.clone().filter(|_| !self.distinguishes)
    }
}

// === impl Domain ===

impl Domain {
    /// The rule with this identity.
    pub(crate) fn rule(&self, identity: &[u8]) -> Option<&Rule> {
        self.places.get(identity).map(|place| &self.rules[*place])
    }

    /// The rule for a descriptor: the one at the end of its entries, each of which goes down one
    /// level. Once an entry has chosen its branch, the others at that level are not tried.
    pub(crate) fn find<'s>(
        &'s self,
        entries: &[Entry<'_>],
        observer: &mut impl Observer<'s>,
    ) -> Option<&'s Rule> {
        let mut level = &self.top;
        let mut found = None;
        for entry in entries {
            let branch = level.branch(entry, observer)?;
            observer.descend();
            found = Some(branch);
            level = &branch.below;
        }
        let branch = found?;
        observer.arrive(branch);
        branch.rule.map(|index| &self.rules[index])
    }

    /// The rule for entries in whichever order rules nest, the first in the order of the files, and
    /// the entries in its order. An entry that states the request's priority matches none.
    pub(crate) fn find_in_any_order<'s, 'e>(
        &'s self,
        entries: &[Entry<'e>],
        observer: &mut impl Observer<'s>,
    ) -> Option<(&'s Rule, Vec<Entry<'e>>)> {
        let states_priority = |entry: &&Entry<'_>| self.priority_key.as_deref() == Some(entry.key);
        let others = entries.iter().filter(|entry| !states_priority(entry));
        let mut search = Search {
            left: others.copied().collect(),
            path: Vec::with_capacity(entries.len()),
            found: None,
        };
        search.descend(&self.top, observer);
        let (rule, path) = search.found?;
        Some((&self.rules[rule], path))
    }
}

/// A search for rules that nest the entries of a descriptor in any order.
struct Search<'e> {
    /// Entries that are not on the way to the present level.
    left: Vec<Entry<'e>>,
    /// Those that are, from the top.
    path: Vec<Entry<'e>>,
    /// The first rule in the order of the files, and its path.
    found: Option<(usize, Vec<Entry<'e>>)>,
}

// === impl Search ===

impl Search<'_> {
    /// Looks at every descriptor of the file that some of the entries lead to, each at most once:
    /// no two entries have the same key.
    fn descend<'s>(&mut self, level: &'s Level, observer: &mut impl Observer<'s>) {
        for index in 0..self.left.len() {
            let Some(branch) = level.branch(&self.left[index], observer) else {
                continue;
            };
            let entry = self.left.swap_remove(index);
            self.path.push(entry);
            observer.descend();
            if self.left.is_empty() {
                observer.arrive(branch);
                self.meet(branch.rule);
            } else {
                self.descend(&branch.below, observer);
            }
            observer.ascend();
            self.path.pop();
            self.left.push(entry);
            let last = self.left.len() - 1;
            self.left.swap(index, last);
        }
    }

    fn meet(&mut self, rule: Option<usize>) {
        let first = self.found.as_ref().map(|(first, _)| *first);
        if let Some(rule) = rule
            && first.is_none_or(|first| rule < first)
        {
            self.found = Some((rule, self.path.clone()));
        }
    }
}

// === impl Level ===

impl Level {
    /// The branch of an entry: the first that matches, in the order of comparison.
    fn branch<'s>(
        &'s self,
        entry: &Entry<'_>,
        observer: &mut impl Observer<'s>,
    ) -> Option<&'s Branch> {
        let branches = self.branches.get(entry.key);
        observer.look_up(self, branches, entry);
        let branches = branches?;
        let exact = branches.exact.get(entry.value);
        observer.compare_exact(branches, exact);
        if exact.is_some() {
            return exact;
        }
        for (pattern, branch) in &branches.patterns {
            let matches = pattern.matches(entry.value);
            observer.compare(branch, matches);
            if matches {
                return Some(branch);
            }
        }
        let bare = branches.bare.as_deref();
        if let Some(branch) = bare {
            observer.compare(branch, true);
        }
        bare
    }

    /// All descriptors of this level; `None` if there are none.
    pub(crate) fn written(&self) -> Option<&Listed<Arc<RuleDescriptor>>> {
        self.written.as_deref()
    }

    /// Adds the next descriptor in the order of the files, whose key and value must be new.
    pub(crate) fn insert(&mut self, key: &str, value: Option<&str>, branch: Branch) {
        let written = self.written.get_or_insert_default();
        written.add(&branch.written);
        let branches = self.branches.entry(key.as_bytes().into()).or_default();
        match value {
            None => branches.bare = Some(Box::new(branch)),
            Some(value) => match Pattern::new(value) {
                Some(pattern) => branches.patterns.push((pattern, branch)),
                None => {
                    branches.exact_written.add(&branch.written);
                    branches.exact.insert(value.as_bytes().into(), branch);
                }
            },
        }
    }
}

// === impl Branches ===

impl Branches {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.exact_count() + self.patterns.len() + usize::from(self.bare.is_some())
    }

    /// How many have a value without stars.
    pub(crate) fn exact_count(&self) -> usize {
        self.exact.len()
    }

    /// The first of them in the order in which they are compared with a value: values without stars
    /// in the order of the files, values with stars, the key without a value. [`SHOWN_MAX`] or all.
    pub(crate) fn first_written(&self) -> impl Iterator<Item = &Arc<RuleDescriptor>> {
        let patterns = self.patterns.iter().map(|(_, branch)| branch);
        let others = patterns.chain(self.bare.as_deref());
        let exact = self.exact_written.first().iter();
        let written = exact.chain(others.map(|branch| &branch.written));
        written.take(SHOWN_MAX)
    }
}

// === impl Rule ===

impl Rule {
    /// Where a request counts in metrics; `None` if it is [`RuleName::path`].
    pub(crate) fn metric(&self, entries: &[Entry<'_>]) -> Option<Box<str>> {
        if !self.metric_varies {
            return None;
        }
        let mut path = String::new();
        for (step, entry) in self.path.iter().zip(entries) {
            if !path.is_empty() {
                path.push('.');
            }
            let says_value = match step.metric {
                StepMetric::Value => true,
                StepMetric::WrittenUnlessDetailed => self.detailed_metric,
                StepMetric::Written => false,
            };
            if says_value {
                let value = Escaped(entry.value).to_string();
                push_step(&mut path, &step.key, Some(&value));
            } else {
                push_step(&mut path, &step.key, step.value.as_deref());
            }
        }
        Some(path.into())
    }
}

/// Writes a step as Envoy's service does: `key_value`, or `key`.
pub(crate) fn push_step(path: &mut String, key: &str, value: Option<&str>) {
    path.push_str(key);
    if let Some(value) = value {
        path.push('_');
        path.push_str(value);
    }
}
