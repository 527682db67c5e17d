//! The store and core's plain ledger give the same answers to the same questions.
#![allow(clippy::unwrap_used)]

use tollgate_core::{
    Algorithm, Anchor, Charge, Cost, Enforcement, Ledger, Limit, LimitHistory, Moment, Now,
    OnDenial, Segments, Span,
};
use tollgate_memory::Memory;

/// A small generator of repeatable randomness (PCG's multiplier).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

fn limit(random: &mut Random) -> Limit {
    let window = Span::from_nanos(60 * (1 + random.below(1_000_000)));
    let algorithm = match random.below(6) {
        0 => Algorithm::FixedWindow(Anchor::Clock),
        1 => Algorithm::FixedWindow(Anchor::FirstRequest),
        2 => Algorithm::SlidingLog,
        3 => Algorithm::SlidingWindow(
            Segments::new([1, 2, 10, 60][usize::try_from(random.below(4)).unwrap()]).unwrap(),
        ),
        4 => Algorithm::TokenBucket,
        _ => Algorithm::LeakyBucket,
    };
    let count = u32::try_from(random.below(12)).unwrap();
    let limit = Limit::new(algorithm, count, window);
    let limit = limit
        .or_else(|_| Limit::new(algorithm, 1, Span::from_nanos(6_000)))
        .unwrap();
    let limit = if random.below(4) == 0 && limit.is_bucket() {
        limit
            .with_burst(u32::try_from(1 + random.below(20)).unwrap())
            .unwrap()
    } else {
        limit
    };
    if random.below(4) == 0 {
        limit.with_soft(30).unwrap()
    } else {
        limit
    }
}

fn cost(random: &mut Random) -> Cost {
    match random.below(12) {
        0 => Cost::Peek(random.below(5)),
        1 => Cost::Refund(random.below(6)),
        2 => Cost::Take(random.below(9)),
        _ => Cost::ONE,
    }
}

#[test]
fn random_traces_agree() {
    for seed in 0..400 {
        let mut random = Random(seed);
        let store = Memory::builder().max_keys(1_000).build();
        let mut ledger = Ledger::default();
        let mut rules: Vec<(Limit, LimitHistory)> = (0..6)
            .map(|_| (limit(&mut random), LimitHistory::none().clone()))
            .collect();
        // Four for each rule, of which most requests ask the first.
        let keys: Vec<_> = (0..24u64).map(|key| store.key_of(&(seed, key))).collect();
        let mut now = Moment::ZERO + Span::from_secs(1_700_000_000);
        for step in 0..300 {
            let pause = random.below(40_000_000);
            let pause = if random.below(3) == 0 {
                random.below(100)
            } else {
                pause
            };
            now = now + Span::from_nanos(pause);
            if random.below(40) == 0 {
                let rule = usize::try_from(random.below(6)).unwrap();
                let (former, history) = rules[rule].clone();
                rules[rule] = (limit(&mut random), history.and(former));
            }
            let on_denial = if seed % 4 == 0 {
                OnDenial::Charge
            } else {
                OnDenial::Keep
            };
            // Some have more charges, and more keys, than are kept without the heap.
            let (count, keys_each) = match random.below(8) {
                0 => (9, 4),
                1 => (20, 4),
                _ => (1 + random.below(4), 1),
            };
            let charges: Vec<Charge<'_>> = (0..count)
                .map(|_| {
                    let rule = usize::try_from(random.below(6)).unwrap();
                    let cost = cost(&mut random);
                    let enforcement = match rule {
                        4 => Enforcement::Shadow,
                        5 => Enforcement::Quota,
                        _ => Enforcement::Enforce,
                    };
                    let (limit, history) = &rules[rule];
                    let key = keys[rule + 6 * usize::try_from(random.below(keys_each)).unwrap()];
                    Charge {
                        history,
                        enforcement,
                        on_denial,
                        ..Charge::new(key, limit, cost)
                    }
                })
                .collect();
            let ours = store.decide_at(Now::at(now), &charges).unwrap();
            let model = ledger.decide(Now::at(now), &charges).unwrap();
            assert_eq!(ours, model, "seed {seed}, step {step}: {charges:#?}");
        }
    }
}

