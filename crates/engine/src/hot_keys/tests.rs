#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use tollgate_behaviour::{Random, check};
use tollgate_core::{ChargeDenied, Clock, Cost, Entry, Key};
use tollgate_memory::{ManualClock, Memory};
use tollgate_rules::{Options, RuleSet, Source};

use super::*;
use crate::engine::Engine;
use crate::stores::Stores;

const RULES: &str = "domain: d\ndescriptors:\n  - {key: k, rate_limit: 5/minute}\n";

fn engine(clock: &Arc<ManualClock>) -> Arc<Engine> {
    let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(clock);
    let memory = Memory::builder().max_keys(10_000).clock(clock).build();
    let engine = Engine::new(Stores::new(memory));
    let sources = [Source::new("d.yaml", RULES)];
    engine.replace_rules(RuleSet::parse(&sources, &Options::default()).rules);
    Arc::new(engine)
}

async fn decide(engine: &Engine, value: &[u8]) -> bool {
    let entry = Entry { key: b"k", value };
    let request = Request {
        domain: b"d",
        descriptors: vec![Descriptor {
            entries: vec![entry].into(),
            ..Descriptor::default()
        }]
        .into(),
        cost: Cost::Take(1),
        charge_denied: ChargeDenied::Never,
    };
    engine.decide(&request).await.unwrap().answer.is_allowed()
}

fn shown(keys: &[HotKey]) -> Vec<(String, u64, u64)> {
    let keys = keys.iter().map(|key| {
        let value = key.descriptor().entries[0].value.to_vec();
        (
            String::from_utf8_lossy(&value).into_owned(),
            key.count,
            key.error,
        )
    });
    keys.collect()
}

#[tokio::test]
async fn keys_are_counted_while_they_are_watched_and_for_two_windows() {
    let clock = Arc::new(ManualClock::at(Moment::ZERO + Span::DAY));
    let engine = engine(&clock);
    decide(&engine, b"before").await;
    let watch = engine.watch_keys();
    for _ in 0..7 {
        decide(&engine, b"a").await;
    }
    decide(&engine, b"<b>").await;
    clock.advance(Span::from_secs(2));
    let found = watch.hot_keys(10);
    let a = ("a".to_owned(), 7, 0);
    assert_eq!(shown(&found.hottest), [a, ("<b>".to_owned(), 1, 0)]);
    assert_eq!(shown(&found.most_denied), [("a".to_owned(), 2, 0)]);
    assert_eq!((found.decisions, found.denials, found.missed), (8, 2, 0));
    assert_eq!(found.span, Span::from_secs(2));
    assert_eq!(found.hottest[0].rule.path, "k");
    assert!(found.hottest[0].is_whole());
    assert_eq!(watch.hot_keys(1).hottest.len(), 1);

    clock.advance(HOT_KEYS_WINDOW);
    assert_eq!(watch.hot_keys(10).decisions, 8);
    decide(&engine, b"c").await;
    assert_eq!(watch.hot_keys(10).decisions, 9);
    clock.advance(HOT_KEYS_WINDOW);
    assert_eq!(shown(&watch.hot_keys(10).hottest), [("c".to_owned(), 1, 0)]);

    let second = engine.watch_keys();
    drop(watch);
    assert_eq!(second.hot_keys(10).decisions, 1);
    drop(second);
    decide(&engine, b"d").await;
    let again = engine.watch_keys().hot_keys(10);
    assert_eq!((again.decisions, again.hottest.len()), (0, 0));
}

#[tokio::test]
async fn a_large_descriptor_is_cut_and_a_value_has_one_hash() {
    let clock = Arc::new(ManualClock::at(Moment::ZERO + Span::DAY));
    let engine = engine(&clock);
    let watch = engine.watch_keys();
    decide(&engine, &[0xff; 500]).await;
    let found = watch.hot_keys(1);
    assert!(!found.hottest[0].is_whole());
    let descriptor = found.hottest[0].descriptor();
    assert_eq!(descriptor.entries[0].value.len(), TEXT_BYTES_MAX);
    let hash = |value: &[u8]| engine.hash_value(value).unwrap();
    assert_eq!(hash(b"ann"), hash(b"ann"));
    assert_ne!(hash(b"ann"), hash(b"ann "));
    assert_eq!(hash(b"ann").len(), 2 * HASH_BYTES);
}

