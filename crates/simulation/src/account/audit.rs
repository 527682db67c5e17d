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
        let reported = !plan.has_local_counts() || self.is_undisturbed();
        if used < least && is_exact && reported {
            let why = format!("counter {counter}: {used} used, but at least {least} were allowed");
            self.fail(now, &why);
        } else if used > most && is_exact && (plan.is_strict() || self.is_undisturbed()) {
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

    /// Whether there were no faults but cancelled requests.
    fn is_undisturbed(&self) -> bool {
        let started = u64::try_from(self.plan.setup.instances).unwrap_or(u64::MAX);
        !self.has_faults
            && self.instances == started
            && self.tabs.iter().all(|tab| tab.unknown.is_empty())
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