/// Requests that bring limits of their own to one key. Buckets have none: a changed
/// bucket needs its history.
#[test]
fn limits_that_disagree_are_judged_as_the_ledger_judges() {
    for seed in 0..300 {
        let mut random = Random(seed);
        let store = Memory::builder().max_keys(1_000).build();
        let mut ledger = Ledger::default();
        let first = std::iter::repeat_with(|| limit(&mut random)).find(|limit| !limit.is_bucket());
        let first = first.unwrap();
        let key = store.key_of(&seed);
        let mut now = Moment::ZERO + Span::from_secs(1_700_000_000);
        let mut allowed = 0;
        for step in 0..200 {
            now = now + Span::from_nanos(random.below(first.window().as_nanos() / 8));
            let count = u32::try_from(1 + random.below(12)).unwrap();
            let limit = Limit::new(first.algorithm(), count, first.window()).unwrap();
            let charge = Charge::new(key, &limit, cost(&mut random));
            let ours = store.decide_at(Now::at(now), &[charge]).unwrap();
            let model = ledger.decide(Now::at(now), &[charge]).unwrap();
            assert_eq!(ours, model, "seed {seed}, step {step}: {charge:#?}");
            allowed += u32::from(ours.is_allowed());
        }
        assert!(allowed > 0);
    }
}

/// How often the state of the only key was in a word, and in the arena.
#[derive(Debug, Default)]
struct Places {
    in_word: u32,
    in_arena: u32,
}

// === impl Places ===

impl Places {
    fn record(&mut self, store: &Memory) {
        match store.stats().arena_bytes {
            0 => self.in_word += 1,
            _ => self.in_arena += 1,
        }
    }

    fn assert_both(&self) {
        let least = 1_000;
        assert!(self.in_arena > least && self.in_word > least, "{self:?}");
    }
}

/// Mostly takes so many units.
fn random_cost(random: &mut Random, units: u64) -> Cost {
    match random.below(10) {
        0 => Cost::Peek(units),
        1 => Cost::Refund(units),
        _ => Cost::Take(units),
    }
}

/// Limits of one segment that disagree: states of some fit a word, those of others do not. Time
/// goes back now and then.
#[test]
fn windows_of_one_segment_in_words_and_out_of_them() {
    let mut places = Places::default();
    for seed in 0..200 {
        let mut random = Random(seed);
        let store = Memory::builder().max_keys(1_000).build();
        let mut ledger = Ledger::default();
        let key = store.key_of(&seed);
        let mut now = Moment::ZERO + Span::from_secs(1_700_000_000);
        let counts = [3, 4_000, 15_810, 15_811, 80_000];
        for step in 0..200 {
            now = match random.below(12) {
                0 => now - Span::from_millis(random.below(2_500)),
                _ => now + Span::from_millis(random.below(700)),
            };
            let count = counts[usize::try_from(random.below(5)).unwrap()];
            let limit = Limit::sliding_window(count, Span::SECOND, 1).unwrap();
            let units = random.below(u64::from(count) / 2 + 2);
            let cost = random_cost(&mut random, units);
            let charge = Charge::new(key, &limit, cost);
            let ours = store.decide_at(Now::at(now), &[charge]).unwrap();
            let model = ledger.decide(Now::at(now), &[charge]).unwrap();
            assert_eq!(ours, model, "seed {seed}, step {step}: {charge:#?}");
            places.record(&store);
        }
    }
    places.assert_both();
}

