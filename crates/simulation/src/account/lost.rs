//! Writes that never reached Redis, or were lost there, and clocks that were set.
//!
//! A report of local counts may have no reply. If Redis never received it, the units allowed within
//! an interval are not charged and may be allowed again. Under `write_back`, this is the only way
//! in which a single instance exceeds a limit. And a failover loses what the replica did not have
//! yet.

use super::{Account, Jump, MILLI, Tab, Taken};
use crate::plan::LAG_MAX_MS;

/// How much longer than a decision a report may be on its way.
const LATE: u64 = 1_000 * MILLI;

impl Account {
    /// Records that the clock by which Redis decides a counter was set, or is another one.
    pub(crate) fn clock_set(&mut self, counter: usize, jump: Jump) {
        self.has_faults = true;
        let tab = &mut self.tabs[counter];
        tab.clock.add(jump);
        // What instances have leased or counted by the former time, they spend by their own clocks.
        if !self.plan.counters[counter].is_strict() && !jump.is_small() {
            tab.excused.push(jump.from);
        }
    }

    /// Records that a former primary, which denies until a write shows that it is a replica, has
    /// another clock than the new one.
    pub(crate) fn former_clock_differs(&mut self, counter: usize) {
        self.tabs[counter].has_former_clock = true;
    }

    /// Records that the wall clock of an instance was set.
    pub(crate) fn wall_set(&mut self, instance: usize, jump: Jump) {
        self.walls.entry(instance).or_default().add(jump);
    }

    /// Records how many reports an instance has lost so far.
    pub(crate) fn reports_lost(&mut self, instance: usize, lost: u64, now: u64) {
        let (before, since) = self
            .reports_lost
            .insert(instance, (lost, now))
            .unwrap_or_default();
        if lost <= before {
            return;
        }
        // Units are reported after an interval, or later by the time of a decision.
        let setup = self.plan.setup;
        let delay = LATE + (setup.sync_ms + 2 * setup.timeout_ms) * MILLI;
        let since = since.saturating_sub(delay);
        let counters = self.plan.counters.iter().zip(&mut self.tabs);
        for (_, tab) in counters.filter(|(counter, _)| counter.has_local_counts()) {
            let recent = tab.allowed.iter().filter(|taken| taken.to >= since);
            let units = recent.map(|taken| taken.units).sum();
            tab.unreported.push((now, units));
        }
    }
}

impl Tab {
    /// Units in reports that were lost since then.
    pub(super) fn unreported_units(&self, since: u64) -> u64 {
        let lost = self.unreported.iter().filter(|(at, _)| *at >= since);
        lost.map(|(_, units)| units).sum()
    }
    /// Units of refunds that ended before that time and that no failover can have lost.
    pub(super) fn refunds_kept(&self, before: u64) -> u64 {
        let refunds = self.refunds.iter();
        let kept = refunds.filter(|refund| refund.to < before && !self.is_lost(refund));
        kept.map(|refund| refund.units).sum()
    }

    /// Whether a failover may have lost this write, because the replica was behind.
    fn is_lost(&self, written: &Taken) -> bool {
        let mut failovers = self.excused.iter();
        failovers.any(|at| written.from <= *at && *at <= written.to + LAG_MAX_MS * MILLI)
    }
}
