//! Several sketches as one.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::Key;

use super::{HotKey, Label};
use crate::sketch::Sketch;

/// The sum of sketches. A key that has no counter in one of them may have occurred there as often
/// as its smallest counter says.
#[derive(Default)]
pub(super) struct Merged {
    keys: HashMap<Key, Sum>,
    /// The sum of what a key without a counter may have in each sketch.
    absent_max: u64,
}

#[derive(Default)]
struct Sum {
    count: u64,
    error: u64,
    /// The part of [`Merged::absent_max`] of the sketches in which the key has a counter.
    present: u64,
    label: Option<Arc<Label>>,
}

// === impl Merged ===

impl Merged {
    pub(super) fn add(&mut self, sketch: &Sketch<Label>) {
        let absent_max = sketch.absent_max();
        self.absent_max += absent_max;
        for counter in sketch.counters() {
            let sum = self.keys.entry(counter.key).or_default();
            sum.count += counter.count;
            sum.error += counter.error;
            sum.present += absent_max;
            if sum.label.is_none() {
                sum.label.clone_from(&counter.label);
            }
        }
    }

    /// The most by which a count can be too high, and that a missing key can have.
    pub(super) const fn error_max(&self) -> u64 {
        self.absent_max
    }

    /// The `max` most frequent keys: by what is certain, since a rare key may have a high count
    /// that is all error.
    pub(super) fn finish(self, max: usize) -> Vec<HotKey> {
        let absent_max = self.absent_max;
        let keys = self.keys.into_iter().filter_map(|(key, sum)| {
            let absent = absent_max - sum.present;
            let label = sum.label?;
            let found = HotKey {
                rule: Arc::clone(&label.rule),
                count: sum.count + absent,
                error: sum.error + absent,
                label,
            };
            Some((key, found))
        });
        let mut keys: Vec<(Key, HotKey)> = keys.collect();
        keys.sort_unstable_by_key(|(key, one)| (Reverse(one.count - one.error), *key));
        keys.truncate(max);
        keys.into_iter().map(|(_, found)| found).collect()
    }
}
