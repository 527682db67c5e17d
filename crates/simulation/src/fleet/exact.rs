//! A single instance that decides everything, at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tollgate_core::{Ledger, Moment, Now, Span};
use tollgate_memory::RandomKeys;
use tollgate_replay::{FirstAttempt, Retries};
use tollgate_rules::RuleSet;

use super::Allowed;
use crate::rules_file;

/// What core's ledger allows of these requests, which begin at `begin`. Denied ones come again as
/// their clients do.
pub(super) fn allowed(
    rules: &RuleSet,
    requests: &[(FirstAttempt, usize)],
    begin: Moment,
) -> Allowed {
    let (mut ledger, keys) = (Ledger::default(), RandomKeys::new());
    let mut allowed = Allowed::new();
    let mut retries: Vec<Retries> = Vec::with_capacity(requests.len());
    // Of those that are due at the same time, the one that came first.
    let mut due: BinaryHeap<Reverse<(Span, usize)>> = BinaryHeap::with_capacity(requests.len());
    for (number, (attempt, _)) in requests.iter().enumerate() {
        retries.push(attempt.retries.clone());
        due.push(Reverse((attempt.at, number)));
    }
    while let Some(Reverse((at, number))) = due.pop() {
        let client = &requests[number].0.client;
        let request = rules_file::request_of(client.as_bytes());
        let resolved = rules.resolve(&request, &keys);
        let verdict = ledger.decide(Now::at(begin + at), &resolved.charges());
        let verdict = verdict.expect("one charge is not too many");
        match verdict.denial {
            None => *allowed.entry(client.clone()).or_default() += 1,
            Some(denial) => {
                let pause = retries[number].pause(denial.wait);
                due.extend(pause.map(|pause| Reverse((at + pause, number))));
            }
        }
    }
    allowed
}
