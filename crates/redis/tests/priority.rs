//! Requests with and without priority, concurrently and on several instances, in every mode.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tokio::task::JoinSet;
use tollgate_behaviour::algorithms;
use tollgate_core::{
    Charge, Cost, Key, KeyHasher, Limit, LimitHistory, Mode, Sharing, Span, Store,
};
use tollgate_redis::{Config, Redis};
use tollgate_testbed as testbed;

const COUNT: u32 = 200;
const KEPT: u32 = 40;
const MODES: [Mode; 3] = [Mode::Strict, Mode::Leased, Mode::WriteBack];
/// Instances, each of which gets requests with and without priority.
const INSTANCES: usize = 2;

fn instance(config: Config) -> Arc<Redis> {
    let config = Config {
        timeout: Span::from_secs(20),
        ..config
    };
    Arc::new(Redis::connect(&config).unwrap())
}

fn key(store: &Redis, name: &str) -> Key {
    store.key([&b"priority"[..], b"", name.as_bytes()].into_iter())
}

/// How many units are allowed of more concurrent requests than the keys have units for.
async fn spend(stores: &[Arc<Redis>], names: &[String], limits: &[Limit], mode: Mode) -> Vec<u32> {
    let mut tasks = JoinSet::new();
    for (index, limit) in limits.iter().copied().enumerate() {
        for store in stores {
            let (store, names) = (Arc::clone(store), names.to_vec());
            tasks.spawn(async move {
                let charge = |name: &String| {
                    let charge = Charge::new(key(&store, name), &limit, Cost::ONE);
                    charge.shared(Sharing::in_mode(mode))
                };
                let charges: Vec<_> = names.iter().map(charge).collect();
                let mut allowed = 0;
                for _ in 0..COUNT {
                    let verdict = Store::decide(&*store, &charges).await.unwrap();
                    allowed += u32::from(verdict.is_allowed());
                }
                (index, allowed)
            });
        }
    }
    let mut sums = vec![0; limits.len()];
    for (index, allowed) in tasks.join_all().await {
        sums[index] += allowed;
    }
    sums
}

/// Requests without priority leave the share, and those with priority use it.
async fn keeps_the_share(config: impl Fn() -> Config, names: &[&str], modes: &[Mode]) {
    let stores: Vec<_> = (0..INSTANCES).map(|_| instance(config())).collect();
    for mode in modes.iter().copied() {
        for algorithm in algorithms() {
            let limit = Limit::new(algorithm, COUNT, Span::DAY).unwrap();
            let limit = limit.with_priority_share(20).unwrap();
            let named = |kind| {
                let names = names.iter();
                let names = names.map(move |name| format!("{name} {kind} {mode} {algorithm:?}"));
                names.collect::<Vec<_>>()
            };
            let alone = named("alone");
            let without = spend(&stores, &alone, &[limit], mode).await;
            assert_eq!(without, [COUNT - KEPT], "{mode}: {limit}");
            // The instances have just denied the key, and it is in their denial caches.
            let with = spend(&stores, &alone, &[limit.for_priority()], mode).await;
            assert_eq!(with, [KEPT], "{mode}: {limit}");
            let limits = [limit, limit.for_priority()];
            let both = spend(&stores, &named("both"), &limits, mode).await;
            assert_eq!(both.iter().sum::<u32>(), COUNT, "{mode}: {limit}");
            assert!(both[0] <= COUNT - KEPT, "{mode}: {both:?} of {limit}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_keep_the_share_in_every_mode() {
    let redis = testbed::Redis::start();
    keeps_the_share(|| Config::single(redis.address()), &["only"], &MODES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_keep_the_share_of_two_limits_over_several_slots() {
    let cluster = testbed::Cluster::start();
    let config = || Config::cluster(cluster.addresses());
    keeps_the_share(config, &["one", "two", "three"], &[Mode::Strict]).await;
}

/// A reload adds the share while an instance has leased units, which are returned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_share_that_a_reload_adds_ends_leases() {
    let redis = testbed::Redis::start();
    let store = instance(Config::single(redis.address()));
    let before = Limit::token_bucket(10_000, Span::DAY).unwrap();
    let after = before.with_priority_share(20).unwrap();
    let history = LimitHistory::default().and(before);
    let key = key(&store, "leased");
    let sharing = Sharing::in_mode(Mode::Leased);
    let mut used = 0;
    while store.counts().leases_held == 0 {
        let charge = Charge::new(key, &before, Cost::ONE).shared(sharing);
        let verdict = Store::decide(&*store, &[charge]).await.unwrap();
        used += u32::from(verdict.is_allowed());
    }
    let ask = |limit, cost| {
        let charge = Charge {
            history: &history,
            ..Charge::new(key, limit, cost).shared(sharing)
        };
        let store = Arc::clone(&store);
        async move { Store::decide(&*store, &[charge]).await.unwrap().decisions[0] }
    };
    assert!(ask(&after, Cost::ONE).await.is_allowed());
    let left = 8_000 - used - 1;
    assert_eq!(ask(&after, Cost::Peek(1)).await.remaining(), left);
    assert!(!ask(&after, Cost::from(left + 1)).await.is_allowed());
    let priority = after.for_priority();
    let all = ask(&priority, Cost::from(left + 2_000)).await;
    assert_eq!((all.is_allowed(), all.remaining()), (true, 0));
    assert_eq!(store.counts().leases_held, 0);
}
