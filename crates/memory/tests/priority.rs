//! Threads with and without priority on one key.
#![allow(clippy::unwrap_used)]

use std::sync::Barrier;
use std::thread;

use tollgate_behaviour::algorithms;
use tollgate_core::{Charge, Cost, Limit, LimitHistory, Moment, Now, Span};
use tollgate_memory::{ManualClock, Memory};

/// Far from the end of any day or segment of one.
const NOON: Moment = Moment::from_nanos(1_763_730_000_000_000_001);
const COUNT: u32 = 100;
const KEPT: u32 = 20;
const THREADS: usize = 2;

fn store() -> Memory<ManualClock> {
    let clock = ManualClock::default();
    clock.set(Now::at(NOON));
    Memory::builder().clock(clock).max_keys(1_000).build()
}

/// A limit of each algorithm that wins nothing back while a test runs.
fn limits() -> impl Iterator<Item = Limit> {
    algorithms().into_iter().map(|algorithm| {
        let limit = Limit::new(algorithm, COUNT, Span::DAY).unwrap();
        limit.with_priority_share(20).unwrap()
    })
}

/// How many units several threads get at once, each of which asks for as many as there are.
fn spend(store: &Memory<ManualClock>, key: &str, limits: &[Limit]) -> Vec<u32> {
    let start = Barrier::new(THREADS * limits.len());
    let spend = |limit: &Limit| {
        start.wait();
        let charge = Charge::new(store.key_of(key), limit, Cost::ONE);
        let asks = (0..COUNT).map(|_| store.check(&charge).unwrap());
        asks.map(|decision| u32::from(decision.is_allowed()))
            .sum::<u32>()
    };
    thread::scope(|scope| {
        let threads = limits.iter().flat_map(|limit| {
            let spend = &spend;
            (0..THREADS).map(move |_| scope.spawn(move || spend(limit)))
        });
        let threads: Vec<_> = threads.collect();
        let units: Vec<u32> = threads.into_iter().map(|one| one.join().unwrap()).collect();
        units
            .chunks(THREADS)
            .map(|each| each.iter().sum())
            .collect()
    })
}

#[test]
fn threads_without_priority_leave_the_share_to_the_unit() {
    for limit in limits() {
        let store = store();
        assert_eq!(spend(&store, "only", &[limit]), [COUNT - KEPT], "{limit}");
        let priority = spend(&store, "only", &[limit.for_priority()]);
        assert_eq!(priority, [KEPT], "{limit}");
    }
}

#[test]
fn threads_of_both_priorities_get_the_limit_to_the_unit() {
    for limit in limits() {
        for round in 0..20 {
            let store = store();
            let both = spend(&store, "only", &[limit, limit.for_priority()]);
            assert_eq!(both.iter().sum::<u32>(), COUNT, "{round} of {limit}");
            assert!(both[0] <= COUNT - KEPT, "{both:?} in {round} of {limit}");
        }
    }
}

/// Requests of two versions of a rule, with a share and without one, and of either priority.
#[test]
fn a_share_that_a_reload_adds_holds_at_once_and_keeps_what_was_used() {
    for limit in limits() {
        let store = store();
        let before = Limit::new(limit.algorithm(), COUNT, Span::DAY).unwrap();
        let history = LimitHistory::default().and(before);
        let key = store.key_of("only");
        let old = Charge::new(key, &before, Cost::Take(70));
        assert!(store.check(&old).unwrap().is_allowed());
        let priority = limit.for_priority();
        let under = |limit, cost| Charge {
            history: &history,
            ..Charge::new(key, limit, cost)
        };
        let ask = |limit, cost| store.check(&under(limit, cost)).unwrap();
        assert_eq!(ask(&limit, Cost::Peek(1)).remaining(), 10, "{limit}");
        assert!(!ask(&limit, Cost::Take(11)).is_allowed(), "{limit}");
        assert!(ask(&limit, Cost::Take(10)).is_allowed(), "{limit}");
        assert_eq!(ask(&priority, Cost::Take(15)).remaining(), 5, "{limit}");
        // Decisions under the older rule, which knows of no share, convert nothing.
        let old = Charge::new(key, &before, Cost::ONE);
        assert!(store.check(&old).is_err(), "{limit}");
        assert_eq!(ask(&priority, Cost::Peek(1)).remaining(), 5, "{limit}");
    }
}
