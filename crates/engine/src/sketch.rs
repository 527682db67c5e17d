//! The most frequent keys of a stream in bounded memory: the Space-Saving algorithm (Metwally,
//! Agrawal and El Abbadi, 2005).
//!
//! With m counters and n occurrences, no count is more than n/m too high, none is too low, and
//! every key that occurred more than n/m times has a counter.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::Key;

/// Counters of the most frequent keys.
#[derive(Debug)]
pub(crate) struct Sketch<L> {
    counters_max: usize,
    counters: Vec<Counter<L>>,
    /// Indices of `counters`, a binary heap with the smallest count first.
    heap: Vec<usize>,
    /// By key, the index of its counter.
    by_key: HashMap<Key, usize>,
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

// === impl Sketch ===

impl<L> Sketch<L> {
    /// An empty sketch of at most `counters_max` counters, at least one.
    pub(crate) fn new(counters_max: usize) -> Sketch<L> {
        Sketch {
            counters_max: counters_max.max(1),
            counters: Vec::new(),
            heap: Vec::new(),
            by_key: HashMap::new(),
        }
    }

    /// Counts one occurrence of a key, with its label where it is kept.
    pub(crate) fn add(&mut self, key: Key, label: impl FnOnce() -> Arc<L>) {
        if let Some(index) = self.by_key.get(&key) {
            let counter = &mut self.counters[*index];
            counter.count += 1;
            counter.label.get_or_insert_with(label);
            let position = counter.position;
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
            self.heap.push(index);
            self.by_key.insert(key, index);
            self.sift_up(position);
        } else {
            let index = self.heap[0];
            let counter = &mut self.counters[index];
            self.by_key.remove(&counter.key);
            counter.key = key;
            counter.error = counter.count;
            counter.count += 1;
            counter.label = None;
            self.by_key.insert(key, index);
            self.sift_down(0);
        }
    }

    /// How often a key without a counter may have occurred.
    pub(crate) fn absent_max(&self) -> u64 {
        match self.heap.first() {
            Some(index) if self.counters.len() >= self.counters_max => self.counters[*index].count,
            _ => 0,
        }
    }

    /// All counters, in no order.
    pub(crate) fn counters(&self) -> &[Counter<L>] {
        &self.counters
    }

    fn count_at(&self, position: usize) -> u64 {
        self.counters[self.heap[position]].count
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.counters[self.heap[a]].position = a;
        self.counters[self.heap[b]].position = b;
    }

    fn sift_up(&mut self, mut position: usize) {
        while position > 0 {
            let parent = (position - 1) / 2;
            if self.count_at(parent) <= self.count_at(position) {
                return;
            }
            self.swap(parent, position);
            position = parent;
        }
    }

    fn sift_down(&mut self, mut position: usize) {
        loop {
            let left = 2 * position + 1;
            let children = left..self.heap.len().min(left + 2);
            let smallest = children.min_by_key(|child| self.count_at(*child));
            match smallest {
                Some(child) if self.count_at(child) < self.count_at(position) => {
                    self.swap(child, position);
                    position = child;
                }
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;
