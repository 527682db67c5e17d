//! A single instance that decides everything, at once.

use tollgate_core::{Ledger, Moment, Now};
use tollgate_memory::RandomKeys;
use tollgate_replay::FirstAttempt;
use tollgate_rules::RuleSet;

use super::Allowed;
use crate::rules_file;

/// What core's ledger allows of these requests, which begin at `begin`.
pub(super) fn allowed(
    rules: &RuleSet,
    requests: &[(FirstAttempt, usize)],
    begin: Moment,
) -> Allowed {
    let (mut ledger, keys) = (Ledger::default(), RandomKeys::new());
    let mut allowed = Allowed::new();
    for (attempt, _) in requests {
        let request = rules_file::request_of(attempt.client.as_bytes());
        let resolved = rules.resolve(&request, &keys);
        let verdict = ledger.decide(Now::at(begin + attempt.at), &resolved.charges());
        let verdict = verdict.expect("one charge is not too many");
        if verdict.denial.is_none() {
            *allowed.entry(attempt.client.clone()).or_default() += 1;
        }
    }
    allowed
}
