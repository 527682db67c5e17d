//! Checks after all faults have ended.

use tollgate_core::Decision;

use super::clock::UNSET;
use super::{Account, Bound, Tab, Taken};
use crate::plan::Plan;

impl Account {
    /// Checks a counter when no fault, lease or unreported count is left: the used units must be
    /// those that were allowed. `decision` is the answer to a peek under the counter's largest
    /// limit.
    pub(crate) fn audit(&mut self, counter: usize, now: u64, decision: &Decision) {
        let plan = &self.plan.counters[counter];
        let bound = self.find_bound(counter);
        let tab = &self.tabs[counter];
        // A converted state keeps only as many units as its limit has.
        if !bound.is_long() || plan.is_converted() {
            return;
        }
        let limit = &plan.limits[0];
        let capacity = u64::from(limit.capacity());
        let used = capacity - u64::from(decision.remaining()).min(capacity);
        let refilled = bound.refill_units(0, now);
        let least = tab.least().saturating_sub(refilled).min(capacity);
        // What others have spent of their leases, or counted, and not reported is not counted in
        // Redis yet, so there may be nothing for a refund to return.
        let has_others = self.instances > 1 || plan.changes_mode();
        let most = match !plan.is_strict() && has_others {
            true => tab.most() + sum(&tab.refunds),
            false => tab.most(),
        } + refilled
            + bound.debt_units(now);
        let is_exact = tab.excused.is_empty();
        // A fault may lose what instances have counted, and the grants of leases, which then stay
        // charged. It makes no report arrive twice.
        let reported = !plan.has_local_counts() || self.is_undisturbed();
        let granted = !plan.may_lease() || self.is_undisturbed();
        if used < least && is_exact && reported {
            let why = format!("counter {counter}: {used} used, but at least {least} were allowed");
            self.fail(now, &why);
        } else if used > most && is_exact && granted {
            let why = format!("counter {counter}: {used} used, but at most {most} were allowed");
            self.fail(now, &why);
        }
    }

    /// Checks that a counter that nobody has used for its limit's memory has its whole capacity.
    pub(crate) fn audit_recovered(&mut self, counter: usize, now: u64, decision: &Decision) {
        let plan = &self.plan.counters[counter];
        let limit = &plan.limits[0];
        if decision.remaining() != limit.capacity() {
            let why = format!(
                "counter {counter}: {} of {} remain although nobody has asked for longer than the \
                 limit remembers",
                decision.remaining(),
                limit.capacity(),
            );
            self.fail(now, &why);
        }
    }

    /// The longest memory of all limits, in nanoseconds.
    pub(crate) fn memory(plan: &Plan) -> u64 {
        let memory = plan
            .counters
            .iter()
            .map(|counter| Bound::new(counter, 0, &UNSET).memory());
        memory.max().unwrap_or(0)
    }

    /// How many times that, if units were charged beyond a limit.
    pub(crate) fn debts(&self) -> u32 {
        let debts = (0..self.tabs.len()).map(|counter| self.debts_of(counter));
        u32::try_from(debts.max().unwrap_or(1)).unwrap_or(u32::MAX)
    }

    /// How many times its limit may be charged to a counter. Each instance may have allowed all of
    /// it; and what they report comes on top of requests that Redis executed after they had given
    /// up on them.
    pub(super) fn debts_of(&self, counter: usize) -> u64 {
        match self.plan.counters[counter].has_local_counts() {
            true => self.instances + u64::from(!self.tabs[counter].unknown.is_empty()),
            false => 1,
        }
    }

    /// Whether there were no faults but cancelled requests. What these may have charged is unknown,
    /// and bounded like what others have.
    fn is_undisturbed(&self) -> bool {
        let started = u64::try_from(self.plan.setup.instances).unwrap_or(u64::MAX);
        !self.has_faults && self.instances == started
    }
}

// === impl Tab ===

impl Tab {
    /// Units that are certainly used.
    fn least(&self) -> u64 {
        sum(&self.allowed).saturating_sub(sum(&self.refunds))
    }

    /// Units that may be used.
    fn most(&self) -> u64 {
        let refunds = sum(&self.refunds).saturating_sub(self.lost_refunds);
        let charged = sum(&self.allowed) + sum(&self.unknown) + sum(&self.penalties);
        charged.saturating_sub(refunds)
    }
}

fn sum(list: &[Taken]) -> u64 {
    list.iter().map(|taken| taken.units).sum()
}

#[cfg(test)]
mod tests {
    use tollgate_core::{
        Cost, FixedWindow, Limit, Mode, Moment, OnDenial, OnStoreError, Span, step,
    };

    use super::*;
    use crate::deployment::Topology;
    use crate::outcome::Outcome;
    use crate::plan::{Counter, Part, Plan};

    fn limit() -> Limit {
        Limit::fixed_window(40, Span::HOUR).expect("an hour is a window")
    }

    /// The account of one instance that has allowed three units, and of two whose caller has gone.
    fn account(mode: Mode) -> Account {
        let mut plan = Plan::quiet(Topology::Single);
        let counter = Counter::new(vec![limit()], mode, OnStoreError::Deny);
        plan.counters = vec![counter];
        let mut account = Account::new(&plan);
        account.instance_started(0);
        account.tabs[0].allow(0, Taken::new(1, 2, 3));
        let part = Part {
            counter: 0,
            version: 0,
            cost: Cost::Take(2),
        };
        account.begin(0, 3, 0, &[part], false);
        account.end(0, 4, &Outcome::Cancelled, 0);
        account
    }

    /// What the audit says if so many units are used in the end.
    fn audit(mut account: Account, used: u32) -> Vec<String> {
        let (limit, now) = (limit(), Moment::ZERO);
        let mut window = FixedWindow::new(now + Span::HOUR, used);
        let decision = step(&mut window, &limit, now, Cost::Peek(1), OnDenial::Keep);
        account.audit(0, 5, &decision);
        account.broken
    }

    #[test]
    fn callers_that_have_gone_explain_no_more_than_their_units() {
        for mode in [Mode::Strict, Mode::Leased, Mode::WriteBack] {
            for used in [3, 5] {
                assert_eq!(audit(account(mode), used), [""; 0], "{mode}: {used}");
            }
            let few = ["0 ms: counter 0: 2 used, but at least 3 were allowed"];
            assert_eq!(audit(account(mode), 2), few, "{mode}");
            let many = ["0 ms: counter 0: 6 used, but at most 5 were allowed"];
            assert_eq!(audit(account(mode), 6), many, "{mode}");
        }
    }

    /// A fault may lose reports and grants, but no report arrives twice.
    #[test]
    fn a_fault_explains_what_it_may_lose() {
        let disturbed = |mode| {
            let mut account = account(mode);
            account.disturb(4);
            account
        };
        assert_eq!(audit(disturbed(Mode::WriteBack), 2), [""; 0]);
        assert_eq!(audit(disturbed(Mode::WriteBack), 6).len(), 1);
        assert_eq!(audit(disturbed(Mode::Leased), 6), [""; 0]);
        assert_eq!(audit(disturbed(Mode::Leased), 2).len(), 1);
        assert_eq!(audit(disturbed(Mode::Strict), 6).len(), 1);
    }
}
