//! Which instances had headroom, and when.

use std::collections::BTreeMap;

/// The reports of headroom to each instance, by its number.
#[derive(Debug, Default)]
pub(super) struct Headroom {
    reports: BTreeMap<usize, Vec<Report>>,
}

/// A report, which holds until it expires or another one replaces it.
#[derive(Clone, Copy, Debug)]
struct Report {
    at: u64,
    /// Until when there is headroom; `at` if there is none.
    until: u64,
}

// === impl Headroom ===

impl Headroom {
    pub(super) fn report(&mut self, instance: usize, now: u64, lasts: Option<u64>) {
        let until = now + lasts.unwrap_or(0);
        let reports = self.reports.entry(instance).or_default();
        reports.push(Report { at: now, until });
    }

    /// Whether an instance had headroom at that time.
    pub(super) fn is_there(&self, instance: usize, at: u64) -> bool {
        let reports = self.reports.get(&instance);
        let before = reports.map(|reports| reports.iter().filter(|report| report.at <= at));
        let last = before.and_then(Iterator::last);
        last.is_some_and(|report| at < report.until)
    }

    /// Whether an instance had headroom at some of these times, and whether at all of them.
    pub(super) fn within(&self, instance: usize, from: u64, to: u64) -> (bool, bool) {
        let reports = self.reports.get(&instance).into_iter().flatten();
        let changes = reports.flat_map(|report| [report.at, report.until]);
        let inside = changes.filter(|at| from < *at && *at <= to);
        let times = || std::iter::once(from).chain(inside.clone());
        let is_there = |at: u64| self.is_there(instance, at);
        (times().any(is_there), times().all(is_there))
    }
}
