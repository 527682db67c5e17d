//! Which rules of two sets are the same.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use tollgate_core::RuleName;

use crate::report::RuleTotals;

/// For each rule of the old set, the place of the same rule in the new one.
///
/// Rules of one set may have the same name, so the path decides first. By name alone, a rule that
/// moved is only found if no other has that name.
pub(super) fn pairs(before: &[RuleTotals], after: &[RuleTotals]) -> Vec<Option<usize>> {
    let mut pairs = Pairs {
        before,
        after,
        places: vec![None; before.len()],
        is_taken: vec![false; after.len()],
    };
    pairs.find(|rule| Some((&rule.domain, &rule.path, rule.name.as_deref())));
    pairs.find(|rule| Some((&rule.domain, &rule.path)));
    let [old, new] = [before, after].map(uses_of_names);
    let is_unique = |name| old.get(&name) == Some(&1) && new.get(&name) == Some(&1);
    pairs.find(|rule| name_in_domain(rule).filter(|name| is_unique(*name)));
    pairs.places
}

/// How many rules have each name.
fn uses_of_names(rules: &[RuleTotals]) -> HashMap<(&str, &str), usize> {
    let mut uses = HashMap::new();
    for name in rules
        .iter()
        .filter_map(|totals| name_in_domain(&totals.rule))
    {
        *uses.entry(name).or_default() += 1;
    }
    uses
}

fn name_in_domain(rule: &RuleName) -> Option<(&str, &str)> {
    rule.name.as_deref().map(|name| (&*rule.domain, name))
}

/// The pairs found so far.
struct Pairs<'r> {
    before: &'r [RuleTotals],
    after: &'r [RuleTotals],
    /// For each old rule.
    places: Vec<Option<usize>>,
    /// For each new rule, whether it has an old one.
    is_taken: Vec<bool>,
}

// === impl Pairs ===

impl<'r> Pairs<'r> {
    /// Pairs rules with the same key that have no pair yet, in their order.
    fn find<K: Eq + Hash>(&mut self, key: impl Fn(&'r RuleName) -> Option<K>) {
        let mut free: HashMap<K, VecDeque<usize>> = HashMap::new();
        for (place, totals) in self.after.iter().enumerate() {
            if let (false, Some(key)) = (self.is_taken[place], key(&totals.rule)) {
                free.entry(key).or_default().push_back(place);
            }
        }
        for (pair, totals) in self.places.iter_mut().zip(self.before) {
            if pair.is_none()
                && let Some(key) = key(&totals.rule)
                && let Some(place) = free.get_mut(&key).and_then(VecDeque::pop_front)
            {
                *pair = Some(place);
                self.is_taken[place] = true;
            }
        }
    }
}
