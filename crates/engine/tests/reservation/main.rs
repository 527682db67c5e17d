//! Reservations of the engine, in virtual time: what they charge and refund, at most once.

#![allow(clippy::unwrap_used)]

mod account;

mod owned;

mod reloaded;

mod slow_store;

use std::sync::Arc;

use tollgate_core::{
    ChargeDenied, Clock, Cost, Descriptor, Entry, Request, Settlement, Span, Status,
};
use tollgate_engine::{
    Engine, ReservationBounds, ReservationId, ReserveError, SettleError, Stores,
};
use tollgate_memory::{ManualClock, Memory};
use tollgate_rules::{Options, RuleSet, Source};

/// An engine in virtual time.
struct Bench {
    engine: Engine,
    clock: Arc<ManualClock>,
}

// === impl Bench ===

impl Bench {
    /// With the rules of the domain `d`, half an hour into a day.
    fn with(descriptors: &str) -> Bench {
        Bench::bounded(descriptors, ReservationBounds::default())
    }

    fn bounded(descriptors: &str, bounds: ReservationBounds) -> Bench {
        let clock = Arc::new(ManualClock::default());
        clock.advance(Span::DAY + Span::from_secs(1_800));
        let of_memory: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        let memory = Memory::builder().max_keys(1_000).clock(of_memory).build();
        let engine = Engine::new(Stores::new(memory)).with_reservations(bounds);
        let bench = Bench { engine, clock };
        bench.reload(descriptors);
        bench
    }

    /// Replaces the rules as a reload does.
    fn reload(&self, descriptors: &str) {
        let text = format!("domain: d\ndescriptors:\n{descriptors}");
        let source = Source::new("d.yaml", &*text);
        let loaded = RuleSet::parse(&[source], &Options::default());
        assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
        let (rules, _changes) = loaded.succeed(&self.engine.rules());
        self.engine.replace_rules(rules);
    }

    /// Reserves for these keys, each of which has the value `v`.
    async fn reserve(&self, keys: &[&str], units: u64) -> Option<ReservationId> {
        let outcome = self.engine.reserve(&request(keys, Cost::Take(units))).await;
        let (decided, receipt) = outcome.unwrap();
        let answer = &decided.answer;
        let meets_limits = answer.limited().next().is_some();
        assert_eq!(answer.is_allowed() && meets_limits, receipt.is_some());
        receipt.map(|receipt| receipt.id)
    }

    /// What each limit was settled to.
    async fn settle(&self, id: ReservationId, units: u64) -> Vec<(u64, u32)> {
        let settled = self.engine.settle(id, units).await.unwrap();
        let settlements = settled.into_iter().filter_map(|limit| limit.settlement);
        settlements
            .map(
                |Settlement {
                     charged, remaining, ..
                 }| (charged, remaining),
            )
            .collect()
    }

    async fn is_unknown(&self, id: ReservationId) -> bool {
        let settled = self.engine.settle(id, 0).await;
        matches!(settled, Err(SettleError::Unknown))
    }

    async fn remaining(&self, key: &str) -> u32 {
        let peek = request(&[key], Cost::Peek(1));
        let decided = self.engine.decide(&peek).await.unwrap();
        match &decided.answer.statuses[0] {
            Status::Limited(limited) => limited.decision.remaining(),
            status => panic!("{status:?}"),
        }
    }
}

fn request<'r>(keys: &[&'r str], cost: Cost) -> Request<'r> {
    let descriptor = |key: &&'r str| Descriptor {
        entries: vec![Entry {
            key: key.as_bytes(),
            value: b"v",
        }]
        .into(),
        ..Descriptor::default()
    };
    Request {
        domain: b"d",
        descriptors: keys.iter().map(descriptor).collect(),
        cost,
        charge_denied: ChargeDenied::Never,
    }
}

