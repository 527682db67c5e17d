//! A batch of requests is decided as its requests one after the other.
#![allow(clippy::unwrap_used)]

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tollgate_behaviour::{Subject, Taste, a_batch_equals_its_requests_one_by_one};
use tollgate_core::{Charge, Key, Now, Store, Verdict};
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
