//! Shares of limits that are kept for requests with priority, and which requests have it.
//!
//! Drawn from a stream of its own, after everything else, and for some seeds only: the others have
//! the same plan as without it.

use super::{Counter, Plan, Step};
use crate::random::Random;

/// Sets the stream of randomness apart from the others of a seed.
const STREAM: u64 = 0x9107;
/// How many seeds in a hundred have priorities.
const CHANCE: u64 = 30;
/// How many counters of such a seed in a hundred keep a share.
const SHARED: u64 = 70;
/// How many requests of such a seed in a hundred have priority.
const PRIOR: u64 = 40;

// === impl Plan ===

impl Plan {
    /// Has some limits keep a share, in all versions of the rules file, and gives some requests
    /// priority.
    pub(super) fn draw_priorities(&mut self) {
        let mut random = Random::new(self.seed ^ STREAM);
        if !random.chance(CHANCE) {
            return;
        }
        // A limit that requests bring along keeps no share.
        let has_rule = |counter: &&mut Counter| !counter.is_override;
        for counter in self.counters.iter_mut().filter(has_rule) {
            if random.chance(SHARED) {
                counter.keep_share(random.pick(&[5, 20, 50, 90]));
            }
        }
        for (_, step) in &mut self.steps {
            if let Step::Request(request) = step {
                request.has_priority = random.chance(PRIOR);
            }
        }
    }

    /// Whether requests state their priority: some limit asks for it.
    pub(crate) fn has_priorities(&self) -> bool {
        self.counters.iter().any(Counter::keeps_share)
    }
}

// === impl Counter ===

impl Counter {
    fn keep_share(&mut self, percent: u8) {
        for limit in &mut self.limits {
            let kept = limit.with_priority_share(percent);
            *limit = kept.expect("the share is at most the whole limit");
        }
    }
}
