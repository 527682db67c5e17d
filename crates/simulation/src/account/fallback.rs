//! Checks of decisions without Redis: `on_store_error`, and the memory of an instance.

use tollgate_core::{Answer, Cost, Enforcement, OnStoreError};

use super::clock::UNSET;
use super::{Account, Bound, Open};
use crate::plan::Part;

impl Account {
    /// Checks a decision of the fallback.
    pub(super) fn fell_back(&mut self, number: u64, open: &Open, now: u64, answer: &Answer) {
        self.judge_answer(number, open, now, answer);
        let counters = &self.plan.counters;
        let choices_in = |version: &usize| -> Vec<OnStoreError> {
            let parts = open.parts.iter();
            let choices = parts.map(|part| counters[part.counter].on_store_error_in(*version));
            choices.collect()
        };
        let choices: Vec<Vec<OnStoreError>> = open.versions.iter().map(choices_in).collect();
        let mut versions = choices.iter();
        let is_undecided = versions.all(|choices| must_not_allow(open, choices, answer));
        if !answer.is_allowed() {
            return;
        }
        if is_undecided {
            self.fail(now, &format!("decision {number} was allowed without Redis"));
        }
        for (index, (part, limited)) in open.parts.iter().zip(answer.limited()).enumerate() {
            let mut versions = choices.iter();
            let is_local = versions.all(|choices| choices[index] == OnStoreError::Local);
            if is_local && limited.decision.is_allowed() {
                self.take_local(number, open, now, *part);
            }
        }
    }

    /// Records what the memory of an instance has allowed, and checks that no more is allowed there
    /// than by the whole limit.
    fn take_local(&mut self, number: u64, open: &Open, now: u64, part: Part) {
        let Cost::Take(units) = part.cost else {
            return;
        };
        let counter = &self.plan.counters[part.counter];
        let taken = open.take(now, units);
        let tab = &mut self.tabs[part.counter];
        let local = tab.local.entry(open.instance).or_default();
        local.push(taken);
        // A converted state keeps only as many units as its limit has.
        if counter.is_converted() {
            return;
        }
        let wall = self.walls.get(&open.instance).unwrap_or(&UNSET);
        let bound = Bound::new(counter, self.plan.setup.base_micros, wall).in_memory();
        let extra: u64 = tab.refunds.iter().map(|refund| refund.units).sum();
        if let Some(why) = bound.find_violation(local, taken, |_| extra) {
            self.fail(now, &format!("decision {number}, in memory: {why}"));
        }
    }
}

/// Whether a limit says that the request must not be allowed without Redis. A shadow limit says
/// nothing, nor does a refund but by an error, and of several quotas one suffices that can allow
/// the request.
fn must_not_allow(open: &Open, choices: &[OnStoreError], answer: &Answer) -> bool {
    let says_no =
        |choice: &OnStoreError| matches!(choice, OnStoreError::Deny | OnStoreError::Error);
    let of = |wanted: Enforcement| {
        let judged = open.parts.iter().zip(choices).zip(answer.limited());
        judged.filter_map(move |((part, choice), limited)| {
            let is_error = wanted == Enforcement::Enforce && *choice == OnStoreError::Error;
            let is_silent = part.cost.is_refund() && !is_error;
            (limited.enforcement == wanted && !is_silent).then_some(choice)
        })
    };
    let quotas: Vec<&OnStoreError> = of(Enforcement::Quota).collect();
    let has_no_quota = !quotas.is_empty() && quotas.into_iter().all(says_no);
    has_no_quota || of(Enforcement::Enforce).any(says_no)
}
