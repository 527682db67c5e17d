//! Which versions of the rules file apply to a decision, and which parts of its request they limit.

use tollgate_core::{Answer, Cost, Enforcement, Limited, Status};

use super::{Account, Open};
use crate::plan::{Part, Plan};

impl Account {
    /// Records that an instance has another version of the rules file. A decision in progress may
    /// be made again under it.
    pub(crate) fn rules_replaced(&mut self, instance: usize, version: usize) {
        self.versions.insert(instance, version);
        let open = self.open.values_mut();
        for open in open.filter(|open| open.instance == instance) {
            open.versions.push(version);
        }
    }

    /// Whether an instance is deciding.
    pub(crate) fn is_deciding(&self, instance: usize) -> bool {
        self.open.values().any(|open| open.instance == instance)
    }

    /// Units that a request was to refund can be refunded later if no limit applies to them.
    pub(super) fn return_unlimited(&mut self, open: &Open) {
        let limited = self.plan.find_limited_in(open.versions[0], &open.parts);
        for (part, is_limited) in open.parts.iter().zip(limited) {
            if let (Cost::Refund(units), false) = (part.cost, is_limited) {
                self.tabs[part.counter].refundable += units;
            }
        }
    }

    /// The parts of the request that met a limit, and the versions of the rules file by which this
    /// answer can be; a broken promise if it can be by none.
    pub(super) fn find_limited(
        &mut self,
        number: u64,
        open: &Open,
        now: u64,
        answer: &Answer,
    ) -> Option<Open> {
        let met = |status: &Status| matches!(status, Status::Limited(_));
        let mut met: Vec<bool> = answer.statuses.iter().map(met).collect();
        // The last descriptor states the priority, and matches no rule.
        if self.plan.has_priorities() && met.pop() != Some(false) {
            let why = format!("decision {number}: a priority is limited: {answer:?}");
            self.fail(now, &why);
        }
        let all = open.parts.iter().zip(&met);
        let limited = all.filter(|(_, met)| **met).map(|(part, _)| *part);
        let limited = Open {
            from: open.from,
            instance: open.instance,
            parts: limited.collect(),
            least: open.least,
            most: open.most,
            versions: Vec::new(),
        };
        let all: Vec<&Limited> = answer.limited().collect();
        let explains = |version: &usize| {
            self.plan.find_limited_in(*version, &open.parts) == met
                && limited.is_met_in(*version, &self.plan, &all)
        };
        let versions: Vec<usize> = open.versions.iter().copied().filter(explains).collect();
        if versions.is_empty() {
            let had = &open.versions;
            let why = format!("decision {number}: no version of {had:?} explains {answer:?}");
            self.fail(now, &why);
            return None;
        }
        self.count_unlimited(open, versions[0]);
        Some(Open {
            versions,
            ..limited
        })
    }

    /// Counts the parts that met no limit, and why.
    fn count_unlimited(&mut self, open: &Open, version: usize) {
        let limited = self.plan.find_limited_in(version, &open.parts);
        for (part, is_limited) in open.parts.iter().zip(limited) {
            match self.plan.counters[part.counter].is_present_in(version) {
                true if is_limited => {}
                true => self.effects.replaced += 1,
                false => self.effects.without_rule += 1,
            }
        }
    }
}

/// How many parts of requests met no limit, although other versions of the rules file have one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// Because their rule was removed.
    pub(crate) without_rule: u64,
    /// Because another rule replaced theirs.
    pub(crate) replaced: u64,
    /// How many requests without priority were denied that would have fit the share of others.
    pub(crate) kept_for_priority: u64,
    /// How many requests without headroom were denied that would have fit the elastic part.
    pub(crate) denied_without_headroom: u64,
    /// How many requests were allowed a unit of an elastic part.
    pub(crate) allowed_with_headroom: u64,
    /// How many reservations were settled to fewer units.
    pub(crate) settled_below: u64,
    /// How many to more.
    pub(crate) settled_above: u64,
}

// === impl Open ===

impl Open {
    /// The parts that some version of the rules file limits which its instance has had meanwhile.
    pub(super) fn find_limited_in_any(&self, plan: &Plan) -> Vec<Part> {
        let mut any = vec![false; self.parts.len()];
        for version in &self.versions {
            for (any, limited) in any
                .iter_mut()
                .zip(plan.find_limited_in(*version, &self.parts))
            {
                *any |= limited;
            }
        }
        let parts = self.parts.iter().zip(any);
        parts
            .filter(|(_, any)| *any)
            .map(|(part, _)| *part)
            .collect()
    }

    /// Whether these are the limits of a version of the rules file as the request may have met
    /// them, or those that it brings along.
    fn is_met_in(&self, version: usize, plan: &Plan, all: &[&Limited]) -> bool {
        self.parts.iter().zip(all).all(|(part, limited)| {
            let counter = &plan.counters[part.counter];
            let (limit, enforcement) = match counter.is_override {
                true => (&counter.limits[part.version], Enforcement::Enforce),
                false => (counter.limit_in(version), counter.enforcement_in(version)),
            };
            let mut views = [self.least, self.most].into_iter();
            let is_met = views.any(|view| limited.limit == counter.as_met(limit, view));
            is_met && limited.enforcement == enforcement
        })
    }
}
