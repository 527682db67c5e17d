//! Elastic parts of limits, and reports of headroom.
//!
//! Drawn from a stream of its own, after everything else, and for some seeds only: the others have
//! the same plan as without it.

use super::{Counter, HeadroomReport, LENGTH_MS, Plan, Step, index};
use crate::random::Random;

/// Sets the stream of randomness apart from the others of a seed.
const STREAM: u64 = 0xE1A5;
/// How many seeds in a hundred have elastic limits.
const CHANCE: u64 = 30;
/// How many counters of such a seed in a hundred are elastic.
const ELASTIC: u64 = 70;

// === impl Plan ===

impl Plan {
    /// Gives some limits an elastic part, in all versions of the rules file, and has headroom
    /// reported to single instances, for less than the run or for more.
    pub(super) fn draw_elastic(&mut self) {
        let mut random = Random::new(self.seed ^ STREAM);
        if !random.chance(CHANCE) {
            return;
        }
        // A limit that requests bring along has no such part, and one with a soft part neither.
        let can_be = |counter: &&mut Counter| {
            let mut limits = counter.limits.iter();
            !counter.is_override && limits.all(|limit| limit.soft_percent() == 0)
        };
        for counter in self.counters.iter_mut().filter(can_be) {
            if random.chance(ELASTIC) {
                counter.make_elastic(random.pick(&[20, 50, 100, 200]));
            }
        }
        for _ in 0..random.between(1, 12) {
            let report = HeadroomReport {
                place: index(&mut random, self.setup.instances),
                has_headroom: random.chance(75),
                lasts_ms: random.pick(&[1, 40, 300, 300, 2 * LENGTH_MS]),
            };
            let at = random.between(0, LENGTH_MS);
            self.steps.push((at, Step::Headroom(report)));
        }
    }

    /// Whether a version of the rules file has a rule with an elastic part.
    pub(crate) fn is_elastic_in(&self, version: usize) -> bool {
        let mut counters = self.counters.iter();
        counters.any(|counter| counter.is_elastic() && counter.is_present_in(version))
    }
}

// === impl Counter ===

impl Counter {
    /// Gives every version of the limit an elastic part, unless one is too small for it.
    fn make_elastic(&mut self, percent: u32) {
        let limits = self.limits.iter().map(|limit| limit.with_elastic(percent));
        let limits: Result<Vec<_>, _> = limits.collect();
        let limits = limits.expect("the limits of the plan are small");
        if limits
            .iter()
            .all(|limit| limit.capacity() > limit.nominal())
        {
            self.limits = limits;
        }
    }
}
