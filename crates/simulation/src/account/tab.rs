//! What happened to one counter.

use std::collections::BTreeMap;

/// What happened to one counter.
#[derive(Debug, Default)]
pub(super) struct Tab {
    /// Allowed by Redis, a lease or a local count; in the order of their starts.
    pub(super) allowed: Vec<Taken>,
    /// Those of them that had no priority.
    pub(super) without_priority: Vec<Taken>,
    /// Allowed by the memory of each instance.
    pub(super) local: BTreeMap<usize, Vec<Taken>>,
    /// Decisions whose outcome is unknown: they may have been charged.
    pub(super) unknown: Vec<Taken>,
    /// Denied requests that are charged as far as they fit.
    pub(super) penalties: Vec<Taken>,
    /// Those of them that found less free than their cost, so that nothing was free afterwards.
    pub(super) exhausted: Vec<Taken>,
    /// Refunds, certain or possible.
    pub(super) refunds: Vec<Taken>,
    /// Possible refunds, whose outcome is unknown.
    pub(super) lost_refunds: u64,
    /// Units that may be refunded.
    pub(super) refundable: u64,
    /// When one more capacity may have become free: writes were lost, or a clock was set.
    pub(super) excused: Vec<u64>,
    /// When reports were lost, and the most units that were in them.
    pub(super) unreported: Vec<(u64, u64)>,
}

/// Units, between two moments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) units: u64,
}

// === impl Tab ===

impl Tab {
    pub(super) fn allow(&mut self, taken: Taken) {
        taken.insert_into(&mut self.allowed);
        self.refundable += taken.units;
    }
}

// === impl Taken ===

impl Taken {
    /// Adds it to a list in the order of their starts.
    pub(super) fn insert_into(self, list: &mut Vec<Taken>) {
        let at = list.partition_point(|earlier| earlier.from <= self.from);
        list.insert(at, self);
    }
}
