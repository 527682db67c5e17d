//! Reports of own counts without an answer. If Redis never had such a report, what was allowed
//! within an interval is not charged, and may be allowed again: the one thing that a single
//! instance may exceed a limit by under `write_back`.

use tollgate_core::Mode;

use super::{Account, MILLI, Tab};

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
}
