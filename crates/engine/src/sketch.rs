//! The most frequent keys of a stream in bounded memory: the Space-Saving algorithm (Metwally,
//! Agrawal and El Abbadi, 2005).
//!
//! With m counters and n occurrences, no count is more than n/m too high, none is too low, and
//! every key that occurred more than n/m times has a counter.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use tollgate_core::{Key, KeyFolding};

/// How many children a place of the heap has. More of them make it less deep, and they lie beside
/// each other.
const CHILDREN: usize = 4;

/// Counters of the most frequent keys.
#[derive(Debug)]
pub(crate) struct Sketch<L> {
    counters_max: usize,
    counters: Vec<Counter<L>>,
    /// A heap with the smallest count first.
    heap: Vec<Ranked>,
    /// By key, the index of its counter.
    by_key: HashMap<Key, usize, KeyFolding>,
}

/// How often a key occurred.
#[derive(Clone, Debug)]
pub(crate) struct Counter<L> {
    pub(crate) key: Key,
    /// At least as often as it occurred.
    pub(crate) count: u64,
    /// The most by which `count` is too high: what the counter had for another key.
    pub(crate) error: u64,
    /// What describes the key. A key that takes the counter of another one has none before it
    /// occurs again, because most such keys are rare.
    pub(crate) label: Option<Arc<L>>,
    /// Where it is in the heap.
    position: usize,
}

/// A counter in the heap, with a copy of its count, so that comparisons read the heap
/// alone.
#[derive(Clone, Copy, Debug)]
struct Ranked {
    count: u64,
    index: usize,
}

// === impl Sketch ===

impl<L> Sketch<L> {
    /// An empty sketch of at most `counters_max` counters, at least one.
    pub(crate) fn new(counters_max: usize) -> Sketch<L> {
        let random = RandomState::new();
        let folding = KeyFolding::new([random.hash_one(0_u8), random.hash_one(1_u8)]);
        Sketch {
            counters_max: counters_max.max(1),
            counters: Vec::new(),
            heap: Vec::new(),
            by_key: HashMap::with_hasher(folding),
        }
    }

    /// Counts one occurrence of a key, with its label where it is kept.
    pub(crate) fn add(&mut self, key: Key, label: impl FnOnce() -> Arc<L>) {
        if let Some(index) = self.by_key.get(&key) {
            let counter = &mut self.counters[*index];
            counter.count += 1;
            counter.label.get_or_insert_with(label);
            let position = counter.position;
            self.heap[position].count += 1;
            self.sift_down(position);
        } else if self.counters.len() < self.counters_max {
            let (index, position) = (self.counters.len(), self.heap.len());
            self.counters.push(Counter {
                key,
                count: 1,
                error: 0,
                label: Some(label()),
                position,
            });
            self.heap.push(Ranked { count: 1, index });
            self.by_key.insert(key, index);
            self.sift_up(position);
        } else {
            let place = &mut self.heap[0];
            let counter = &mut self.counters[place.index];
            self.by_key.remove(&counter.key);
            self.by_key.insert(key, place.index);
            counter.key = key;
            counter.error = counter.count;
            counter.count += 1;
            counter.label = None;
            place.count = counter.count;
            self.sift_down(0);
        }
    }

    /// How often a key without a counter may have occurred.
    pub(crate) fn absent_max(&self) -> u64 {
        match self.heap.first() {
            Some(place) if self.counters.len() >= self.counters_max => place.count,
            _ => 0,
        }
    }

    /// All counters, in no order.
    pub(crate) fn counters(&self) -> &[Counter<L>] {
        &self.counters
    }

    /// Puts a counter at a place of the heap.
    fn put(&mut self, position: usize, place: Ranked) {
        self.heap[position] = place;
        self.counters[place.index].position = position;
    }

    /// Moves a counter up to below one that is not larger.
    fn sift_up(&mut self, mut position: usize) {
        let place = self.heap[position];
        while position > 0 {
            let parent = (position - 1) / CHILDREN;
            if self.heap[parent].count <= place.count {
                break;
            }
            self.put(position, self.heap[parent]);
            position = parent;
        }
        self.put(position, place);
    }

    /// Moves a counter down to above one that is not smaller.
    fn sift_down(&mut self, mut position: usize) {
        let place = self.heap[position];
        loop {
            let first = CHILDREN * position + 1;
            let children = first..self.heap.len().min(first + CHILDREN);
            let smallest = children.min_by_key(|child| self.heap[*child].count);
            match smallest {
                Some(child) if self.heap[child].count < place.count => {
                    self.put(position, self.heap[child]);
                    position = child;
                }
                _ => break,
            }
        }
        self.put(position, place);
    }
}

#[cfg(test)]
mod tests;
