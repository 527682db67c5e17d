//! What else a reload may change: how instances share a limit, what happens without Redis, and
//! which rules there are.
//!
//! Drawn from a stream of its own, after everything else, and for some seeds only: the others have
//! the same plan as without it.

use super::{Counter, LENGTH_MS, MODES, ON_STORE_ERRORS, Part, Plan, Reload, Step, index};
use crate::random::Random;

/// Sets the stream of randomness apart from the others of a seed.
const STREAM: u64 = 0xC4A6;
/// How many seeds in a hundred have such changes.
const CHANCE: u64 = 35;
/// A rule that replaces another one where a request meets both.
#[derive(Clone, Debug)]
pub(crate) struct Replacement {
    /// The counter whose rule replaces the other.
    pub(crate) by: usize,
    /// The counter whose rule is replaced.
    pub(crate) of: usize,
    /// In which versions of the rules file.
    versions: Vec<bool>,
}

// === impl Replacement ===

impl Replacement {
    pub(crate) fn is_in(&self, version: usize) -> bool {
        self.versions.get(version).is_some_and(|is_in| *is_in)
    }
}

// === impl Plan ===

impl Plan {
    /// Adds versions of the rules file that change more than limits, and reloads of them.
    pub(super) fn draw_changes(&mut self) {
        let mut random = Random::new(self.seed ^ STREAM);
        if !random.chance(CHANCE) {
            return;
        }
        let versions = index(&mut random, 3) + 2;
        self.versions = self.versions.max(versions);
        for counter in &mut self.counters {
            counter.draw_sharing(&mut random, versions);
            counter.draw_presence(&mut random, versions);
        }
        self.draw_replacement(&mut random, versions);
        for version in &mut self.first_versions {
            *version = index(&mut random, self.versions);
        }
        for _ in 0..random.between(2, 10) {
            let at = random.between(100, LENGTH_MS);
            let reload = Reload {
                place: index(&mut random, self.setup.instances),
                version: index(&mut random, self.versions),
                is_invalid: false,
            };
            self.steps.push((at, Step::Reload(reload)));
        }
    }

    fn draw_replacement(&mut self, random: &mut Random, versions: usize) {
        let (by, of) = (
            index(random, self.counters.len()),
            index(random, self.counters.len()),
        );
        let has_rules = !self.counters[by].is_override && !self.counters[of].is_override;
        if by != of && has_rules && random.chance(60) {
            let versions = (0..versions).map(|_| random.chance(50)).collect();
            self.replacement = Some(Replacement { by, of, versions });
        }
    }

    /// Which parts of a request meet a limit in a version of the rules file.
    pub(crate) fn find_limited_in(&self, version: usize, parts: &[Part]) -> Vec<bool> {
        let is_present = |part: &Part| self.counters[part.counter].is_present_in(version);
        let replaced = self.replacement.as_ref().filter(|replacement| {
            let mut present = parts.iter().filter(|part| is_present(part));
            replacement.is_in(version) && present.any(|part| part.counter == replacement.by)
        });
        let is_replaced = |part: &Part| replaced.is_some_and(|one| one.of == part.counter);
        let limited = parts
            .iter()
            .map(|part| is_present(part) && !is_replaced(part));
        limited.collect()
    }
}

// === impl Counter ===

impl Counter {
    fn draw_sharing(&mut self, random: &mut Random, versions: usize) {
        if random.chance(60) {
            let more = (1..versions).map(|_| random.pick(&MODES));
            self.modes.extend(more);
        }
        if random.chance(60) {
            let more = (1..versions).map(|_| random.pick(&ON_STORE_ERRORS));
            self.on_store_errors.extend(more);
        }
    }

    fn draw_presence(&mut self, random: &mut Random, versions: usize) {
        if random.chance(40) {
            let more = (1..versions).map(|_| random.chance(50));
            self.presence.extend(more);
        }
    }
}
