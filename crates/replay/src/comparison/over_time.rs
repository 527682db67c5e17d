//! When requests change their outcome.

use crate::decider::Outcome;
use crate::survey::{RULES_SHOWN_MAX, Timeline};

/// What two sets of rules decide over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangesOverTime {
    /// All requests, and those that the new rules deny.
    pub timeline: Timeline,
    /// Requests that are newly denied.
    pub newly_denied: DirectionOverTime,
    /// Requests that are no longer denied.
    pub no_longer_denied: DirectionOverTime,
}

/// The requests that change in one direction, over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectionOverTime {
    /// How many, in each slot of the timeline.
    pub slots: Vec<u64>,
    /// For each of the first [`RULES_SHOWN_MAX`] rules of the report of the side that denies, those
    /// that it denies, in each slot; if there are more rules, those of all others together.
    pub by_rule: Vec<Vec<u64>>,
}

// === impl ChangesOverTime ===

impl ChangesOverTime {
    /// Nothing counted yet.
    pub(super) fn over(timeline: Timeline) -> ChangesOverTime {
        let direction = DirectionOverTime {
            slots: vec![0; timeline.slots.len()],
            by_rule: Vec::new(),
        };
        ChangesOverTime {
            timeline,
            newly_denied: direction.clone(),
            no_longer_denied: direction,
        }
    }

    /// Counts an event of this slot.
    pub(super) fn add(&mut self, slot: usize, was: &Outcome<'_, '_>, now: &Outcome<'_, '_>) {
        self.timeline.add(slot, now);
        match (was.denied_by(), now.denied_by()) {
            (None, Some(by)) => self.newly_denied.add(slot, by.rule),
            (Some(by), None) => self.no_longer_denied.add(slot, by.rule),
            _ => {}
        }
    }
}

// === impl DirectionOverTime ===

impl DirectionOverTime {
    fn add(&mut self, slot: usize, rule: usize) {
        self.slots[slot] += 1;
        let rule = rule.min(RULES_SHOWN_MAX);
        let slots = self.slots.len();
        if self.by_rule.len() <= rule {
            self.by_rule.resize_with(rule + 1, || vec![0; slots]);
        }
        self.by_rule[rule][slot] += 1;
    }
}
