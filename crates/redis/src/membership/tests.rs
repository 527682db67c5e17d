#![allow(clippy::unwrap_used)]

use std::future::poll_fn;
use std::task::{Context, Poll};

use tollgate_core::{Charge, Cost, Key, KeyHasher, Limit, Mode, Sharing};
use tollgate_testbed as testbed;

use super::*;
use crate::config::{Config, SYNC_INTERVAL_MAX};
use crate::store::Redis;

async fn try_to_beat(store: &Redis, lasts: Span) -> Result<Option<u32>, NodeFailure> {
    let Membership { member, router, .. } = store.membership();
    member.beat(router, lasts).await
}

fn stores(count: usize, config: &Config) -> Vec<Redis> {
    let config = Config {
        timeout: Span::from_secs(20),
        ..config.clone()
    };
    let connect = |_| {
        let store = Redis::connect(&config).unwrap();
        store.membership().join();
        store
    };
    (0..count).map(connect).collect()
}

/// How many members Redis counts.
async fn beat(store: &Redis, lasts: Span) -> u32 {
    let counted = try_to_beat(store, lasts).await;
    counted.ok().flatten().unwrap()
}

/// Stores that have sent one heartbeat and send no more of their own.
async fn silent_stores(count: usize, redis: &testbed::Redis) -> Vec<Redis> {
    let stores = stores(count, &Config::single(redis.address()));
    for store in &stores {
        let member = &store.membership().member;
        member.has_left.store(true, Ordering::Relaxed);
        beat(store, EXPIRES_AFTER).await;
    }
    stores
}

async fn counted(config: &Config) {
    let stores = stores(3, config);
    for store in &stores {
        beat(store, EXPIRES_AFTER).await;
    }
    for store in &stores {
        assert_eq!(beat(store, EXPIRES_AFTER).await, 3);
        assert_eq!(store.instances(), 3);
    }
    stores[1].close().await;
    assert_eq!(beat(&stores[0], EXPIRES_AFTER).await, 2);
    assert_eq!(beat(&stores[2], EXPIRES_AFTER).await, 2);
    // Another prefix has its own members.
    let elsewhere = Config {
        prefix: "elsewhere:".to_owned(),
        timeout: Span::from_secs(20),
        ..config.clone()
    };
    let alone = Redis::connect(&elsewhere).unwrap();
    assert_eq!(beat(&alone, EXPIRES_AFTER).await, 1);
}

#[tokio::test]
async fn each_store_counts_until_it_is_closed() {
    let redis = testbed::Redis::start();
    counted(&Config::single(redis.address())).await;
    let lives: i64 = redis.ask(&["PTTL", "tg:{nodes}"]).parse().unwrap();
    assert!((1..=3_000).contains(&lives), "{lives}");
}

#[tokio::test]
async fn in_a_cluster_as_well() {
    let cluster = testbed::Cluster::start();
    counted(&Config::cluster(cluster.addresses())).await;
}

/// The reports to a node that is away are tried until the store gives up.
#[tokio::test]
async fn a_store_that_cannot_report_everything_leaves_at_once() {
    let cluster = testbed::Cluster::start();
    let config = Config {
        sync_interval: SYNC_INTERVAL_MAX,
        ..Config::cluster(cluster.addresses())
    };
    let stores = stores(2, &config);
    for store in &stores {
        beat(store, EXPIRES_AFTER).await;
    }
    let members = cluster.master_of(keys::slot_of(TAG));
    let key = |name: u8| stores[0].key([&b"test"[..], b"", &[name]].into_iter());
    let node = |key: Key| cluster.master_of(keys::slot(key));
    let is_elsewhere = |key: &Key| node(*key).port() != members.port();
    let key = (0..u8::MAX).map(key).find(is_elsewhere).unwrap();
    let limit = Limit::fixed_window(100, Span::DAY).unwrap();
    let charge = Charge::new(key, &limit, Cost::ONE);
    let charge = charge.shared(Sharing::in_mode(Mode::WriteBack));
    while stores[0].counts().write_back_decisions == 0 {
        assert!(stores[0].decide(&[charge]).await.unwrap().is_allowed());
    }
    node(key).kill();
    while stores[0].is_up() {
        tokio::task::yield_now().await;
    }
    let mut closing = Box::pin(stores[0].close());
    while beat(&stores[1], EXPIRES_AFTER).await > 1 {
        let poll = |context: &mut Context<'_>| Poll::Ready(closing.as_mut().poll(context));
        assert!(
            poll_fn(poll).await.is_pending(),
            "it has waited for the reports"
        );
    }
}

