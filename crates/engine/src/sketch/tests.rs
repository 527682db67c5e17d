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
        let rank = u128::try_from(rank).unwrap();
        // Bits that differ everywhere, as those of a hash do.
        Key::from_bits(rank.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
    }
}

#[test]
fn the_error_is_within_the_bound_of_each_set_on_a_zipf_stream() {
    let zipf = Zipf::new();
    check("sketch_bound", 8, |random| {
        let hash = SetHash::new();
        let mut sketch = Sketch::new(hash);
        let mut exact: Vec<BTreeMap<Key, u64>> = vec![BTreeMap::new(); SETS];
        for _ in 0..OCCURRENCES {
            let key = zipf.draw(random);
            *exact[hash.of(key)].entry(key).or_insert(0) += 1;
            sketch.add(key, || Arc::new(()));
        }
        for (set, exact) in sketch.sets().iter().zip(exact) {
            let occurrences: u64 = exact.values().sum();
            let bound = occurrences / u64::try_from(COUNTERS).unwrap();
            assert!(set.absent_max() <= bound);
            let mut sum = 0;
            for counter in set.counters() {
                let exact = exact[&counter.key];
                assert!(counter.count >= exact, "{counter:?} {exact}");
                assert!(
                    counter.count - counter.error <= exact,
                    "{counter:?} {exact}"
                );
                assert!(counter.error <= bound, "{counter:?} {bound}");
                sum += counter.count;
            }
            assert_eq!(sum, occurrences);
            let frequent = exact.iter().filter(|(_, count)| **count > set.absent_max());
            for (key, count) in frequent {
                let is_found = set.counters().any(|one| one.key == *key);
                assert!(is_found, "{key:?} occurred {count} times");
            }
        }
    });
}

/// The error in all is about as small as with one set of all counters, which is at most
/// [`OCCURRENCES`] divided by their number: sets share the keys evenly, and the frequent ones have
/// counters of their own.
#[test]
fn the_error_in_all_is_small() {
    let zipf = Zipf::new();
    check("sketch_error", 8, |random| {
        let mut sketch = Sketch::new(SetHash::new());
        for _ in 0..OCCURRENCES {
            sketch.add(zipf.draw(random), || Arc::new(()));
        }
        let error_max = sketch.sets().iter().map(Set::absent_max).max().unwrap();
        let of_one_set = OCCURRENCES / u64::try_from(SETS * COUNTERS).unwrap();
        assert!(error_max <= 3 * of_one_set, "{error_max} {of_one_set}");
    });
}

/// Prints by how much the counts of the hottest keys are too high.
#[test]
#[expect(clippy::print_stdout, reason = "docs/dashboard.md has what it prints")]
fn the_hottest_keys_are_counted_nearly_exactly() {
    const HOTTEST: usize = 20;
    let zipf = Zipf::new();
    let (mut largest, mut exactly, mut keys) = (0, 0, 0);
    check("sketch_hottest", 8, |random| {
        let mut sketch = Sketch::new(SetHash::new());
        let mut exact: BTreeMap<Key, u64> = BTreeMap::new();
        for _ in 0..OCCURRENCES {
            let key = zipf.draw(random);
            *exact.entry(key).or_insert(0) += 1;
            sketch.add(key, || Arc::new(()));
        }
        let mut by_count: Vec<(u64, Key)> = exact.iter().map(|(key, n)| (*n, *key)).collect();
        by_count.sort_unstable_by(|one, next| next.cmp(one));
        for (count, key) in by_count.into_iter().take(HOTTEST) {
            let mut counters = sketch.sets().iter().flat_map(Set::counters);
            let counter = counters.find(|one| one.key == key).unwrap();
            let error = counter.count - count;
            // Half of the rarest of them.
            assert!(
                error <= counter.error && error * 2 < count,
                "{error} of {count}"
            );
            largest = largest.max(error * 1000 / count);
            exactly += u64::from(error == 0);
            keys += 1;
        }
    });
    println!(
        "{OCCURRENCES} decisions over {KEYS} keys, {keys} counts of the {HOTTEST} hottest: \
         {exactly} exact, the largest error {largest} per mille"
    );
}

#[test]
fn a_key_that_replaces_another_has_a_label_when_it_occurs_again() {
    let mut set = Set::new();
    let key = |bits| Key::from_bits(bits);
    // A key of zeros is a key like any other.
    for bits in 0..u128::try_from(COUNTERS).unwrap() {
        set.add(key(bits), || Arc::new("first"));
        set.add(key(bits), || unreachable!("it has a label"));
    }
    assert_eq!(set.absent_max(), 2);
    assert!(set.counters().all(|counter| counter.count == 2));
    set.add(key(99), || unreachable!("a rare key has no label"));
    let mut counters = set.counters().filter(|counter| counter.key == key(99));
    let counter = counters.next().unwrap();
    assert_eq!((counter.count, counter.error), (3, 2));
    assert_eq!(counter.label, None);
    drop(counters);
    set.add(key(99), || Arc::new("again"));
    let labels = set.counters().filter_map(|counter| counter.label.cloned());
    assert_eq!(labels.filter(|label| **label == "again").count(), 1);
}
