//! Reservations that the process settles itself, each descriptor with its own cost.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tollgate_behaviour::{Random, check};
use tollgate_core::{Clock, Cost, Descriptor, Mode, Request, Settlement, Span, StoreError};
use tollgate_engine::{AnyShared, Engine, OwnedReservation, SettledLimit, Stores};
use tollgate_memory::{ManualClock, Memory};

use super::slow_store::{Account, SlowStore};
use super::{Bench, request};

const RULES: &str = "- {key: a, rate_limit: 100/hour}\n- {key: b, rate_limit: 200/hour}\n\
    - {key: shadow, shadow_mode: true, rate_limit: 10/hour}\n- {key: free, rate_limit: {unlimited: \
    true}}\n";

/// A request whose descriptors have these keys and costs.
fn costing<'r>(costs: &[(&'r str, u64)]) -> Request<'r> {
    let keys: Vec<&str> = costs.iter().map(|(key, _)| *key).collect();
    let request = request(&keys, Cost::ONE);
    let descriptors = request.descriptors.into_iter().zip(costs);
    Request {
        descriptors: descriptors
            .map(|(descriptor, (_, cost))| Descriptor {
                cost: Some(Cost::Take(*cost)),
                ..descriptor
            })
            .collect(),
        ..request
    }
}

async fn reserve(engine: &Engine, costs: &[(&str, u64)]) -> Option<OwnedReservation> {
    let (decided, owned) = engine.reserve_owned(&costing(costs)).await.unwrap();
    assert_eq!(decided.answer.is_allowed(), owned.is_some());
    owned
}

/// What each limit was charged, and what remains.
fn settlements(settled: Result<Vec<SettledLimit>, StoreError>) -> Vec<(u64, u32)> {
    let settled = settled.unwrap().into_iter();
    let settled = settled.filter_map(|limit| limit.settlement);
    settled
        .map(
            |Settlement {
                 charged, remaining, ..
             }| (charged, remaining),
        )
        .collect()
}

/// The same engine over memory, and over a shared store that keeps reservations.
pub(super) fn benches() -> [(Bench, Option<Arc<Mutex<Account>>>); 2] {
    let memory = Bench::with(RULES);
    let slow = SlowStore::new(memory_at(&manual_clock()));
    let account = Arc::clone(&slow.account);
    let shared = Bench::over(AnyShared::new("Slow", slow));
    [(memory, None), (shared, Some(account))]
}

fn manual_clock() -> Arc<ManualClock> {
    let clock = Arc::new(ManualClock::default());
    clock.advance(Span::DAY);
    clock
}

fn memory_at(clock: &Arc<ManualClock>) -> Memory<Arc<dyn Clock>> {
    let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(clock);
    Memory::builder().max_keys(1_000).clock(clock).build()
}

// === impl Bench ===

impl Bench {
    /// With these rules over a shared store.
    fn over(shared: AnyShared) -> Bench {
        let clock = manual_clock();
        let stores = Stores::new(memory_at(&clock)).with_default(shared);
        let engine = Engine::new(stores);
        let bench = Bench { engine, clock };
        bench.reload(RULES);
        bench
    }
}

#[tokio::test]
async fn each_descriptor_is_settled_to_its_own_cost() {
    for (bench, _) in benches() {
        let engine = &bench.engine;
        // `none` has no rule, and `shadow` would have denied: neither was charged.
        let costs = [
            ("none", 7),
            ("a", 30),
            ("free", 1),
            ("shadow", 11),
            ("b", 5),
        ];
        let owned = reserve(engine, &costs).await.unwrap();
        assert_eq!(bench.remaining("a").await, 70);
        let actual = |descriptor| [99, 10, 99, 99, 5][descriptor];
        let settled = engine.settle_owned(owned, actual).await;
        assert_eq!(settlements(settled), [(10, 90), (5, 195)]);
        assert_eq!(bench.remaining("shadow").await, 10);
        let owned = reserve(engine, &[("a", 1), ("b", 1)]).await.unwrap();
        let settled = engine.settle_owned(owned, |_| u64::MAX).await;
        assert_eq!(settlements(settled), [(90, 0), (195, 0)]);
        assert!(reserve(engine, &[("a", 1), ("b", 1)]).await.is_none());
        assert_eq!(engine.reservation_counts().0, 0);
    }
}

