//! What Redis has stored for a key: inspected, and reset.
#![allow(clippy::unwrap_used)]

use tollgate_core::{
    Charge, Cost, HeldUnits, InspectStore, Key, KeyHasher, KeyState, Limit, Mode, Sharing, Span,
};
use tollgate_redis::{Config, LEASE_LASTS, Redis, Servers};
use tollgate_testbed as testbed;

fn store(servers: Servers) -> Redis {
    let config = Config {
        timeout: Span::from_secs(10),
        ..Config::new(servers)
    };
    Redis::connect(&config).unwrap()
}

fn single(redis: &testbed::Redis) -> Redis {
    store(Servers::Single(redis.address()))
}

fn key(store: &Redis, value: &str) -> Key {
    store.key([&b"rule"[..], b"inspect", value.as_bytes()].into_iter())
}

fn limits() -> Vec<Limit> {
    vec![
        Limit::fixed_window(10, Span::DAY).unwrap(),
        Limit::sliding_window(10, Span::DAY, 6).unwrap(),
        Limit::sliding_log(10, Span::DAY).unwrap(),
        Limit::token_bucket(10, Span::DAY).unwrap(),
        Limit::leaky_bucket(10, Span::DAY).unwrap(),
    ]
}

/// The state before anything is charged, after seven units, and after a reset.
async fn seen_charged_and_reset(store: &Redis) {
    for (index, limit) in limits().iter().enumerate() {
        let key = key(store, &index.to_string());
        let peek = Charge::new(key, limit, Cost::Peek(1));
        let fresh = store.inspect(&peek).await.unwrap();
        assert_eq!((fresh.bytes, fresh.expires), (0, None), "{limit}");
        assert_eq!(fresh.decision.remaining(), 10, "{limit}");
        let charge = Charge::new(key, limit, Cost::Take(7));
        assert!(store.decide(&[charge]).await.unwrap().is_allowed());
        for _ in 0..3 {
            let held = store.inspect(&charge).await.unwrap();
            assert!(held.bytes > 0, "{limit}");
            let expires = held.expires.unwrap();
            assert!(
                expires > Span::ZERO && expires <= Span::DAY.times(2),
                "{limit}: {expires}"
            );
            assert_eq!(
                held.decision.remaining(),
                3,
                "{limit}: looking charges nothing"
            );
            assert!(
                !held.decision.is_allowed(),
                "{limit}: seven more do not fit"
            );
            let one = store.inspect(&peek).await.unwrap();
            assert!(one.decision.is_allowed(), "{limit}: one more does");
            assert_eq!(
                (held.leased, held.reserved),
                (HeldUnits::default(), HeldUnits::default())
            );
        }
        assert!(store.reset(key).await.unwrap(), "{limit}");
        assert!(!store.reset(key).await.unwrap(), "{limit}: nothing is left");
        assert_eq!(store.inspect(&peek).await.unwrap().bytes, 0, "{limit}");
        assert!(
            store.decide(&[charge]).await.unwrap().is_allowed(),
            "{limit}"
        );
    }
}

#[tokio::test]
async fn one_server() {
    let redis = testbed::Redis::start();
    seen_charged_and_reset(&single(&redis)).await;
}

/// Every key is read from the node that serves its slot.
#[tokio::test]
async fn a_cluster() {
    let cluster = testbed::Cluster::start();
    let store = store(Servers::Cluster(cluster.addresses()));
    seen_charged_and_reset(&store).await;
}

/// The slot is migrating, and the node that imports it has all keys that the first one lacks.
#[tokio::test]
async fn a_key_whose_slot_moves_is_followed() {
    let cluster = testbed::Cluster::start();
    let store = store(Servers::Cluster(cluster.addresses()));
    let (key, limit) = (key(&store, "moving"), limits()[0]);
    let slot = cluster.nodes()[0].ask(&["CLUSTER", "KEYSLOT", &store.name_of(key)]);
    let slot = slot.trim();
    let from = cluster.server_of(slot.parse().unwrap()).unwrap();
    let mut nodes = cluster.nodes().iter();
    let is_master = |node: &&testbed::Redis| node.ask(&["ROLE"]).starts_with("master");
    let to = nodes.find(|node| node.port() != from.port() && is_master(node));
    let to = to.unwrap();
    let id = |node: &testbed::Redis| node.ask(&["CLUSTER", "MYID"]).trim().to_owned();
    let set = |node: &testbed::Redis, words: &[&str]| {
        let said = node.ask(&[&["CLUSTER", "SETSLOT", slot], words].concat());
        assert_eq!(said.trim(), "OK");
    };
    set(to, &["IMPORTING", &id(from)]);
    set(from, &["MIGRATING", &id(to)]);
    let charge = Charge::new(key, &limit, Cost::Take(7));
    assert!(store.decide(&[charge]).await.unwrap().is_allowed());
    assert_eq!(
        store.inspect(&charge).await.unwrap().decision.remaining(),
        3
    );
    set(to, &["NODE", &id(to)]);
    set(from, &["NODE", &id(to)]);
    assert_eq!(
        store.inspect(&charge).await.unwrap().decision.remaining(),
        3
    );
    assert!(store.reset(key).await.unwrap());
}