/// A heartbeat is about to be sent when the store closes.
#[tokio::test]
async fn a_heartbeat_does_not_undo_that_its_instance_leaves() {
    let redis = testbed::Redis::start();
    let stores = stores(2, &Config::single(redis.address()));
    beat(&stores[1], EXPIRES_AFTER).await;
    let beating = stores[0].membership().member.beating.lock().await;
    let mut closing = Box::pin(stores[0].close());
    let poll = |context: &mut Context<'_>| Poll::Ready(closing.as_mut().poll(context));
    assert!(poll_fn(poll).await.is_pending());
    assert_eq!(beat(&stores[0], EXPIRES_AFTER).await, 2);
    drop(beating);
    closing.await;
    assert_eq!(beat(&stores[1], EXPIRES_AFTER).await, 1);
}

#[tokio::test]
async fn a_silent_node_expires() {
    let redis = testbed::Redis::start();
    let stores = silent_stores(2, &redis).await;
    assert_eq!(beat(&stores[0], EXPIRES_AFTER).await, 2);
    let heard = redis.ask(&["TIME"]);
    while redis.ask(&["TIME"]) == heard {}
    sleep(Duration::from_millis(3)).await;
    assert_eq!(beat(&stores[0], Span::from_millis(1)).await, 1);
    // As does one of the future, from before the clock was set back.
    redis.ask(&["ZADD", "tg:{nodes}", "9999999999999", "somebody"]);
    assert_eq!(beat(&stores[0], EXPIRES_AFTER).await, 1);
}

#[tokio::test]
async fn a_redis_that_came_back_empty_makes_no_share_larger() {
    let redis = testbed::Redis::start();
    let stores = silent_stores(3, &redis).await;
    for store in &stores {
        assert_eq!(beat(store, EXPIRES_AFTER).await, 3);
    }
    redis.ask(&["FLUSHALL"]);
    for (store, counted) in stores.iter().zip(1..) {
        assert_eq!(beat(store, EXPIRES_AFTER).await, counted);
        assert_eq!(store.instances(), 3);
    }
}

#[test]
fn a_smaller_count_takes_effect_once_it_has_lasted() {
    let start = Instant::now();
    let second = |number| start + Duration::from_secs(number);
    let mut counted = Counted::default();
    let mut count = |count, at| {
        counted.apply(count, second(at));
        counted.count
    };
    assert_eq!(count(1, 0), 1);
    assert_eq!(count(3, 0), 3);
    assert_eq!([0, 1, 2].map(|at| count(1, at)), [3; 3]);
    assert_eq!(count(1, 3), 1);
    // The most of those seen meanwhile.
    assert_eq!(count(9, 4), 9);
    let growing = [(1, 5), (2, 6), (5, 7)];
    assert_eq!(growing.map(|(members, at)| count(members, at)), [9; 3]);
    assert_eq!(count(4, 8), 5);
    // Another outage interrupts it.
    assert_eq!(count(1, 9), 5);
    counted.fewer = None;
    counted.apply(1, second(12));
    assert_eq!(counted.count, 5);
}

#[tokio::test]
async fn while_redis_is_away_the_last_count_stands() {
    let redis = testbed::Redis::start();
    let config = Config::single(redis.address());
    let instances = stores(3, &config);
    let unconnected = Redis::connect(&Config::single("127.0.0.1:1")).unwrap();
    assert_eq!(unconnected.instances(), 1);
    for store in &instances {
        beat(store, EXPIRES_AFTER).await;
    }
    assert_eq!(beat(&instances[0], EXPIRES_AFTER).await, 3);
    redis.kill();
    assert!(try_to_beat(&instances[0], EXPIRES_AFTER).await.is_err());
    assert_eq!(instances[0].instances(), 3);
}
