//! Which rules of a request stand aside for others.
//!
//! A rule that lists a name in `replaces` removes every rule of that name from the requests that it
//! meets, and does so even if it is removed itself: of A replaces B replaces C, A stays. Where
//! rules replace each other in a circle, that would remove all of them and let everything pass; so
//! of a circle, the first in the order of the request is not removed by the others.

use crate::domain::Rule;

/// The most rules of one request that may replace each other. Rules met beyond replace nothing, so
/// that they limit rather than not.
const REPLACING_MAX: usize = 128;

/// The places in `met` whose rule another one replaces.
pub(crate) fn replaced(met: &[Option<&Rule>]) -> Vec<usize> {
    let rules = distinct(met);
    let reached: Vec<Vec<bool>> = (0..rules.len()).map(|at| reached(&rules, at)).collect();
    let in_circle = |one: usize, other: usize| reached[one][other] && reached[other][one];
    let is_removed_at = |index: usize| {
        let is_first = !(0..index).any(|earlier| in_circle(index, earlier));
        let mut removing = (0..rules.len()).filter(|by| replaces(rules[*by], rules[index]));
        removing.any(|by| !(is_first && in_circle(index, by)))
    };
    let removed: Vec<bool> = (0..rules.len()).map(is_removed_at).collect();
    let is_removed = |rule: &Rule| {
        let index = rules.iter().position(|other| std::ptr::eq(*other, rule));
        index.is_some_and(|index| removed[index])
    };
    let places = met.iter().enumerate();
    places
        .filter(|(_, rule)| rule.is_some_and(is_removed))
        .map(|(place, _)| place)
        .collect()
}

/// The rules that have a name or replace one, each once, in the order of the request.
fn distinct<'r>(met: &[Option<&'r Rule>]) -> Vec<&'r Rule> {
    let mut rules: Vec<&Rule> = Vec::new();
    for rule in met.iter().flatten() {
        let concerned = rule.called.is_some() || !rule.replaces.is_empty();
        let is_known = rules.iter().any(|other| std::ptr::eq(*other, *rule));
        if concerned && !is_known && rules.len() < REPLACING_MAX {
            rules.push(rule);
        }
    }
    rules
}

fn replaces(by: &Rule, rule: &Rule) -> bool {
    rule.called.is_some_and(|name| by.replaces.contains(&name))
}

/// The rules that `from` replaces, directly or over others.
fn reached(rules: &[&Rule], from: usize) -> Vec<bool> {
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
