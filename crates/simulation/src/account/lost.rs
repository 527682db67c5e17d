//! Writes that never reached Redis, or were lost there.
//!
//! A report of local counts may have no reply. If Redis never received it, the units allowed within
//! an interval are not charged and may be allowed again. Under `write_back`, this is the only way
//! in which a single instance exceeds a limit. And a failover loses what the replica did not have
//! yet.

use super::{Account, MILLI, Tab, Taken};
use crate::plan::LAG_MAX_MS;

/// How much longer than a decision a report may be on its way.
const LATE: u64 = 1_000 * MILLI;

impl Account {
    /// Records that a server took over whose clock differs: by it, reservations may have expired.
    /// The former primary denies by its own until a write shows that it is a replica.
    pub(crate) fn clock_replaced(&mut self, now: u64) {
        self.reservations_lost(now);
        self.has_former_clock = true;
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