/// A key whose bits differ everywhere, as those of a hash do.
fn key_of(number: u64) -> Key {
    Key::from_bits(u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

/// Counts a key with a label that has its number.
fn count(sketch: &mut Sketch<Label>, number: u64) {
    sketch.add(key_of(number), || {
        let value = number.to_be_bytes();
        let entry = Entry {
            key: b"k",
            value: &value,
        };
        let descriptor = Descriptor {
            entries: vec![entry].into(),
            ..Descriptor::default()
        };
        let rule = RuleName {
            domain: "d".to_owned(),
            path: "k".to_owned(),
            name: None,
        };
        Arc::new(Label {
            rule: Arc::new(rule),
            descriptor: OwnedDescriptor::of(&descriptor),
            is_whole: true,
        })
    });
}

fn number_of(key: &HotKey) -> u64 {
    let value = key.descriptor().entries[0].value.to_vec();
    u64::from_be_bytes(value.try_into().unwrap())
}

/// Sketches of a stream that is split at random, as threads and windows split it.
#[test]
fn the_sum_of_sketches_keeps_the_bound() {
    check("sum_of_sketches", 30, |random: &mut Random| {
        let parts = usize::try_from(random.between(1, 6)).unwrap();
        let hash = SetHash::new();
        let mut sketches: Vec<Sketch<Label>> = (0..parts).map(|_| Sketch::new(hash)).collect();
        let mut exact = BTreeMap::new();
        let total = 20_000;
        for _ in 0..total {
            // Small numbers are as frequent as large ones, so frequencies differ much.
            let number = random.any_size(1 << 20) % 5_000;
            *exact.entry(number).or_insert(0) += 1;
            let part = usize::try_from(random.between(0, 5)).unwrap() % parts;
            count(&mut sketches[part], number);
        }
        let mut merged = Merged::new();
        sketches.iter().for_each(|sketch| merged.add(sketch));
        let error_max = merged.error_max();
        let found = merged.finish(usize::MAX);
        assert!(error_max <= total / 250, "{error_max}");
        for key in &found {
            let exact = exact[&number_of(key)];
            assert!(
                key.count >= exact && key.count - key.error <= exact,
                "{key:?} {exact}"
            );
            assert!(key.error <= error_max, "{key:?} {error_max}");
        }
        let mut frequent = exact.iter().filter(|(_, count)| **count > error_max);
        let is_found = |number: &u64| found.iter().any(|key| number_of(key) == *number);
        assert!(frequent.all(|(number, _)| is_found(number)), "{error_max}");
    });
}

#[test]
fn only_the_most_frequent_keys_are_kept_in_order() {
    let mut sketch = Sketch::new(SetHash::new());
    // Few enough for counters of their own, whatever the hash.
    for number in 0..60 {
        for _ in 0..=number % 12 {
            count(&mut sketch, number);
        }
    }
    let mut merged = Merged::new();
    merged.add(&sketch);
    let found = merged.finish(10);
    let counts: Vec<u64> = found.iter().map(|key| key.count).collect();
    assert_eq!(counts, [12, 12, 12, 12, 12, 11, 11, 11, 11, 11]);
}

/// The last watcher drops what was counted, and the first one begins to count: one may come while
/// the other goes.
#[test]
fn a_watcher_that_comes_while_the_last_one_goes_is_counted() {
    let counts = HotKeyCounts::new();
    let now = Moment::ZERO + Span::DAY;
    let watch = || {
        for _ in 0..20_000 {
            counts.add_watcher(now);
            assert_eq!(counts.snapshot(1, now).span, Span::ZERO);
            counts.remove_watcher();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(watch);
        watch();
    });
}
