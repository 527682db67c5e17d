//! What a rules file adds to plain limits: versions, and what a denial does.
//!
//! Drawn from a stream of its own, after everything else, so that a seed keeps its deployment, its
//! requests and its faults. Half of the seeds have limits without any of these features.

use tollgate_core::{Algorithm, Anchor, ChargeDenied, Cost, Enforcement, Limit, Span};

use super::{Counter, LENGTH_MS, Part, Plan, Reload, Step, index, limit};
use crate::random::Random;

/// Sets the stream of randomness apart from the others of a seed.
const STREAM: u64 = 0xF11E;

impl Plan {
    pub(super) fn draw_features(&mut self) {
        let mut random = Random::new(self.seed ^ STREAM);
        self.draw_override(&mut random);
        if random.chance(50) {
            self.draw_denials(&mut random);
            for counter in &mut self.counters {
                counter.draw_shape(&mut random);
            }
            self.draw_duplicates(&mut random);
        }
        self.draw_reloads(&mut random);
    }

    /// Has the requests bring the limits of one counter along, if these are fixed windows. How it
    /// is shared is then said by its domain, so there is one such counter at most.
    fn draw_override(&mut self, random: &mut Random) {
        let fits = |counter: &Counter| {
            let is_fixed = matches!(counter.limits[0].algorithm(), Algorithm::FixedWindow(_));
            is_fixed && counter.limits.len() > 1
        };
        let found = self.counters.iter_mut().find(|counter| fits(counter));
        if let Some(counter) = found {
            counter.is_override = random.chance(50);
        }
    }

    /// What denials do, and which denied requests are charged.
    fn draw_denials(&mut self, random: &mut Random) {
        use ChargeDenied::{Always, Excess, Never};
        self.charge_denied = random.pick(&[Never, Never, Excess, Always]);
        // A request needs only one of its quotas, so they come in groups.
        let has_quotas = random.chance(25);
        for counter in &mut self.counters {
            if counter.is_override {
                continue;
            }
            if random.chance(25) {
                counter.charge_denied = Some(random.pick(&[Never, Excess, Always]));
            }
            if has_quotas {
                counter.enforcements = vec![Enforcement::Quota];
            } else if random.chance(25) {
                counter.enforcements = vec![Enforcement::Shadow];
            }
            // A limit on trial is enforced later, or the other way round.
            if random.chance(25) {
                let other = random.pick(&[Enforcement::Enforce, Enforcement::Shadow]);
                counter.enforcements.push(other);
            }
        }
    }

    /// Adds a second descriptor to some requests that meets the same counter as the first.
    fn draw_duplicates(&mut self, random: &mut Random) {
        let counters = &self.counters;
        for (_, step) in &mut self.steps {
            let Step::Request(request) = step else {
                continue;
            };
            if !random.chance(10) {
                continue;
            }
            let part = request.parts[0];
            if !part.cost.is_refund() {
                request.parts.push(Part {
                    version: index(random, counters[part.counter].limits.len()),
                    cost: random.pick(&[Cost::ONE, Cost::Take(2), Cost::Peek(1)]),
                    ..part
                });
            }
        }
    }

    /// Draws which instance reads which version of the file, and when.
    fn draw_reloads(&mut self, random: &mut Random) {
        let versions = self
            .counters
            .iter()
            .map(|counter| match counter.is_override {
                true => 1,
                false => counter.limits.len().max(counter.enforcements.len()),
            });
        self.versions = versions.max().unwrap_or(1);
        for version in &mut self.first_versions {
            *version = index(random, self.versions);
        }
        // Now and then, a file is read again that has not changed.
        let most = if self.versions > 1 { 12 } else { 1 };
        for _ in 0..random.between(0, most) {
            let at = random.between(100, LENGTH_MS);
            let reload = Reload {
                place: index(random, self.setup.instances),
                version: index(random, self.versions),
                is_invalid: random.chance(10),
            };
            self.steps.push((at, Step::Reload(reload)));
        }
    }
}

// === impl Counter ===

impl Counter {
    /// Draws what a limit may have beside its size, and another limit that takes its place.
    fn draw_shape(&mut self, random: &mut Random) {
        if self.is_override {
            return;
        }
        let (burst, soft) = (random.small(1, 40), random.pick(&[0, 0, 10, 50]));
        let (has_burst, is_anchored) = (random.chance(25), random.chance(25));
        for limit in &mut self.limits {
            let mut shaped = *limit;
            if shaped.is_bucket() && has_burst {
                shaped = valid(shaped.with_burst(burst));
            }
            if is_anchored && matches!(shaped.algorithm(), Algorithm::FixedWindow(_)) {
                let algorithm = Algorithm::FixedWindow(Anchor::FirstRequest);
                shaped = valid(Limit::new(algorithm, shaped.count(), shaped.window()));
            }
            *limit = valid(shaped.with_soft(soft));
        }
        // Only where nothing expires during a run: how many units are converted is known then.
        if self.limits[0].window() == Span::HOUR && random.chance(30) {
            let window = random.pick(&[Span::HOUR, Span::DAY]);
            let other = limit(random.between(0, 4), random.small(1, 40), window);
            self.limits.push(other);
        }
    }
}

fn valid<E: std::fmt::Debug>(limit: Result<Limit, E>) -> Limit {
    limit.expect("the limits of the plan are valid")
}
