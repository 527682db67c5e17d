//! What happened to one counter.

use std::collections::BTreeMap;

use tollgate_core::Cost;

use super::clock::Clock;
use super::local_counts::LocalCounts;
use crate::plan::View;

/// What happened to one counter.
#[derive(Debug, Default)]
pub(super) struct Tab {
    /// Allowed by Redis, a lease or a local count; in the order of their starts.
    pub(super) allowed: Vec<Taken>,
    /// Those of them by instance, without what settlements have charged in addition.
    pub(super) allowed_on: BTreeMap<usize, Vec<Taken>>,
    /// Those of them that instances may have counted, and not reported yet.
    pub(super) local_counts: LocalCounts,
    /// Those of them that leave a part of the limit for others, by how they met it.
    pub(super) partial: BTreeMap<View, Vec<Taken>>,
    /// Allowed by the memory of each instance.
    pub(super) local: BTreeMap<usize, Vec<Taken>>,
    /// The most units that the memory of each instance may have counted.
    pub(super) in_memory: BTreeMap<usize, u64>,
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
    /// When one more capacity may have become free: writes were lost, or the clock was set and
    /// instances count or lease units, which they spend by another clock.
    pub(super) excused: Vec<u64>,
    /// When reports were lost, and the most units that were in them.
    pub(super) unreported: Vec<(u64, u64)>,
    /// The clock by which Redis decides it.
    pub(super) clock: Clock,
    /// Whether a former primary may still deny, by another clock than the new one.
    pub(super) has_former_clock: bool,
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
    pub(super) fn allow(&mut self, instance: usize, taken: Taken) {
        self.allowed_on.entry(instance).or_default().push(taken);
        taken.insert_into(&mut self.allowed);
        self.refundable += taken.units;
    }

    /// Those that could use no more of the limit than a request with this view, in the order of
    /// their starts.
    pub(super) fn all_within(&self, view: View) -> Vec<Taken> {
        let within = self.partial.iter().filter(|(one, _)| one.is_within(view));
        let mut within: Vec<Taken> = within.flat_map(|(_, taken)| taken).copied().collect();
        within.sort_by_key(|taken| taken.from);
        within
    }

    /// Records a charge or a refund whose outcome is unknown. A charge may be made until `to`, when
    /// a server that stands still goes on, or what is held up arrives.
    pub(super) fn add_unknown(&mut self, cost: Cost, from: u64, to: u64) {
        match cost {
            Cost::Take(units) => self.unknown.push(Taken::new(from, to, units)),
            Cost::Refund(units) => {
                self.lost_refunds += units;
                // A server that stands still does it when it goes on.
                self.refunds.push(Taken::new(from, u64::MAX, units));
            }
            Cost::Peek(_) => {}
        }
    }
}

// === impl Taken ===

impl Taken {
    pub(super) const fn new(from: u64, to: u64, units: u64) -> Taken {
        Taken { from, to, units }
    }

    /// Adds it to a list in the order of their starts.
    pub(super) fn insert_into(self, list: &mut Vec<Taken>) {
        let at = list.partition_point(|earlier| earlier.from <= self.from);
        list.insert(at, self);
    }
}
