//! What instances have allowed that may count a counter locally.

use std::collections::BTreeMap;

use super::tab::Taken;

/// What instances have allowed that may count locally.
#[derive(Debug, Default)]
pub(super) struct LocalCounts {
    by_instance: BTreeMap<usize, LocalCount>,
}

#[derive(Debug, Default)]
struct LocalCount {
    /// In the order of their ends.
    allowed: Vec<Taken>,
    /// The most units that it has allowed within the time for which units may be unreported.
    most: u64,
}

// === impl LocalCounts ===

impl LocalCounts {
    /// Adds units, the last of an instance so far. They may be unreported for so long.
    pub(super) fn add(&mut self, instance: usize, taken: Taken, lasts: u64) {
        let count = self.by_instance.entry(instance).or_default();
        count.allowed.push(taken);
        // Each was allowed at some moment of its decision.
        let units_from = |start: u64| -> u64 {
            let is_within = |one: &&Taken| one.to >= start && one.from <= start + lasts;
            let within = count.allowed.iter().filter(is_within);
            within.map(|one| one.units).sum()
        };
        let starts = count.allowed.iter().rev().map(|one| one.to);
        let recent = starts.take_while(|start| start + lasts >= taken.from);
        let most = recent.map(units_from).max();
        count.most = count.most.max(most.unwrap_or(0));
    }

    /// What may be unreported in all instances but one, each of which allows no more than the
    /// capacity by what it knows.
    pub(super) fn sum_of_others(&self, capacity: u64) -> u64 {
        let counts = self.by_instance.values();
        let most = counts.map(|count| count.most.min(capacity));
        let least = most.clone().min().unwrap_or(0);
        most.sum::<u64>() - least
    }
}
