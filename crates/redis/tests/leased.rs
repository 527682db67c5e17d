//! Leased units: few calls, and never more than the limit.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_core::{Charge, Cost, Key, KeyHasher, Limit, Mode, Sharing, Span};
use tollgate_redis::{Config, LEASE_LASTS, Redis};
use tollgate_testbed as testbed;

const INSTANCES: usize = 4;
const TASKS: usize = 8;

fn instance(address: String) -> Arc<Redis> {
    let config = Config {
        timeout: Span::from_secs(10),
        ..Config::single(address)
    };
    Arc::new(Redis::connect(&config).unwrap())
}

fn key(store: &Redis) -> Key {
    store.key([&b"leased"[..], b"", b"hot"].into_iter())
}

/// Units of the busiest key, in leased mode.
fn leased<'l>(store: &Redis, limit: &'l Limit, cost: Cost) -> Charge<'l> {
    Charge::new(key(store), limit, cost).shared(Sharing::in_mode(Mode::Leased))
}

/// How many units several instances are allowed in this time, with requests as fast as possible.
async fn spent(instances: &[Arc<Redis>], limit: Limit, lasts: Duration) -> u64 {
    let end = Instant::now() + lasts;
    let mut tasks = JoinSet::new();
    for store in instances {
        for _ in 0..TASKS {
            let store = Arc::clone(store);
            tasks.spawn(async move {
                let charge = leased(&store, &limit, Cost::ONE);
                let mut allowed = 0;
                while Instant::now() < end {
                    let verdict = store.decide(&[charge]).await.unwrap();
                    allowed += u64::from(verdict.is_allowed());
                    tokio::task::yield_now().await;
                }
                allowed
            });
        }
    }
    tasks.join_all().await.into_iter().sum()
}

async fn counted(store: &Redis, limit: &Limit) -> u64 {
    let peek = leased(store, limit, Cost::Peek(1));
    let verdict = store.decide(&[peek]).await.unwrap();
    u64::from(limit.capacity() - verdict.decisions[0].remaining())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_instances_spend_exactly_the_limit() {
    let redis = testbed::Redis::start();
    let instances: Vec<_> = (0..INSTANCES).map(|_| instance(redis.address())).collect();
    let limit = Limit::fixed_window(20_000, Span::HOUR.times(testbed::window_hours())).unwrap();
    assert_eq!(
        spent(&instances, limit, Duration::from_secs(4)).await,
        20_000
    );
    let leased: u64 = instances
        .iter()
        .map(|instance| instance.counts().lease_decisions)
        .sum();
    let asked: u64 = instances
        .iter()
        .map(|instance| instance.counts().requests)
        .sum();
    assert!(
        leased > 15_000,
        "{leased} decisions on leased units, {asked} questions"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_never_allows_too_much() {
    let redis = testbed::Redis::start();
    let instances: Vec<_> = (0..INSTANCES).map(|_| instance(redis.address())).collect();
    let limit = Limit::token_bucket(1_000, Span::SECOND)
        .unwrap()
        .with_burst(500)
        .unwrap();
    let start = Instant::now();
    let allowed = spent(&instances, limit, Duration::from_secs(3)).await;
    let most = 500 + u64::try_from(start.elapsed().as_millis()).unwrap() + 1;
    assert!(allowed <= most, "{allowed} of at most {most}");
    // Most units are used, although some are leased and unused at one of the instances.
    assert!(allowed >= most / 2, "{allowed} of at most {most}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_goes_back() {
    let redis = testbed::Redis::start();
    let limit = Limit::fixed_window(1_000, Span::HOUR.times(testbed::window_hours())).unwrap();
    let (idle, closed) = (instance(redis.address()), instance(redis.address()));
    let watcher = Redis::connect(&Config {
        timeout: Span::from_secs(10),
        ..Config::single(redis.address())
    });
    let watcher = watcher.unwrap();
    for _ in 0..20 {
        for store in [&idle, &closed] {
            let charge = leased(store, &limit, Cost::ONE);
            assert!(store.decide(&[charge]).await.unwrap().is_allowed());
        }
    }
    assert!(
        counted(&watcher, &limit).await > 40,
        "leased units count as consumed"
    );
    closed.close().await;
    while idle.counts().leases_returned == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(counted(&watcher, &limit).await, 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_instance_held_is_charged() {
    let redis = testbed::Redis::start();
    let bucket = Limit::token_bucket(1_000, Span::DAY).unwrap();
    let window = Limit::fixed_window(1_000, Span::HOUR.times(testbed::window_hours())).unwrap();
    for limit in [bucket, window] {
        redis.ask(&["FLUSHALL"]);
        let store = instance(redis.address());
        let charge = leased(&store, &limit, Cost::ONE);
        for _ in 0..20 {
            assert!(store.decide(&[charge]).await.unwrap().is_allowed());
        }
        let watcher = instance(redis.address());
        let held = counted(&watcher, &limit).await;
        assert!(held > 20, "{held}");
        drop(store);
        // The lease expires, and all of it is charged as of that time.
        tokio::time::sleep(Duration::from(LEASE_LASTS) + Duration::from_millis(100)).await;
        assert_eq!(counted(&watcher, &limit).await, held, "{limit:?}");
    }
}

#[tokio::test]
async fn a_check_is_a_decision_without_a_list() {
    let redis = testbed::Redis::start();
    let store = instance(redis.address());
    let limit = Limit::fixed_window(500, Span::HOUR.times(testbed::window_hours())).unwrap();
    let mut allowed = 0;
    for _ in 0..600 {
        let charge = leased(&store, &limit, Cost::ONE);
        allowed += u32::from(store.check(&charge).await.unwrap().is_allowed());
    }
    assert_eq!(allowed, 500);
    assert!(store.counts().lease_decisions > 100);
}

/// A bucket with a demand far above its rate: each instance requests each refilled unit once, and
/// nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_saturated_bucket_is_asked_for_what_comes_back() {
    const EACH: u64 = 10_000;
    let redis = testbed::Redis::start();
    for count in [1, 3] {
        let instances: Vec<_> = (0..count).map(|_| instance(redis.address())).collect();
        let limit = Limit::token_bucket(1_250, Span::SECOND)
            .unwrap()
            .with_burst(400 + u32::try_from(count).unwrap())
            .unwrap();
        let mut tasks = JoinSet::new();
        for store in &instances {
            for _ in 0..4 {
                let store = Arc::clone(store);
                tasks.spawn(async move {
                    let charge = leased(&store, &limit, Cost::ONE);
                    let mut allowed = 0;
                    for _ in 0..EACH {
                        let verdict = store.decide(&[charge]).await.unwrap();
                        allowed += u64::from(verdict.is_allowed());
                        tokio::task::yield_now().await;
                    }
                    allowed
                });
            }
        }
        let allowed: u64 = tasks.join_all().await.into_iter().sum();
        let asked: u64 = instances
            .iter()
            .map(|instance| instance.counts().requests)
            .sum();
        let count = u64::try_from(count).unwrap();
        let decisions = 4 * EACH * count;
        println!(
            "{count} instances: {asked} questions for {decisions} decisions, {allowed} allowed"
        );
        // Beside those units, a lease is tried twice a second, and some replies overtake others.
        let denied = decisions - allowed;
        assert!(
            asked <= count * allowed + denied / 4 + 100,
            "{asked} questions, {allowed} allowed, {denied} denied"
        );
        for store in instances {
            store.close().await;
        }
    }
}
