//! A batch of requests is decided as its requests one after the other.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tollgate_behaviour::{Subject, Taste, a_batch_equals_its_requests_one_by_one};
use tollgate_core::{Charge, Cost, Key, Limit, Moment, Now, Span, Store, Verdict};
use tollgate_memory::{ManualClock, Memory};

struct InProcess(Memory<ManualClock>);

impl Subject for InProcess {
    fn key(&mut self, name: &str) -> Key {
        self.0.key_of(name)
    }

    fn decide(&mut self, now: Now, charges: &[Charge<'_>]) -> Verdict {
        self.0.decide_at(now, charges).unwrap()
    }
}

fn decide(subject: &mut InProcess, now: Now, batch: &[&[Charge<'_>]]) -> Vec<Verdict> {
    subject.0.clock().set(now);
    let deciding = pin!(subject.0.decide_batch(batch));
    match deciding.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(decided) => decided.into_iter().map(Result::unwrap).collect(),
        Poll::Pending => panic!("memory waits for nothing"),
    }
}

#[test]
fn a_batch_equals_its_requests() {
    let fresh = || {
        let builder = Memory::builder().clock(ManualClock::default());
        InProcess(builder.max_keys(1_000).build())
    };
    for taste in [Taste::SMALL, Taste::EXTREME] {
        a_batch_equals_its_requests_one_by_one(&taste, 150, fresh, decide);
    }
}

/// A batch reads the clock once. An entry of a log that another thread has dropped meanwhile, at a
/// later moment, does not count; so the new one is of that moment or later, not of the reading.
#[test]
fn a_log_is_charged_no_earlier_than_its_entries_were_dropped() {
    let store = Memory::builder().clock(ManualClock::default()).build();
    let log = Limit::sliding_log(2, Span::from_secs(10)).unwrap();
    let key = store.key_of(&"a");
    let at = |millis| Now::at(Moment::ZERO + Span::from_millis(millis));
    let remaining = |millis| {
        let peek = Charge::new(key, &log, Cost::Peek(1));
        store.check_at(at(millis), &peek).unwrap().remaining()
    };
    for millis in [60_000, 65_000] {
        let charge = Charge::new(key, &log, Cost::ONE);
        assert!(store.check_at(at(millis), &charge).unwrap().is_allowed());
    }
    store.clock().set(at(69_999));
    let asked = Cell::new(0);
    let charge = |()| {
        asked.set(asked.get() + 1);
        if asked.get() == 2 {
            // What another thread does between the reading and the decision.
            store.clock().set(at(70_000));
            let two = Charge::new(key, &log, Cost::Take(2));
            assert!(!store.check(&two).unwrap().is_allowed());
        }
        Charge::new(key, &log, Cost::ONE)
    };
    store.check_each([()], charge, |(), answer| {
        assert!(answer.unwrap().is_allowed())
    });
    assert_eq!(asked.get(), 2);
    assert_eq!(remaining(79_999), 1);
    assert_eq!(remaining(80_000), 2);
}
