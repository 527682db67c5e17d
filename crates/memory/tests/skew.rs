//! Readings of one clock that differ a little between threads, as those of two processors do.
#![allow(clippy::unwrap_used)]

use tollgate_core::{Algorithm, Anchor, Charge, Cost, Limit, Moment, Now, Segments, Span};
use tollgate_memory::{ManualClock, Memory};

/// The end of a window of the limits below.
const END: Moment = Moment::from_nanos(1_763_700_000_000_000_000);
const WINDOW: Span = Span::from_secs(10);
const COUNT: u32 = 5;

fn limits() -> impl Iterator<Item = Limit> {
    let algorithms = [
        Algorithm::FixedWindow(Anchor::Clock),
        Algorithm::FixedWindow(Anchor::FirstRequest),
        Algorithm::SlidingLog,
        Algorithm::SlidingWindow(Segments::ONE),
        Algorithm::SlidingWindow(Segments::new(10).unwrap()),
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
    ];
    let limit = |algorithm| Limit::new(algorithm, COUNT, WINDOW).unwrap();
    algorithms.into_iter().map(limit)
}

/// One reading 5 ns after a window's end, the next 25 ns before it: what was consumed in the new
/// window is not taken for the old one's.
#[test]
fn a_reading_behind_another_forgets_nothing() {
    for limit in limits() {
        for count in [1usize, 2] {
            let store = Memory::builder().max_keys(100).clock(ManualClock::at(END));
            let store = store.build();
            let keys = [store.key_of("one"), store.key_of("two")];
            let charges = keys.map(|key| Charge::new(key, &limit, Cost::ONE));
            let ask = |moment| {
                store.clock().set(Now::at(moment));
                store.decide_now(&charges[..count]).unwrap().is_allowed()
            };
            let later = END + Span::from_nanos(5);
            assert!((0..COUNT).all(|_| ask(later)), "{limit:?}");
            for back in [1, 5, 6, 30, 1_000] {
                let earlier = later - Span::from_nanos(back);
                assert!(!ask(earlier), "{limit:?}: {back} ns back, {count} limits");
            }
            assert!(!ask(later), "{limit:?}, {count} limits");
        }
    }
}

/// A batch is decided at one reading of the clock. While it goes on, windows end and another thread
/// spends all of the present one: what comes later in the batch does not take that back.
#[test]
fn a_batch_that_began_before_a_window_ended_forgets_nothing() {
    for limit in limits() {
        let clock = ManualClock::at(END - Span::from_millis(5));
        let store = Memory::builder().max_keys(100).clock(clock).build();
        let keys = [store.key_of("before"), store.key_of("one")];
        let one = Charge::new(keys[1], &limit, Cost::ONE);
        // The key has a slot already.
        assert!(store.check(&one).unwrap().is_allowed());
        let mut answers = Vec::new();
        let charge = |key| Charge::new(key, &limit, Cost::ONE);
        store.check_each(keys, charge, |key, answer| {
            answers.push(answer.unwrap().is_allowed());
            if key == keys[0] {
                let later = END + WINDOW + WINDOW + Span::from_nanos(1);
                store.clock().set(Now::at(later));
                let spend = |_| store.check(&one).unwrap().is_allowed();
                assert!((0..COUNT).all(spend), "{limit:?}");
            }
        });
        assert_eq!(answers, [true, false], "{limit:?}");
        assert!(!store.check(&one).unwrap().is_allowed(), "{limit:?}");
    }
}