/// Inspecting a key under another limit, as with rules that are not in effect, does not change its
/// state.
#[tokio::test]
async fn looking_changes_nothing() {
    let redis = testbed::Redis::start();
    let store = single(&redis);
    let mut others = limits();
    others.extend([
        Limit::fixed_window(3, Span::DAY).unwrap(),
        Limit::token_bucket(3, Span::HOUR).unwrap(),
        Limit::sliding_log(3, Span::MINUTE).unwrap(),
        Limit::sliding_window(2, Span::HOUR, 4).unwrap(),
    ]);
    for (index, limit) in limits().iter().enumerate() {
        let key = key(&store, &index.to_string());
        for _ in 0..7 {
            let one = Charge::new(key, limit, Cost::ONE);
            assert!(store.decide(&[one]).await.unwrap().is_allowed());
        }
        let name = store.name_of(key);
        let state = || {
            let text = "return { redis.sha1hex(redis.call('GET', KEYS[1])), \
                redis.call('PEXPIRETIME', KEYS[1]) }";
            redis.ask(&["EVAL", text, "1", &name])
        };
        let before = state();
        assert!(!before.contains("ERR"), "{before}");
        for other in &others {
            let held = store
                .inspect(&Charge::new(key, other, Cost::ONE))
                .await
                .unwrap();
            let expected = 10_u32.min(other.capacity()).saturating_sub(7);
            assert_eq!(held.decision.remaining(), expected, "{limit} under {other}");
            assert_eq!(state(), before, "{limit} under {other}");
        }
    }
}

#[tokio::test]
async fn a_name_is_the_one_in_redis() {
    let redis = testbed::Redis::start();
    let store = single(&redis);
    let (key, limit) = (key(&store, "secret"), limits()[0]);
    let charge = Charge::new(key, &limit, Cost::ONE);
    let _allowed = store.decide(&[charge]).await.unwrap();
    let names = redis.ask(&["KEYS", "*"]);
    assert_eq!(names.trim(), store.name_of(key));
    assert!(names.starts_with("tg:{"), "{names}");
}

#[tokio::test]
async fn a_denial_that_is_remembered_here_is_dropped_by_a_reset() {
    let redis = testbed::Redis::start();
    let store = single(&redis);
    let (key, limit) = (key(&store, "hot"), limits()[0]);
    let charge = Charge::new(key, &limit, Cost::Take(10));
    assert!(store.decide(&[charge]).await.unwrap().is_allowed());
    assert!(!store.decide(&[charge]).await.unwrap().is_allowed());
    assert!(!store.inspect(&charge).await.unwrap().decision.is_allowed());
    assert!(store.reset(key).await.unwrap());
    assert!(store.decide(&[charge]).await.unwrap().is_allowed());
}

#[tokio::test]
async fn what_instances_have_leased_is_shown() {
    let redis = testbed::Redis::start();
    let (instance, looker) = (single(&redis), single(&redis));
    let limit = Limit::fixed_window(1_000, Span::DAY).unwrap();
    let charge = Charge {
        sharing: Sharing::in_mode(Mode::Leased),
        ..Charge::new(key(&instance, "warm"), &limit, Cost::ONE)
    };
    while instance.counts().lease_decisions == 0 {
        let _allowed = instance.decide(&[charge]).await.unwrap();
    }
    let held: KeyState = looker.inspect(&charge).await.unwrap();
    assert_eq!(held.leased.holders, 1, "{held:?}");
    assert!(held.leased.units > 1, "{held:?}");
    assert!(
        held.leased.ends > Span::ZERO && held.leased.ends <= LEASE_LASTS,
        "{held:?}"
    );
    let all = u64::from(held.decision.remaining()) + held.leased.units;
    assert!(
        all < 1_000,
        "what was consumed and what is leased is gone: {held:?}"
    );
    instance.close().await;
    let held = looker.inspect(&charge).await.unwrap();
    assert_eq!(held.leased, HeldUnits::default());
}

#[tokio::test]
async fn without_redis_it_is_an_error_in_time() {
    let nowhere = Config {
        timeout: Span::from_millis(50),
        ..Config::single("127.0.0.1:1")
    };
    let store = Redis::connect(&nowhere).unwrap();
    let (key, limit) = (key(&store, "x"), limits()[0]);
    let charge = Charge::new(key, &limit, Cost::ONE);
    assert!(store.inspect(&charge).await.is_err());
    assert!(store.reset(key).await.is_err());
}
