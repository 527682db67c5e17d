//! How long messages take without a fault, and which faults meet requests.
//!
//! Drawn from a stream of its own, after everything else.

use super::{Fault, Plan, Step};
use crate::random::Random;

/// Sets the stream of randomness apart from the others of a seed.
const STREAM: u64 = 0xDE1A;
/// How many faults in a hundred begin with a request.
const MEETING: u64 = 50;

impl Plan {
    /// Has messages take some time, and has faults begin while a request is decided: otherwise,
    /// hardly any does.
    pub(super) fn draw_timing(&mut self) {
        let mut random = Random::new(self.seed ^ STREAM);
        self.setup.delay_max = random.pick(&[0, 1, 1]);
        let requests = self.steps.iter().filter_map(|(at, step)| match step {
            Step::Request(request) => Some((*at, request.instance)),
            _ => None,
        });
        let requests: Vec<(u64, usize)> = requests.collect();
        for (at, step) in &mut self.steps {
            let Step::Fault(fault) = &*step else {
                continue;
            };
            let is_met = |decider: usize| match fault {
                Fault::Crash { instance, .. } => *instance == decider,
                _ => true,
            };
            let met = requests.iter().filter(|(_, decider)| is_met(*decider));
            let met: Vec<u64> = met.map(|(at, _)| *at).collect();
            if !met.is_empty() && random.chance(MEETING) {
                *at = random.pick(&met) + random.between(0, 1);
            }
        }
    }
}
