//! How many units `write_back` may allow beyond a limit: those that other instances have counted
//! and not reported.
//!
//! An instance decides no longer on units that are older than an interval and a timeout, also if
//! they are in a report that has no reply yet. So what Redis does not know of an instance, also of
//! one that died, was allowed within that time, and is no more than the limit.

use super::clock::READ_LATE;
use super::{Account, Bound, MILLI, Taken};

// === impl Account ===

impl Account {
    /// Records what an instance was allowed by a counter, if it may count it locally.
    pub(super) fn count_locally(&mut self, counter: usize, instance: usize, taken: Taken) {
        if !self.plan.counters[counter].has_local_counts() {
            return;
        }
        let setup = &self.plan.setup;
        let lasts = (setup.sync_ms + setup.timeout_ms) * MILLI + READ_LATE;
        self.tabs[counter].local_counts.add(instance, taken, lasts);
    }

    /// How many units beyond its limits a counter may allow, because instances do not know yet what
    /// others have counted.
    pub(super) fn most_unreported<'a>(
        &'a self,
        counter: usize,
        bound: &'a Bound<'a>,
        to: u64,
    ) -> impl Fn(u64) -> u64 + use<'a> {
        let capacity = self.plan.counters[counter].capacity();
        let in_window = self.tabs[counter].local_counts.sum_of_others(capacity);
        move |since: u64| match (in_window, bound.is_long()) {
            (0, _) => 0,
            (units, true) => units,
            (units, false) => units * (bound.most(since, to) / capacity.max(1) + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::{Limit, Mode, OnStoreError, Span};

    use super::*;
    use crate::deployment::Topology;
    use crate::plan::{Counter, Plan};

    /// What breaks if three instances each allow these many of ten units, one after the other, with
    /// so many milliseconds from one unit to the next; units may be unreported for 120 ms.
    fn allow(units: [u64; 3], pause: u64) -> Vec<String> {
        let limit = Limit::fixed_window(10, Span::HOUR).expect("an hour is a window");
        let mut plan = Plan::quiet(Topology::Single);
        (plan.setup.sync_ms, plan.setup.timeout_ms) = (100, 20);
        let counter = Counter::new(vec![limit], Mode::WriteBack, OnStoreError::Deny);
        plan.counters = vec![counter];
        let mut account = Account::new(&plan);
        let mut at = 0;
        for (instance, units) in units.into_iter().enumerate() {
            account.instance_started(0);
            for _ in 0..units {
                at += pause * MILLI;
                let taken = Taken::new(at, at, 1);
                account.tabs[0].allow(instance, taken);
                account.count_locally(0, instance, taken);
                account.judge_allowed(0, 0, taken);
            }
        }
        account.broken
    }

    #[test]
    fn each_other_instance_explains_what_it_allows_within_an_interval_and_a_timeout() {
        assert_eq!(allow([10, 4, 4], 1), [""; 0]);
        assert_eq!(allow([10, 10, 10], 1), [""; 0]);
        // At most two of them in any 122 ms, by each of two others.
        assert_eq!(allow([10, 2, 2], 100), [""; 0]);
        let broken = allow([10, 2, 3], 100);
        let why = "1500 ms: decision 0 on counter 0: 15 units were allowed within 1400 ms, where \
                   10 and 4 are explained";
        assert_eq!(broken, [why]);
        assert_eq!(allow([11, 0, 0], 100).len(), 1);
    }
}
