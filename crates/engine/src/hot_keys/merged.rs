//! Several sketches as one.

use std::cmp::Reverse;
use std::sync::Arc;

use tollgate_core::Key;

use super::{HotKey, Label};
use crate::sketch::{SETS, Set, Sketch};

/// The sum of sketches with one hash. A key that has no counter in one of them may have occurred
/// there as often as the smallest counter of its set says.
pub(super) struct Merged {
    sets: [MergedSet; SETS],
}

/// The same set of all of them.
#[derive(Default)]
struct MergedSet {
    /// Few enough to be searched one by one.
    sums: Vec<Sum>,
    /// The sum of what a key without a counter may have in each sketch.
    absent_max: u64,
}

struct Sum {
    key: Key,
    count: u64,
    error: u64,
    /// The part of [`MergedSet::absent_max`] of the sketches in which the key has a counter.
    present: u64,
    label: Option<Arc<Label>>,
}

// === impl Merged ===

impl Merged {
    pub(super) fn new() -> Merged {
        Merged {
            sets: std::array::from_fn(|_| MergedSet::default()),
        }
    }

    pub(super) fn add(&mut self, sketch: &Sketch<Label>) {
        for (merged, set) in self.sets.iter_mut().zip(sketch.sets()) {
            merged.add(set);
        }
    }

    /// The most by which a count can be too high, and that a missing key can have.
    pub(super) fn error_max(&self) -> u64 {
        let each = self.sets.iter().map(|set| set.absent_max);
        each.max().unwrap_or(0)
    }

    /// The `max` most frequent keys: by what is certain, since a rare key may have a high count
    /// that is all error.
    pub(super) fn finish(self, max: usize) -> Vec<HotKey> {
        let sets = self.sets.into_iter();
        let mut keys: Vec<(Key, HotKey)> = sets.flat_map(MergedSet::finish).collect();
        let order = |(key, one): &(Key, HotKey)| (Reverse(one.count - one.error), *key);
        if keys.len() > max {
            keys.select_nth_unstable_by_key(max, order);
            keys.truncate(max);
        }
        keys.sort_unstable_by_key(order);
        keys.into_iter().map(|(_, found)| found).collect()
    }
}

// === impl MergedSet ===

impl MergedSet {
    fn add(&mut self, set: &Set<Label>) {
        let absent_max = set.absent_max();
        self.absent_max += absent_max;
        for counter in set.counters() {
            let sum = self.sum_of(counter.key);
            sum.count += counter.count;
            sum.error += counter.error;
            sum.present += absent_max;
            if sum.label.is_none() {
                sum.label = counter.label.map(Arc::clone);
            }
        }
    }

    fn sum_of(&mut self, key: Key) -> &mut Sum {
        let found = self.sums.iter().position(|sum| sum.key == key);
        let at = found.unwrap_or_else(|| {
            self.sums.push(Sum {
                key,
                count: 0,
                error: 0,
                present: 0,
                label: None,
            });
            self.sums.len() - 1
        });
        &mut self.sums[at]
    }

    /// The keys that have a label.
    fn finish(self) -> impl Iterator<Item = (Key, HotKey)> {
        self.sums.into_iter().filter_map(move |sum| {
            let absent = self.absent_max - sum.present;
            let label = sum.label?;
            let found = HotKey {
                rule: Arc::clone(&label.rule),
                count: sum.count + absent,
                error: sum.error + absent,
                label,
            };
            Some((sum.key, found))
        })
    }
}
