//! Requests that reserve an estimate and settle what was used.
//!
//! Drawn from a stream of its own, after everything else, and for some seeds only: the others have
//! the same plan as without it.

use tollgate_core::{Cost, Mode};

use super::{Cancel, Counter, Faults, Plan, Request, Settle, Step, index};
use crate::random::Random;

/// Sets the stream of randomness apart from the others of a seed.
const STREAM: u64 = 0x5E77;
/// How many seeds in a hundred have reservations.
const CHANCE: u64 = 30;
/// How many requests of such a seed in a hundred reserve, if they can.
const RESERVING: u64 = 40;

// === impl Plan ===

impl Plan {
    /// Has some requests reserve, and settles most of these reservations, some of them twice.
    pub(super) fn draw_reservations(&mut self) {
        let mut random = Random::new(self.seed ^ STREAM);
        if !random.chance(CHANCE) {
            return;
        }
        let (faults, instances) = (self.faults, self.setup.instances);
        let counters = &self.counters;
        for (_, step) in &mut self.steps {
            if let Step::Request(request) = step
                && can_reserve(request, counters)
                && random.chance(RESERVING)
            {
                let many = random.pick(&[0, 1, 1, 1, 2, 2]);
                let settle = |_| Settle {
                    after_ms: random.pick(&[0, 0, 1, 5, 40, 300]),
                    instance: index(&mut random, instances),
                    actual: random.between(0, 5),
                    cancel: (faults.has(Faults::CANCEL) && random.chance(25))
                        .then(|| Cancel::Polls(random.small(1, 8))),
                };
                request.settles = Some((0..many).map(settle).collect());
            }
        }
    }
}

/// Whether Redis keeps a reservation of the request: it charges one counter, by a rule, and that
/// is never counted locally.
fn can_reserve(request: &Request, counters: &[Counter]) -> bool {
    let [part] = &request.parts[..] else {
        return false;
    };
    let counter = &counters[part.counter];
    matches!(part.cost, Cost::Take(_))
        && !counter.is_override
        && (counter.is_strict() || !counter.modes.contains(&Mode::WriteBack))
}