/// Fixed windows that disagree: the units of some are fewer than the window's nanoseconds, those of
/// others are not. Time goes back now and then, and two limits are asked together.
#[test]
fn fixed_windows_in_words_and_out_of_them() {
    let mut places = Places::default();
    let window = Span::from_nanos(1_000);
    for seed in 0..200 {
        let mut random = Random(seed);
        let store = Memory::builder().max_keys(1_000).build();
        let mut ledger = Ledger::default();
        let key = store.key_of(&seed);
        let mut now = Moment::ZERO + Span::from_secs(1_700_000_000);
        let counts = [3, 900, 999, 1_000, 5_000];
        for step in 0..200 {
            now = match random.below(12) {
                0 => now - Span::from_nanos(random.below(2_500)),
                _ => now + Span::from_nanos(random.below(300)),
            };
            let mut limit = || {
                let count = counts[usize::try_from(random.below(5)).unwrap()];
                Limit::fixed_window(count, window).unwrap()
            };
            let limits = [limit(), limit()];
            let units = random.below(u64::from(limits[0].count()) / 2 + 2);
            let cost = random_cost(&mut random, units);
            let on_denial = match random.below(2) {
                0 => OnDenial::Charge,
                _ => OnDenial::Keep,
            };
            let charges = limits.each_ref().map(|limit| Charge {
                on_denial,
                ..Charge::new(key, limit, cost)
            });
            let count = usize::try_from(1 + random.below(8) / 7).unwrap();
            let ours = store.decide_at(Now::at(now), &charges[..count]).unwrap();
            let model = ledger.decide(Now::at(now), &charges[..count]).unwrap();
            assert_eq!(ours, model, "seed {seed}, step {step}: {charges:#?}");
            places.record(&store);
        }
    }
    places.assert_both();
}

/// A smaller limit on the same key in the same request, of which a denied request is charged up to
/// the larger one: the state is larger than any that the smaller limit alone leads to.
#[test]
fn a_denied_request_is_charged_by_the_largest_limit_of_its_key() {
    let one_second = |count| Limit::sliding_window(count, Span::SECOND, 1).unwrap();
    let one_micro = |count| Limit::fixed_window(count, Span::from_nanos(1_000)).unwrap();
    let pairs = [
        [one_second(3), one_second(80_000)],
        [one_micro(3), one_micro(80_000)],
    ];
    for limits in &pairs {
        let store = Memory::builder().max_keys(1_000).build();
        let mut ledger = Ledger::default();
        let now = Now::at(Moment::ZERO + Span::DAY);
        for cost in [Cost::Take(60_000), Cost::ONE, Cost::Refund(50_000)] {
            let charges = limits.each_ref().map(|limit| Charge {
                on_denial: OnDenial::Charge,
                ..Charge::new(store.key_of("both"), limit, cost)
            });
            let ours = store.decide_at(now, &charges).unwrap();
            assert_eq!(ours, ledger.decide(now, &charges).unwrap(), "{cost:?}");
        }
    }
}

/// The same with limits of different windows.
#[test]
fn a_denied_request_is_charged_by_a_limit_of_another_window() {
    let sliding = |count, window| Limit::sliding_window(count, window, 1).unwrap();
    let fixed = |count, window| Limit::fixed_window(count, window).unwrap();
    let pairs = [
        [sliding(3, Span::SECOND), sliding(100_000, Span::HOUR)],
        [
            fixed(3, Span::from_nanos(1_000)),
            fixed(100_000, Span::HOUR),
        ],
    ];
    for limits in &pairs {
        let store = Memory::builder().max_keys(1_000).build();
        let now = Now::at(Moment::ZERO + Span::DAY);
        let charges = limits.each_ref().map(|limit| Charge {
            on_denial: OnDenial::Charge,
            ..Charge::new(store.key_of("both"), limit, Cost::Take(90_000))
        });
        for _ in 0..3 {
            assert!(!store.decide_at(now, &charges).unwrap().is_allowed());
        }
    }
}
