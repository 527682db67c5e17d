//! Checks of what decisions say remains: no more than what is left of what was charged before them.
//!
//! A cached denial lacks what other instances have charged, for as long as it may be cached, and
//! nothing that its own instance has charged: a charge drops it.

use tollgate_core::Limited;
use tollgate_redis::DENIAL_CACHE_MAX;

use super::{Account, MILLI, Open};
use crate::plan::Part;

impl Account {
    /// Checks what a decision of the shared store says remains of a limit that forgets nothing
    /// during a run.
    pub(super) fn judge_remaining(
        &mut self,
        number: u64,
        open: &Open,
        now: u64,
        part: Part,
        limited: &Limited,
    ) {
        let counter = part.counter;
        let (plan, bound) = (&self.plan.counters[counter], self.find_bound(counter));
        let tab = &self.tabs[counter];
        // What instances lease or count, they report later, and versions differ in what they see. A
        // former primary denies by what it knew, for about a second.
        let is_one = plan.limits.len() == 1 && plan.is_strict();
        if !is_one
            || part.cost.is_refund()
            || !bound.is_long()
            || self.has_new_primaries
            || !tab.excused.is_empty()
        {
            return;
        }
        let heard = DENIAL_CACHE_MAX.as_nanos() + self.plan.setup.timeout_ms * MILLI;
        let heard = open.from.saturating_sub(heard);
        let charged = tab.allowed_on.iter().map(|(instance, allowed)| {
            let known = match *instance == open.instance {
                true => open.from,
                false => heard,
            };
            let before = allowed.iter().filter(|taken| taken.to < known);
            before.map(|taken| taken.units).sum::<u64>()
        });
        let refunds: u64 = tab.refunds.iter().map(|refund| refund.units).sum();
        let back = refunds + self.refunds_under_way(counter) + bound.refill_units(0, now);
        let used = charged.sum::<u64>().saturating_sub(back);
        let remaining = u64::from(limited.decision.remaining());
        let capacity = plan.capacity();
        if remaining + used > capacity {
            let why = format!(
                "decision {number} on counter {counter}: {remaining} remain of {capacity}, of \
                 which at least {used} are used"
            );
            self.fail(now, &why);
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::{Cost, Decision, Grant, Limit, Mode, OnStoreError, Span};

    use super::*;
    use crate::account::single_answer::single_answer;
    use crate::deployment::Topology;
    use crate::outcome::Outcome;
    use crate::plan::{Counter, Plan};

    fn allow(limit: Limit, remaining: u32) -> Outcome {
        let grant = Grant::new(remaining, Span::ZERO);
        Outcome::Decided(single_answer(limit, Decision::Allow(grant)))
    }

    /// What breaks if instance 0 takes three units of ten, and a peek so many milliseconds later
    /// says that eight remain.
    fn peek_later(instance: usize, millis: u64) -> Vec<String> {
        let limit = Limit::fixed_window(10, Span::HOUR).expect("an hour is a window");
        let mut plan = Plan::quiet(Topology::Single);
        plan.setup.timeout_ms = 20;
        let counter = Counter::new(vec![limit], Mode::Strict, OnStoreError::Deny);
        plan.counters = vec![counter];
        let mut account = Account::new(&plan);
        let taken = (0, 0, 0, Cost::Take(3), 7);
        for (number, instance, at, cost, remaining) in
            [taken, (1, instance, millis, Cost::Peek(1), 8)]
        {
            let part = Part {
                counter: 0,
                version: 0,
                cost,
            };
            account.begin(number, at * MILLI, instance, &[part], false);
            account.end(number, at * MILLI + 1, &allow(limit, remaining), 0);
        }
        account.broken
    }

    #[test]
    fn an_instance_knows_its_own_charges_and_those_of_others_after_a_second() {
        let why = "decision 1 on counter 0: 8 remain of 10, of which at least 3 are used";
        assert_eq!(peek_later(0, 10), [format!("10 ms: {why}")]);
        assert_eq!(peek_later(1, 10), [""; 0]);
        assert_eq!(peek_later(1, 1_100), [format!("1100 ms: {why}")]);
    }
}
