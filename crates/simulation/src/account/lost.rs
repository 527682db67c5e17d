//! What never reached Redis, or was lost there.
//!
//! A report of own counts may have no answer. If Redis never had it, what was allowed within an
//! interval is not charged, and may be allowed again: the one thing that a single instance may
//! exceed a limit by under `write_back`. And a failover loses what the replica did not have yet.

use tollgate_core::Mode;

use super::{Account, MILLI, Tab, Taken};
use crate::plan::LAG_MAX_MS;

/// How long a report may be on its way, beyond the time of a decision.
const LATE: u64 = 1_000 * MILLI;

impl Account {
    /// An instance says how many reports it has lost so far.
    pub(crate) fn reports_lost(&mut self, instance: usize, lost: u64, now: u64) {
        let (before, since) = self
            .reports_lost
            .insert(instance, (lost, now))
            .unwrap_or_default();
        if lost <= before {
            return;
        }
        // Units wait for an interval until they are reported, or for a decision's time longer.
        let setup = self.plan.setup;
        let untold = LATE + (setup.sync_ms + 2 * setup.timeout_ms) * MILLI;
        let since = since.saturating_sub(untold);
        let counters = self.plan.counters.iter().zip(&mut self.tabs);
        for (_, tab) in counters.filter(|(counter, _)| counter.mode == Mode::WriteBack) {
            let recent = tab.allowed.iter().filter(|taken| taken.to >= since);
            let units = recent.map(|taken| taken.units).sum();
            tab.unreported.push((now, units));
        }
    }
}

impl Tab {
    /// Units that were in reports which were lost since then.
    pub(super) fn unreported(&self, since: u64) -> u64 {
        let lost = self.unreported.iter().filter(|(at, _)| *at >= since);
        lost.map(|(_, units)| units).sum()
    }
    /// Units of refunds that ended before that time and that no failover can have lost.
    pub(super) fn refunds_kept(&self, before: u64) -> u64 {
        let refunds = self.refunds.iter();
        let kept = refunds.filter(|refund| refund.to < before && !self.is_lost(refund));
        kept.map(|refund| refund.units).sum()
    }

    /// Whether a failover may have lost this: it was written when the replica was behind.
    fn is_lost(&self, written: &Taken) -> bool {
        let mut failovers = self.excused.iter();
        failovers.any(|at| written.from <= *at && *at <= written.to + LAG_MAX_MS * MILLI)
    }
}
