//! A decision in memory allocates nothing of its own: no list, no text and no map.
#![allow(clippy::unwrap_used)]

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use allocation_counter::measure;
use tollgate_core::{ChargeDenied, Clock, Cost, Descriptor, Entry, Moment, Now, Request, Span};
use tollgate_engine::{Decided, Engine, Stores};
use tollgate_memory::Memory;
use tollgate_rules::{Options, RuleSet, Source};

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {name: a name that is too long to be kept inline, requests_per_unit: 4, unit: day}
  - {key: path, rate_limit: {requests_per_unit: 99, unit: hour, algorithm: token_bucket}}
  - {key: outer, descriptors: [{key: inner, rate_limit: 1000/day}]}
";
/// More than the limit of `user` allows.
const TURNS: usize = 10;

struct Still;

impl Clock for Still {
    fn now(&self) -> Now {
        Now::at(Moment::ZERO + Span::DAY)
    }
}

fn engine() -> Engine {
    let loaded = RuleSet::parse(&[Source::new("shop.yaml", RULES)], &Options::default());
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    let clock: Arc<dyn Clock> = Arc::new(Still);
    let memory = Memory::builder().max_keys(1_000).clock(clock);
    let engine = Engine::new(Stores::new(memory.build()));
    engine.replace_rules(loaded.rules);
    engine
}

fn descriptor(entries: &[(&'static str, &'static str)]) -> Descriptor<'static> {
    let entries = entries.iter().map(|(key, value)| Entry {
        key: key.as_bytes(),
        value: value.as_bytes(),
    });
    Descriptor {
        entries: entries.collect(),
        ..Descriptor::default()
    }
}

fn request(descriptors: Vec<Descriptor<'static>>) -> Request<'static> {
    Request {
        domain: b"shop",
        descriptors: descriptors.into_iter().collect(),
        cost: Cost::ONE,
        charge_denied: ChargeDenied::Never,
    }
}

fn decide(engine: &Engine, request: &Request<'_>) -> Decided {
    let mut decided = pin!(engine.decide(request));
    match decided
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(decided) => decided.unwrap(),
        Poll::Pending => panic!("nothing waits in memory"),
    }
}

#[test]
fn a_decision_on_a_warm_key_allocates_nothing() {
    let (user, path) = (
        descriptor(&[("user", "ann")]),
        descriptor(&[("path", "/a")]),
    );
    let nested = descriptor(&[("outer", "a"), ("inner", "b")]);
    let requests = [
        request(vec![user.clone()]),
        request(vec![user.clone(), path.clone()]),
        request(vec![nested.clone(), path]),
        request(vec![descriptor(&[("unknown", "a")])]),
    ];
    for (number, request) in requests.iter().enumerate() {
        let engine = engine();
        // The key is inserted.
        let _warm = decide(&engine, request);
        for turn in 1..TURNS {
            let mut is_allowed = false;
            let decide = || is_allowed = decide(&engine, request).answer.is_allowed();
            let counted = measure(decide);
            let what = format!("request {number} in turn {turn}, allowed: {is_allowed}");
            assert_eq!(counted.count_total, 0, "{what}");
            // The first of the rules is the smallest.
            assert_eq!(is_allowed, number > 1 || turn < 4, "{what}");
        }
    }
}

#[test]
fn decisions_at_once_allocate_nothing() {
    let engine = engine();
    let user = || descriptor(&[("user", "ann")]);
    let path = descriptor(&[("path", "/a")]);
    let requests = [request(vec![user()]), request(vec![user(), path])];
    for turn in 0..TURNS {
        let mut answers = 0;
        let counted = measure(|| {
            assert!(engine.decide_at_once(&requests, |_, decided| {
                answers += usize::from(decided.is_ok());
            }));
        });
        assert_eq!((counted.count_total, answers), (0, 2), "in turn {turn}");
    }
}
