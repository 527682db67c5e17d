#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use tollgate_behaviour::{Random, check};

use super::*;

const OCCURRENCES: u64 = 50_000;
const KEYS: u64 = 5_000;

/// Draws ranks of a Zipf distribution: rank r has the weight 1/r.
struct Zipf(Vec<u64>);

impl Zipf {
    fn new() -> Zipf {
        let mut sum = 0;
        let sums = (1..=KEYS).map(|rank| {
            sum += 1_000_000_000 / rank;
            sum
        });
        Zipf(sums.collect())
    }

    fn draw(&self, random: &mut Random) -> Key {
        let at = random.between(0, self.0.last().unwrap() - 1);
        let rank = self.0.partition_point(|sum| *sum <= at);
        Key::from_bits(u128::try_from(rank).unwrap())
    }
}

#[test]
fn the_error_is_within_the_bound_on_a_zipf_stream() {
    let zipf = Zipf::new();
    check("sketch_bound", 8, |random| {
        let counters_max = usize::try_from(random.between(8, 300)).unwrap();
        let mut sketch = Sketch::new(counters_max);
        let mut exact = BTreeMap::new();
        for _ in 0..OCCURRENCES {
            let key = zipf.draw(random);
            *exact.entry(key).or_insert(0) += 1;
            sketch.add(key, || Arc::new(()));
        }
        let bound = OCCURRENCES / u64::try_from(counters_max).unwrap();
        assert!(sketch.absent_max() <= bound);
        assert_eq!(sketch.counters().len(), counters_max);
        let mut sum = 0;
        for counter in sketch.counters() {
            let exact = exact[&counter.key];
            assert!(counter.count >= exact, "{counter:?} {exact}");
            assert!(
                counter.count - counter.error <= exact,
                "{counter:?} {exact}"
            );
            assert!(counter.error <= bound, "{counter:?} {bound}");
            sum += counter.count;
        }
        assert_eq!(sum, OCCURRENCES);
        let frequent = exact.iter().filter(|(_, count)| **count > bound);
        for (key, count) in frequent {
            let found = sketch.counters().iter().find(|one| one.key == *key);
            assert!(found.is_some(), "{key:?} occurred {count} times");
        }
    });
}

#[test]
fn a_key_that_replaces_another_has_a_label_when_it_occurs_again() {
    let mut sketch = Sketch::new(1);
    let key = |bits| Key::from_bits(bits);
    sketch.add(key(1), || Arc::new("one"));
    assert_eq!(sketch.counters()[0].label.as_deref(), Some(&"one"));
    sketch.add(key(2), || unreachable!("a rare key has no label"));
    let counter = &sketch.counters()[0];
    assert_eq!((counter.key, counter.count, counter.error), (key(2), 2, 1));
    assert_eq!(counter.label, None);
    sketch.add(key(2), || Arc::new("two"));
    assert_eq!(sketch.counters()[0].label.as_deref(), Some(&"two"));
}
