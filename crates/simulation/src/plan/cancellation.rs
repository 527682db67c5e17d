//! When callers drop their decisions and their settlements.
//!
//! Drawn from a stream of its own, after everything else, for what the draws before it have
//! dropped, and for more requests over several limits in the same seeds.

use super::{Cancel, Faults, Plan, Request, Step};
use crate::random::Random;

/// Sets the stream of randomness apart from the others of a seed.
const STREAM: u64 = 0xCA9C;
/// How many cancellations in a hundred are by time.
const BY_TIME: u64 = 75;
/// How many more requests over several limits in a hundred are dropped: few of them need a round,
/// and few moments are in one.
const JOINT: u64 = 40;
/// How long most decisions take at most, in milliseconds.
const USUAL_MS: u64 = 4;
/// How often other tasks run before a decision is dropped, at most: all messages may take no time.
const YIELDS_MAX: [u32; 3] = [1, 6, 30];

// === impl Plan ===

impl Plan {
    /// Has most callers that drop their futures do so at some moment of their time budget.
    /// Otherwise, none does while other tasks work for it, as for a round over several slots.
    pub(super) fn draw_cancellations(&mut self) {
        let mut random = Random::new(self.seed ^ STREAM);
        let (drops, timeout_ms) = (self.faults.has(Faults::CANCEL), self.setup.timeout_ms);
        for (_, step) in &mut self.steps {
            if let Step::Request(request) = step {
                if drops && request.parts.len() > 1 && random.chance(JOINT) {
                    request.cancel.get_or_insert(Cancel::Polls(1));
                }
                for cancel in request.cancellations() {
                    draw_time(cancel, &mut random, timeout_ms);
                }
            }
        }
    }
}

// === impl Request ===

impl Request {
    /// When the decision is dropped, and when each settlement is.
    fn cancellations(&mut self) -> impl Iterator<Item = &mut Cancel> {
        let settles = self.settles.iter_mut().flatten();
        let settles = settles.filter_map(|settle| settle.cancel.as_mut());
        self.cancel.iter_mut().chain(settles)
    }
}

/// Another moment for most of them.
fn draw_time(cancel: &mut Cancel, random: &mut Random, timeout_ms: u64) {
    if random.chance(BY_TIME) {
        let millis_max = random.pick(&[0, 1, USUAL_MS, USUAL_MS, timeout_ms]);
        let yields_max = random.pick(&YIELDS_MAX);
        *cancel = Cancel::Time {
            millis: random.between(0, millis_max),
            yields: random.small(0, yields_max),
        };
    }
}
