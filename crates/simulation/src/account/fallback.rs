//! Checks of decisions without Redis: `on_store_error`, and the memory of an instance.

use tollgate_core::{Answer, Cost, Enforcement, Limited, OnDenial, OnStoreError};

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
        for (index, (part, limited)) in open.parts.iter().zip(answer.limited()).enumerate() {
            let mut versions = choices.iter();
            let is_local = versions.all(|choices| choices[index] == OnStoreError::Local);
            if is_local && !limited.decision.is_allowed() {
                self.judge_share(number, open, now, *part, limited);
            }
        }
        self.count_in_memory(open, answer.is_allowed());
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

    /// Records what the memory of an instance may have counted of a decision on these parts.
    pub(super) fn count_in_memory(&mut self, open: &Open, may_charge: bool) {
        for part in &open.parts {
            let counter = &self.plan.counters[part.counter];
            let charge_denied = counter.charge_denied.unwrap_or(self.plan.charge_denied);
            let keeps = charge_denied.on_denial(part.cost) == OnDenial::Keep;
            if let (Cost::Take(units), true) = (part.cost, may_charge || !keeps) {
                let in_memory = &mut self.tabs[part.counter].in_memory;
                *in_memory.entry(open.instance).or_default() += units;
            }
        }
    }

    /// Checks that the memory of an instance denies nothing while its share of the limit has room:
    /// it counts what it decides itself, and not what Redis does.
    fn judge_share(&mut self, number: u64, open: &Open, now: u64, part: Part, limited: &Limited) {
        let tab = &self.tabs[part.counter];
        // A changed limit takes along a part of what was used of the former one.
        let is_one = self.plan.counters[part.counter].limits.len() == 1;
        let available = u64::from(limited.limit.available());
        if !is_one || part.cost.is_refund() || available == 0 {
            return;
        }
        let used = tab.in_memory.get(&open.instance).copied().unwrap_or(0);
        let cost = open.judged_units(part.counter).max(1);
        // The least share: no more instances are counted than were ever started. One unit less, if
        // it has more, so that no rounding matters.
        let instances = u32::try_from(self.instances).unwrap_or(u32::MAX);
        let share = tollgate_fallback::share(&limited.limit, instances).available();
        let share = u64::from(share).saturating_sub(1).max(1);
        if used + cost <= share {
            let why = format!(
                "decision {number} on counter {}, in memory: denied {cost} of {share}, of which at \
                 most {used} are used",
                part.counter
            );
            self.fail(now, &why);
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

#[cfg(test)]
mod tests {
    use tollgate_core::{Decision, Denial, Grant, Limit, Mode, Span, Wait};

    use super::*;
    use crate::account::MILLI;
    use crate::account::single_answer::single_answer;
    use crate::deployment::Topology;
    use crate::outcome::Outcome;
    use crate::plan::{Counter, Plan};

    fn fall_back(limit: Limit, is_allowed: bool) -> Outcome {
        let decision = match is_allowed {
            true => Decision::Allow(Grant::new(0, Span::ZERO)),
            false => Decision::Deny(Denial::new(Wait::For(Span::SECOND), 0, Span::SECOND)),
        };
        Outcome::FellBack(single_answer(limit, decision))
    }

    /// What breaks if the memory of one of several instances denies a unit after it has allowed so
    /// many.
    fn deny_after(limit: Limit, instances: usize, allowed: u64) -> Vec<String> {
        let mut plan = Plan::quiet(Topology::Single);
        let counter = Counter::new(vec![limit], Mode::Strict, OnStoreError::Local);
        plan.counters = vec![counter];
        let mut account = Account::new(&plan);
        (0..instances).for_each(|_| account.instance_started(0));
        for number in 0..=allowed {
            let part = Part {
                counter: 0,
                version: 0,
                cost: Cost::ONE,
            };
            let at = number * MILLI;
            account.begin(number, at, 0, &[part], false);
            account.end(number, at + 1, &fall_back(limit, number < allowed), 0);
        }
        account.broken
    }

    #[test]
    fn memory_denies_nothing_while_its_share_has_room() {
        let why = "3 ms: decision 3 on counter 0, in memory: denied 1 of 4, of which at most 3 are \
                   used";
        let limit = Limit::fixed_window(10, Span::HOUR).expect("an hour is a window");
        assert_eq!(deny_after(limit, 2, 3), [why]);
        assert_eq!(deny_after(limit, 2, 4), [""; 0]);
    }

    /// A third of 8 is 2, and with what headroom adds to that 6, not a third of 24.
    #[test]
    fn a_share_is_rounded_before_headroom_adds_to_it() {
        let limit = Limit::fixed_window(8, Span::HOUR);
        let limit = limit.and_then(|limit| limit.with_elastic(200));
        let limit = limit.expect("an hour is a window").with_headroom();
        assert_eq!(deny_after(limit, 3, 6), [""; 0]);
    }
}
