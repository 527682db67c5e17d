//! Readings of one clock that differ a little between threads, as those of two processors do.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use tollgate_core::{
    Algorithm, Anchor, Charge, Clock, Cost, Key, Limit, Moment, Now, Segments, Span,
};
use tollgate_memory::{ManualClock, Memory, RandomKeys};

/// The end of a window of the limits below.
const END: Moment = Moment::from_nanos(1_763_700_000_000_000_000);
const WINDOW: Span = Span::from_secs(10);
const COUNT: u32 = 5;
/// When what was consumed before [`END`] no longer counts under any of them.
const LATER: Moment = Moment::from_nanos(END.as_nanos() + 2 * WINDOW.as_nanos() + 1);
/// Many more keys than the smallest table has slots.
const FLOOD: u32 = 5_000;

/// How a store loses what a key has consumed once that no longer counts.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// A peek clears the key's slot.
    Cleared,
    /// Other keys take it.
    Displaced,
}

/// What happens while a thread is suspended, and how often it reads the clock before.
type Meanwhile = (u32, Box<dyn FnOnce() + Send>);

/// A clock whose reader is suspended after one reading, while others go on.
#[derive(Default)]
struct SuspendingClock {
    clock: ManualClock,
    meanwhile: Mutex<Option<Meanwhile>>,
}

// === impl Loss ===

impl Loss {
    /// Makes the store lose the state of `charge`'s key.
    fn happen<C: Clock>(self, store: &Memory<C>, charge: &Charge<'_>) {
        let Loss::Displaced = self else {
            let peek = Charge {
                cost: Cost::Peek(1),
                ..*charge
            };
            assert_eq!(store.check(&peek).unwrap().remaining(), COUNT);
            return;
        };
        let limit = Limit::token_bucket(1, Span::DAY).unwrap();
        for number in 0..FLOOD {
            let other = Charge::new(store.key_of(&number), &limit, Cost::ONE);
            assert!(store.check(&other).unwrap().is_allowed());
        }
    }
}

// === impl SuspendingClock ===

impl Clock for SuspendingClock {
    fn now(&self) -> Now {
        let now = self.clock.now();
        let meanwhile = self.meanwhile.lock().unwrap().take();
        match meanwhile {
            Some((0, go_on)) => go_on(),
            Some((readings, later)) => {
                *self.meanwhile.lock().unwrap() = Some((readings - 1, later));
            }
            None => {}
        }
        now
    }
}

/// The smallest store there is.
fn small_store<C: Clock>(clock: C) -> Memory<C> {
    let keys = RandomKeys::with_secret(1, 2);
    Memory::builder()
        .max_keys(10)
        .keys(keys)
        .clock(clock)
        .build()
}

/// How many of twice as many requests as fit are allowed.
fn allowed<C: Clock>(store: &Memory<C>, charge: &Charge<'_>) -> u32 {
    let is_allowed = |_: &u32| store.check(charge).unwrap().is_allowed();
    (0..2 * COUNT).filter(is_allowed).map(|_| 1).sum()
}

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

/// While a batch goes on, all that it could consume before a window's end is consumed, and lost
/// when the window has ended: its own reading of the clock does not bring that window back.
#[test]
fn a_batch_does_not_consume_again_what_has_expired_meanwhile() {
    for (limit, loss) in
        limits().flat_map(|limit| [Loss::Cleared, Loss::Displaced].map(|loss| (limit, loss)))
    {
        let store = small_store(ManualClock::at(END - Span::from_millis(5)));
        let keys = [store.key_of("before"), store.key_of("one")];
        let charge = |key| Charge::new(key, &limit, Cost::ONE);
        assert_eq!(allowed(&store, &charge(keys[1])), COUNT);
        let mut answers = Vec::new();
        store.check_each(keys, charge, |key, answer| {
            answers.push(answer.unwrap().is_allowed());
            if key == keys[0] {
                store.clock().set(Now::at(LATER));
                loss.happen(&store, &charge(keys[1]));
            }
        });
        assert_eq!(answers, [true, true], "{limit:?}, {loss:?}");
        let left = allowed(&store, &charge(keys[1]));
        assert_eq!(left, COUNT - 1, "{limit:?}, {loss:?}");
    }
}

