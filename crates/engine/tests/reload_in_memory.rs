//! Rules that are replaced while a request is decided in memory, between its resolution and its
//! decision, and another request that is decided under the new ones meanwhile.
#![allow(clippy::unwrap_used)]

use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use tollgate_core::{ChargeDenied, Clock, Cost, Descriptor, Entry, Moment, Now, Request, Span};
use tollgate_engine::{Engine, Stores};
use tollgate_memory::Memory;
use tollgate_rules::{Loaded, Options, RuleSet, Source};

const COUNT: usize = 5;

/// A clock that replaces the rules, and has another request decided under them, when it is read.
#[derive(Default)]
struct Meddling {
    engine: OnceLock<Weak<Engine>>,
    later: Mutex<Option<RuleSet>>,
}

/// The ways to have a request decided.
#[derive(Clone, Copy, Debug)]
enum How {
    Alone,
    AtOnce,
    InBatch,
}

impl Clock for Meddling {
    fn now(&self) -> Now {
        // Unlocked at once: the other request reads the clock, too.
        let later = self
            .later
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let (Some(later), Some(engine)) = (later, self.engine.get()) {
            let engine = engine.upgrade().unwrap();
            engine.replace_rules(later);
            assert!(is_allowed(&engine, How::Alone));
        }
        Now::at(Moment::ZERO + Span::DAY)
    }
}

fn load(rate_limit: &str) -> Loaded {
    let text = format!("domain: shop\ndescriptors: [{{key: user, rate_limit: {rate_limit}}}]\n");
    let loaded = RuleSet::parse(&[Source::new("shop.yaml", text)], &Options::default());
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    loaded
}

fn request() -> Request<'static> {
    let entry = Entry {
        key: b"user",
        value: b"ann",
    };
    Request {
        domain: b"shop",
        descriptors: vec![Descriptor {
            entries: vec![entry].into(),
            ..Descriptor::default()
        }]
        .into(),
        cost: Cost::ONE,
        charge_denied: ChargeDenied::Never,
    }
}

/// What is ready at once: nothing waits for anything, since the store is in memory.
fn output<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

fn is_allowed(engine: &Engine, how: How) -> bool {
    let requests = [request()];
    match how {
        How::Alone => {
            let decided = output(engine.decide(&requests[0]));
            decided.unwrap().answer.is_allowed()
        }
        How::AtOnce => {
            let mut allowed = None;
            assert!(engine.decide_at_once(&requests, |_, decided| {
                allowed = Some(decided.unwrap().answer.is_allowed());
            }));
            allowed.unwrap()
        }
        How::InBatch => {
            let decided = output(engine.decide_batch(&requests));
            decided[0].as_ref().unwrap().answer.is_allowed()
        }
    }
}

#[test]
fn a_decision_that_began_under_older_rules_charges_the_state_of_the_new_ones() {
    let algorithms = ["token_bucket", "sliding_log"];
    for (to, how) in algorithms
        .into_iter()
        .flat_map(|to| [How::Alone, How::AtOnce, How::InBatch].map(|how| (to, how)))
    {
        let clock = Arc::new(Meddling::default());
        let read: Arc<dyn Clock> = Arc::<Meddling>::clone(&clock);
        let memory = Memory::builder().max_keys(100).clock(read).build();
        let engine = Arc::new(Engine::new(Stores::new(memory)));
        let first = load("5/day").rules;
        engine.replace_rules(first.clone());
        clock.engine.set(Arc::downgrade(&engine)).unwrap();
        assert!(is_allowed(&engine, how));
        let later = load(&format!(
            "{{unit: day, requests_per_unit: 5, algorithm: {to}}}"
        ));
        *clock.later.lock().unwrap() = Some(later.succeed(&first).0);
        assert!(is_allowed(&engine, how), "{to} {how:?}");
        // Before the change, during it, and after: each of the three counts.
        let rest = (0..2 * COUNT).filter(|_| is_allowed(&engine, how)).count();
        assert_eq!(rest, COUNT - 3, "{to} {how:?}");
    }
}