#[tokio::test]
async fn descriptors_that_meet_on_a_counter_are_added_up() {
    let server = tollgate_testbed::Redis::start();
    let mut config = tollgate_redis::Config::single(server.address());
    config.timeout = Span::from_secs(10);
    let redis = tollgate_redis::Redis::connect(&config).unwrap();
    let over_redis = Bench::over(AnyShared::new("Redis", redis));
    for bench in [Bench::with(RULES), over_redis] {
        let owned = reserve(
            &bench.engine,
            &[("a", 10), ("shadow", 11), ("a", 3), ("b", 1)],
        )
        .await;
        assert_eq!(bench.remaining("a").await, 87);
        let actual = |descriptor| [0, 9, 3, 1][descriptor];
        let settled = bench.engine.settle_owned(owned.unwrap(), actual).await;
        assert_eq!(settlements(settled), [(3, 97), (1, 199)]);
        let owned = reserve(&bench.engine, &[("b", 4), ("a", 3)]).await.unwrap();
        let actual = |descriptor| [1_000, 2][descriptor];
        let settled = bench.engine.settle_owned(owned, actual).await;
        assert_eq!(settlements(settled), [(199, 0), (2, 95)]);
    }
    let kept = server.ask(&["KEYS", "*"]);
    let mut kept = kept.split_whitespace().filter(|key| key.starts_with("tg:"));
    assert!(kept.all(|key| server.ask(&["GETRANGE", key, "0", "0"]) != "R"));
}

#[tokio::test]
async fn what_is_not_settled_stays_charged() {
    for (bench, _) in benches() {
        drop(reserve(&bench.engine, &[("a", 40)]).await.unwrap());
        assert_eq!(bench.remaining("a").await, 60);
    }
}

#[tokio::test]
async fn a_rule_that_was_removed_has_nothing_to_settle() {
    for (bench, _) in benches() {
        let owned = reserve(&bench.engine, &[("a", 40), ("b", 40)]).await;
        bench.reload("- {key: b, rate_limit: 300/hour}\n");
        let settled = bench.engine.settle_owned(owned.unwrap(), |_| 0).await;
        let settled = settled.unwrap();
        assert_eq!((settled[0].reserved, settled[0].settlement), (40, None));
        assert_eq!(settlements(Ok(settled)), [(0, 300)]);
    }
}

/// A reload may give a rule to mode `write_back` while its reservations are open: the store has to
/// know that, so that no local count of the key misses the settled units.
#[tokio::test]
async fn a_settled_charge_has_the_mode_of_its_rule() {
    let [_, (bench, account)] = benches();
    let owned = reserve(&bench.engine, &[("a", 40), ("b", 40)]).await;
    let id = bench.reserve(&["a", "b"], 10).await.unwrap();
    let written_back = "{unit: hour, requests_per_unit: 100, mode: write_back}";
    bench.reload(&format!(
        "- {{key: a, rate_limit: {written_back}}}\n- {{key: b, rate_limit: 200/hour}}\n"
    ));
    let settled = bench.engine.settle_owned(owned.unwrap(), |_| 30).await;
    assert_eq!(settlements(settled), [(30, 60), (30, 160)]);
    assert_eq!(bench.settle(id, 5).await, [(5, 65), (5, 165)]);
    let modes = &account.unwrap();
    let modes = &modes.lock().unwrap().modes;
    assert_eq!(modes[..], [[Mode::WriteBack, Mode::Strict]; 2].concat());
}

/// Reserves and settles at random, and cancels each call after a random number of its steps.
/// Returns the units to which those that ended have settled.
async fn cancel_some(random: &mut Random, bench: &Bench) -> u64 {
    let mut ended = 0;
    for _ in 0..30 {
        let estimates = [random.between(0, 20), random.between(0, 20)];
        let actual = [random.between(0, 25), random.between(0, 25)];
        let steps = random.between(0, 8);
        let mut call = pin!(async {
            let costs = [("a", estimates[0]), ("b", estimates[1])];
            if let Some(owned) = reserve(&bench.engine, &costs).await {
                let settled = bench.engine.settle_owned(owned, |index| actual[index]);
                let settled = settlements(settled.await).into_iter();
                return settled.map(|(charged, _)| charged).sum();
            }
            0
        });
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..steps {
            if let Poll::Ready(settled) = call.as_mut().poll(&mut context) {
                ended += settled;
                break;
            }
        }
    }
    ended
}

#[test]
fn what_is_charged_is_what_was_settled_and_reserved_wherever_calls_are_cancelled() {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.build().unwrap();
    let mut cancelled = 0;
    check("cancelled reservations", 50, |random| {
        runtime.block_on(async {
            for (bench, account) in benches() {
                let ended = cancel_some(random, &bench).await;
                let left = [bench.remaining("a").await, bench.remaining("b").await];
                let used = 300 - u64::from(left[0]) - u64::from(left[1]);
                let Some(account) = account else {
                    // Memory has nothing to wait for: each call ends, or never began.
                    assert_eq!(used, ended);
                    continue;
                };
                let account = account.lock().unwrap();
                let settled: u64 = account.settled.iter().sum();
                assert_eq!(used, settled + account.reserved);
                cancelled += usize::from(account.reserved > 0);
            }
        });
    });
    assert!(cancelled > 0, "no call was cancelled between its steps");
}