/// As in a batch, when a thread is suspended after it has read the clock.
#[test]
fn a_suspended_decision_does_not_consume_again_what_has_expired_meanwhile() {
    for (limit, loss) in
        limits().flat_map(|limit| [Loss::Cleared, Loss::Displaced].map(|loss| (limit, loss)))
    {
        let store = Arc::new(small_store(SuspendingClock::default()));
        let key = store.key_of("one");
        let set = |moment| store.clock().clock.set(Now::at(moment));
        if let Loss::Cleared = loss {
            // The key has a slot with nothing in it, and was denied before.
            set(END - WINDOW - WINDOW - WINDOW);
            let charge = Charge::new(key, &limit, Cost::ONE);
            assert_eq!(allowed(&store, &charge), COUNT);
            set(END - Span::from_nanos(1));
            loss.happen(&store, &charge);
        }
        set(END - Span::from_nanos(1));
        let meanwhile = spend_and_lose(Arc::clone(&store), key, limit, loss);
        *store.clock().meanwhile.lock().unwrap() = Some((0, Box::new(meanwhile)));
        let charge = Charge::new(key, &limit, Cost::ONE);
        let is_allowed = store.check(&charge).unwrap().is_allowed();
        let left = allowed(&store, &charge);
        assert_eq!(u32::from(is_allowed) + left, COUNT, "{limit:?}, {loss:?}");
    }
}

/// Two new keys: suspended at the latest moment before they are locked.
#[test]
fn a_suspended_request_does_not_consume_again_what_has_expired_meanwhile() {
    for limit in limits() {
        let store = Arc::new(small_store(SuspendingClock::default()));
        let keys = [store.key_of("one"), store.key_of("other")];
        store.clock().clock.set(Now::at(END - Span::from_nanos(1)));
        // States of one word are decided on without a lock first, by a reading of its own.
        let readings = match limit.algorithm() {
            Algorithm::SlidingWindow(segments) if segments != Segments::ONE => 1,
            Algorithm::SlidingLog | Algorithm::FixedWindow(Anchor::FirstRequest) => 1,
            _ => 2,
        };
        let meanwhile = spend_and_lose(Arc::clone(&store), keys[1], limit, Loss::Displaced);
        *store.clock().meanwhile.lock().unwrap() = Some((readings, Box::new(meanwhile)));
        let charges = keys.map(|key| Charge::new(key, &limit, Cost::ONE));
        assert!(store.decide_now(&charges).unwrap().is_allowed());
        assert_eq!(store.clock().now(), Now::at(LATER), "nobody was suspended");
        assert_eq!(allowed(&store, &charges[1]), COUNT - 1, "{limit:?}");
    }
}

/// As above, where both keys have slots with nothing in them.
#[test]
fn a_suspended_request_on_cleared_keys_does_not_consume_again_what_has_expired_meanwhile() {
    for limit in limits() {
        let store = Arc::new(small_store(SuspendingClock::default()));
        let set = |moment| store.clock().clock.set(Now::at(moment));
        let keys = [store.key_of("one"), store.key_of("other")];
        let charges = keys.map(|key| Charge::new(key, &limit, Cost::ONE));
        for charge in &charges {
            set(END - WINDOW - WINDOW - WINDOW);
            assert_eq!(allowed(&store, charge), COUNT);
            set(END - Span::from_nanos(1));
            Loss::Cleared.happen(&store, charge);
        }
        let meanwhile = spend_and_lose(Arc::clone(&store), keys[1], limit, Loss::Cleared);
        *store.clock().meanwhile.lock().unwrap() = Some((0, Box::new(meanwhile)));
        assert!(store.decide_now(&charges).unwrap().is_allowed());
        assert_eq!(store.clock().now(), Now::at(LATER), "nobody was suspended");
        assert_eq!(allowed(&store, &charges[1]), COUNT - 1, "{limit:?}");
    }
}

/// What others do while a decision is suspended.
fn spend_and_lose(
    store: Arc<Memory<SuspendingClock>>,
    key: Key,
    limit: Limit,
    loss: Loss,
) -> impl FnOnce() + Send {
    move || {
        let charge = Charge::new(key, &limit, Cost::ONE);
        assert_eq!(allowed(&store, &charge), COUNT);
        store.clock().clock.set(Now::at(LATER));
        loss.happen(&store, &charge);
    }
}
