//! The most frequent keys of a stream in bounded memory: the Space-Saving algorithm (Metwally,
//! Agrawal and El Abbadi, 2005), in sets.
//!
//! A key belongs to one of [`SETS`] by a secret hash, as an address belongs to a set of a
//! processor's cache, and each set runs the algorithm alone, on [`COUNTERS`] counters: a key that
//! has none takes the one with the smallest count, and goes on counting from there. That needs
//! neither a table of the keys nor an order of the counts, because few counters lie beside each
//! other.
//!
//! In a set of m counters with n occurrences of its keys, no count is more than n/m too high, none
//! is too low, and every key that occurred more than n/m times has a counter. How much it is at
//! most in fact, the smallest count of the set says. The hash is secret, so that nobody can choose
//! keys that share a set.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use tollgate_core::{Key, KeyFolding};

/// How many sets there are; a power of two.
pub(crate) const SETS: usize = 64;
/// How many counters each of them has.
pub(crate) const COUNTERS: usize = 8;

/// The set of a key, the same in all sketches of an engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetHash(KeyFolding);

/// Counters of the most frequent keys.
#[derive(Debug)]
pub(crate) struct Sketch<L> {
    hash: SetHash,
    /// [`SETS`] of them, or none as long as nothing was counted.
    sets: Vec<Set<L>>,
}

/// Some counters. Those that nobody has used have a count of 0.
#[derive(Debug)]
pub(crate) struct Set<L> {
    /// Apart from the rest, because nearly every search reads only these two.
    keys: [Key; COUNTERS],
    counts: [u64; COUNTERS],
    errors: [u64; COUNTERS],
    labels: [Option<Arc<L>>; COUNTERS],
}

/// How often a key occurred.
#[derive(Debug)]
pub(crate) struct Counter<'s, L> {
    pub(crate) key: Key,
    /// At least as often as it occurred.
    pub(crate) count: u64,
    /// The most by which `count` is too high: what the counter had for another key.
    pub(crate) error: u64,
    /// What describes the key. A key that takes the counter of another one has none before it
    /// occurs again, because most such keys are rare.
    pub(crate) label: Option<&'s Arc<L>>,
}

// === impl SetHash ===

impl SetHash {
    /// A new secret.
    pub(crate) fn new() -> SetHash {
        let random = RandomState::new();
        let secret = [random.hash_one(0_u8), random.hash_one(1_u8)];
        SetHash(KeyFolding::new(secret))
    }

    fn of(self, key: Key) -> usize {
        const { assert!(SETS.is_power_of_two()) };
        usize::try_from(self.0.hash_one(key) >> 32).unwrap_or(0) % SETS
    }
}

// === impl Sketch ===

impl<L> Sketch<L> {
    /// An empty sketch. Without an occurrence it has no memory.
    pub(crate) const fn new(hash: SetHash) -> Sketch<L> {
        Sketch {
            hash,
            sets: Vec::new(),
        }
    }

    /// Counts one occurrence of a key, with its label where it is kept.
    pub(crate) fn add(&mut self, key: Key, label: impl FnOnce() -> Arc<L>) {
        if self.sets.is_empty() {
            self.sets.resize_with(SETS, Set::new);
        }
        self.sets[self.hash.of(key)].add(key, label);
    }

    /// Its sets, in the same order in all sketches with the same hash.
    pub(crate) fn sets(&self) -> &[Set<L>] {
        &self.sets
    }
}

// === impl Set ===

impl<L> Set<L> {
    fn new() -> Set<L> {
        Set {
            keys: [Key::from_bits(0); COUNTERS],
            counts: [0; COUNTERS],
            errors: [0; COUNTERS],
            labels: [const { None }; COUNTERS],
        }
    }

    fn add(&mut self, key: Key, label: impl FnOnce() -> Arc<L>) {
        let is_of_key = |at: &usize| self.keys[*at] == key && self.counts[*at] > 0;
        if let Some(at) = (0..COUNTERS).find(is_of_key) {
            self.counts[at] += 1;
            self.labels[at].get_or_insert_with(label);
            return;
        }
        let at = self.smallest();
        let count = self.counts[at];
        self.keys[at] = key;
        self.errors[at] = count;
        self.counts[at] = count + 1;
        self.labels[at] = (count == 0).then(label);
    }

    fn smallest(&self) -> usize {
        (1..COUNTERS).fold(0, |least, at| match self.counts[at] < self.counts[least] {
            true => at,
            false => least,
        })
    }

    /// How often a key of this set without a counter may have occurred.
    pub(crate) fn absent_max(&self) -> u64 {
        self.counts[self.smallest()]
    }

    /// The counters in use, in no order.
    pub(crate) fn counters(&self) -> impl Iterator<Item = Counter<'_, L>> {
        let used = (0..COUNTERS).filter(|at| self.counts[*at] > 0);
        used.map(|at| Counter {
            key: self.keys[at],
            count: self.counts[at],
            error: self.errors[at],
            label: self.labels[at].as_ref(),
        })
    }
}

#[cfg(test)]
mod tests;
