//! Which rules of a request are replaced by others.
//!
//! A rule that lists a name in `replaces` removes every rule of that name from the requests that it
//! applies to, even if it is removed itself: if A replaces B and B replaces C, A stays. Rules that
//! replace each other in a cycle would all be removed and nothing would be limited, so the first
//! rule of a cycle, in the order of the request, is not removed by the others.

use crate::domain::Rule;

/// The most rules of one request that may replace each other. Rules beyond that replace nothing, so
/// that they still limit.
const REPLACING_MAX: usize = 128;

/// The indexes of the descriptors whose rule another one replaces, each with that other rule.
pub(crate) fn find_replaced<'r>(matched: &[Option<&'r Rule>]) -> Vec<(usize, &'r Rule)> {
    let rules = distinct(matched);
    let reached: Vec<Vec<bool>> = (0..rules.len())
        .map(|at| find_reachable(&rules, at))
        .collect();
    let in_cycle = |one: usize, other: usize| reached[one][other] && reached[other][one];
    let find_remover = |index: usize| {
        let is_first = !(0..index).any(|earlier| in_cycle(index, earlier));
        let mut removing = (0..rules.len()).filter(|by| replaces(rules[*by], rules[index]));
        removing.find(|by| !(is_first && in_cycle(index, *by)))
    };
    let removers: Vec<Option<usize>> = (0..rules.len()).map(find_remover).collect();
    let remover_of = |rule: &Rule| {
        let index = rules.iter().position(|other| std::ptr::eq(*other, rule));
        index.and_then(|index| removers[index]).map(|by| rules[by])
    };
    let matched = matched.iter().enumerate();
    matched
        .filter_map(|(index, rule)| Some((index, remover_of((*rule)?)?)))
        .collect()
}

/// The rules that have a name or replace one, each once, in the order of the request.
fn distinct<'r>(rules: &[Option<&'r Rule>]) -> Vec<&'r Rule> {
    let mut distinct: Vec<&Rule> = Vec::new();
    for rule in rules.iter().flatten() {
        let is_involved = rule.name_id.is_some() || !rule.replaces.is_empty();
        let is_known = distinct.iter().any(|other| std::ptr::eq(*other, *rule));
        if is_involved && !is_known && distinct.len() < REPLACING_MAX {
            distinct.push(rule);
        }
    }
    distinct
}

fn replaces(by: &Rule, rule: &Rule) -> bool {
    rule.name_id.is_some_and(|name| by.replaces.contains(&name))
}

/// The rules that `from` replaces, directly or over others.
fn find_reachable(rules: &[&Rule], from: usize) -> Vec<bool> {
    let mut reached = vec![false; rules.len()];
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        for next in 0..rules.len() {
            if !reached[next] && replaces(rules[at], rules[next]) {
                reached[next] = true;
                open.push(next);
            }
        }
    }
    reached
}