#[tokio::test]
async fn a_reservation_is_settled_once() {
    let bench = Bench::with("- {key: a, rate_limit: 100/hour}\n");
    let id = bench.reserve(&["a"], 40).await.unwrap();
    assert_eq!(bench.remaining("a").await, 60);
    assert_eq!(bench.settle(id, 15).await, [(15, 85)]);
    assert!(bench.is_unknown(id).await);
    assert_eq!(bench.remaining("a").await, 85);
    let id = bench.reserve(&["a"], 40).await.unwrap();
    assert_eq!(bench.settle(id, 1_000).await, [(85, 0)]);
    assert!(bench.reserve(&["a"], 1).await.is_none());
    assert_eq!(bench.engine.reservation_counts().0, 0);
}

#[tokio::test]
async fn a_refund_is_not_reserved() {
    let bench = Bench::with("- {key: a, rate_limit: 100/hour}\n- {key: b, rate_limit: 100/hour}\n");
    assert!(bench.reserve(&["a", "b"], 40).await.is_some());
    let mut request = request(&["a", "b"], Cost::Take(5));
    request.descriptors[1].cost = Some(Cost::Refund(5));
    let reserved = bench.engine.reserve(&request).await;
    assert!(matches!(reserved, Err(ReserveError::Refund)));
    let owned = bench.engine.reserve_owned(&request).await;
    assert!(matches!(owned, Err(ReserveError::Refund)));
    assert_eq!(bench.remaining("a").await, 60);
    assert_eq!(bench.remaining("b").await, 60);
}

#[tokio::test]
async fn every_limit_that_was_charged_is_settled() {
    let rules = "- {key: a, rate_limit: 100/hour}\n- {key: b, rate_limit: 50/minute}\n\
                 - {key: free, rate_limit: {unlimited: true}}\n";
    let bench = Bench::with(rules);
    let id = bench
        .reserve(&["a", "none", "b", "free"], 40)
        .await
        .unwrap();
    assert_eq!(bench.settle(id, 10).await, [(10, 90), (10, 40)]);
}

#[tokio::test]
async fn what_meets_no_limit_takes_no_place() {
    for (bench, _) in owned::benches() {
        assert!(bench.reserve(&["none", "free"], 40).await.is_none());
        assert_eq!(bench.engine.reservation_counts().0, 0);
        // A shadow limit that would deny is charged nothing, and is met all the same.
        assert!(bench.reserve(&["shadow"], 40).await.is_some());
    }
}

#[tokio::test]
async fn without_a_place_only_what_meets_no_limit_is_decided() {
    let bounds = ReservationBounds {
        max: 1,
        ..ReservationBounds::default()
    };
    let bench = Bench::bounded("- {key: a, rate_limit: 100/hour}\n", bounds);
    bench.reserve(&["a"], 40).await.unwrap();
    assert!(bench.reserve(&["none"], 40).await.is_none());
    let full = bench.engine.reserve(&request(&["a"], Cost::Take(1))).await;
    assert!(matches!(full, Err(ReserveError::Full { max: 1 })));
    assert_eq!(bench.remaining("a").await, 60);
}

/// The store adds up what a request charges to one counter.
#[tokio::test]
async fn descriptors_that_meet_on_a_counter_are_settled_together() {
    let bench = Bench::with("- {key: a, rate_limit: 100/hour}\n");
    let id = bench.reserve(&["a", "a"], 20).await.unwrap();
    assert_eq!(bench.remaining("a").await, 60);
    assert_eq!(bench.settle(id, 5).await, [(10, 90)]);
    let id = bench.reserve(&["a", "a"], 20).await.unwrap();
    assert_eq!(bench.settle(id, u64::MAX).await, [(90, 0)]);
}

#[tokio::test]
async fn only_limits_that_were_charged_are_refunded() {
    let rules = "- {key: a, rate_limit: 100/hour}\n\
                 - {key: shadow, shadow_mode: true, rate_limit: 50/hour}\n\
                 - {key: q1, quota_mode: true, rate_limit: 50/hour}\n\
                 - {key: q2, quota_mode: true, rate_limit: 500/hour}\n";
    let bench = Bench::with(rules);
    assert!(bench.reserve(&["shadow", "q1"], 30).await.is_some());
    // The shadow limit and the first quota would deny another 30.
    let id = bench
        .reserve(&["a", "shadow", "q1", "q2"], 30)
        .await
        .unwrap();
    assert_eq!(bench.settle(id, 0).await, [(0, 100), (0, 500)]);
    assert_eq!(bench.remaining("shadow").await, 20);
    assert_eq!(bench.remaining("q1").await, 20);
}

#[tokio::test]
async fn a_denied_request_has_no_reservation_and_its_penalty_stays() {
    let charged = "{unit: hour, requests_per_unit: 100, charge_denied: true}";
    let rules =
        format!("- {{key: a, rate_limit: 100/hour}}\n- {{key: b, rate_limit: {charged}}}\n");
    let bench = Bench::with(&rules);
    assert!(bench.reserve(&["a"], 101).await.is_none());
    assert_eq!(bench.remaining("a").await, 100);
    assert!(bench.reserve(&["b"], 101).await.is_none());
    assert_eq!(bench.remaining("b").await, 0);
    assert_eq!(bench.engine.reservation_counts().0, 0);
}

#[tokio::test]
async fn what_is_not_settled_in_time_stays_charged() {
    let bounds = ReservationBounds {
        max: 2,
        lifetime: Span::MINUTE,
    };
    let bench = Bench::bounded("- {key: a, rate_limit: 100/day}\n", bounds);
    let [early, late] = [
        bench.reserve(&["a"], 40).await.unwrap(),
        bench.reserve(&["a"], 40).await.unwrap(),
    ];
    bench.clock.advance(Span::MINUTE.minus(Span::NANOSECOND));
    assert_eq!(bench.settle(early, 0).await, [(0, 60)]);
    bench.clock.advance(Span::NANOSECOND);
    assert!(bench.is_unknown(late).await);
    assert_eq!(bench.remaining("a").await, 60);
}

#[tokio::test]
async fn more_reservations_than_there_may_be_are_an_error_and_charge_nothing() {
    let bounds = ReservationBounds {
        max: 1,
        lifetime: Span::MINUTE,
    };
    let bench = Bench::bounded("- {key: a, rate_limit: 100/day}\n", bounds);
    let ask = request(&["a"], Cost::Take(40));
    let id = bench.reserve(&["a"], 40).await.unwrap();
    let full = bench.engine.reserve(&ask).await.unwrap_err();
    assert!(matches!(full, ReserveError::Full { max: 1 }), "{full}");
    assert_eq!(bench.remaining("a").await, 60);
    assert_eq!(bench.settle(id, 40).await, [(40, 60)]);
    // A denied request leaves its place to the next one.
    assert!(bench.reserve(&["a"], 61).await.is_none());
    assert!(bench.reserve(&["a"], 60).await.is_some());
    bench.clock.advance(Span::MINUTE);
    assert_eq!(bench.engine.reservation_counts(), (0, 1));
}

#[tokio::test]
async fn a_request_that_is_cancelled_before_it_is_decided_charges_nothing() {
    let bench = Bench::with("- {key: a, rate_limit: 100/hour}\n");
    let ask = request(&["a"], Cost::Take(40));
    drop(bench.engine.reserve(&ask));
    assert_eq!(bench.engine.reservation_counts().0, 0);
    let id = bench.reserve(&["a"], 40).await.unwrap();
    drop(bench.engine.settle(id, 0));
    assert_eq!(bench.remaining("a").await, 60);
    assert_eq!(bench.settle(id, 0).await, [(0, 100)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_settle_at_once_one_does() {
    let bench = Arc::new(Bench::with("- {key: a, rate_limit: 100/hour}\n"));
    for _ in 0..200 {
        let id = bench.reserve(&["a"], 40).await.unwrap();
        let settle = || {
            let bench = Arc::clone(&bench);
            tokio::spawn(async move { bench.engine.settle(id, 0).await.is_ok() })
        };
        let tasks = [settle(), settle(), settle()];
        let mut settled = 0;
        for task in tasks {
            settled += usize::from(task.await.unwrap());
        }
        assert_eq!(settled, 1);
        assert_eq!(bench.remaining("a").await, 100);
    }
}
