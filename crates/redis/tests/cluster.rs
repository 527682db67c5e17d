//! A changing Cluster: the topology is refreshed with and without requests.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate_core::{
    Charge, Cost, InspectStore, Key, KeyHasher, Limit, NewReservation, SettledCharge, SharedStore,
    Span, Store,
};
use tollgate_redis::{Config, Redis};
use tollgate_testbed as testbed;

/// Longer than any reply takes in these tests.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long after a failover the store is up: less than the 30 seconds between two refreshes while
/// all is well.
const NOTICED_WITHIN: Duration = Duration::from_secs(15);
/// Enough keys that some are in each third of the slots.
const KEYS: u8 = 64;

fn key(store: &Redis, number: u8) -> Key {
    store.key([&b"cluster"[..], b"", &[number]].into_iter())
}

/// Decides until it succeeds.
async fn decides(store: &Redis, key: Key) {
    let limit = Limit::token_bucket(1_000, Span::HOUR).unwrap();
    let charge = Charge::new(key, &limit, Cost::ONE);
    let latest = Instant::now() + REPLY_TIMEOUT;
    while let Err(error) = store.decide(&[charge]).await {
        assert!(Instant::now() < latest, "{error}");
        sleep(Duration::from_millis(1)).await;
    }
}

async fn all_decide(store: &Redis) {
    for number in 0..KEYS {
        decides(store, key(store, number)).await;
    }
}

async fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let latest = Instant::now() + REPLY_TIMEOUT;
    while !holds() {
        assert!(Instant::now() < latest, "{what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// The topology is refreshed without requests: while a primary is down, and when its replica has
/// taken over.
#[tokio::test]
async fn an_idle_store_is_up_again_after_a_failover() {
    is_up_again_after_a_failover(false).await;
}

/// Requests for the slots of other primaries succeed all the time, and say nothing of this one.
#[tokio::test]
async fn a_store_that_is_asked_for_other_slots_is_up_again_after_a_failover() {
    is_up_again_after_a_failover(true).await;
}

async fn is_up_again_after_a_failover(asks_others: bool) {
    let cluster = testbed::Cluster::start();
    let store = Redis::connect(&Config::cluster(cluster.addresses())).unwrap();
    all_decide(&store).await;
    assert!(store.is_up(), "{:?}", store.trouble());
    let dead = cluster.master_of(0);
    let former = dead.port();
    dead.kill();
    wait_until("the dead master is not noticed", || !store.is_up()).await;
    let other = match asks_others {
        true => Some(a_served_key(&store).await),
        false => None,
    };
    let serves = |cluster: &testbed::Cluster| {
        let node = cluster.server_of(0);
        node.is_some_and(|node| node.port() != former)
    };
    wait_until("no replica takes over", || serves(&cluster)).await;
    let latest = Instant::now() + NOTICED_WITHIN;
    while !store.is_up() {
        assert!(Instant::now() < latest, "the failover is not noticed");
        if let Some(other) = other {
            decides(&store, other).await;
        }
        sleep(Duration::from_millis(5)).await;
    }
    all_decide(&store).await;
}

/// With `cluster-require-full-coverage no`, the other slots are still served.
#[tokio::test]
async fn slots_that_no_node_serves_are_reported() {
    let cluster = testbed::Cluster::start();
    for node in cluster.nodes() {
        node.ask(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    let store = Redis::connect(&Config::cluster(cluster.addresses())).unwrap();
    all_decide(&store).await;
    wait_until("it is not up", || store.is_up()).await;
    let limit = Limit::token_bucket(1_000, Span::HOUR).unwrap();
    let unserved = key(&store, 0);
    let slot = slot_of(&cluster, &store, unserved);
    let (owner, slot) = (cluster.master_of(slot), slot.to_string());
    // First where it is served: a node learns of the slots of others.
    for node in [owner].into_iter().chain(cluster.nodes()) {
        node.ask(&["CLUSTER", "DELSLOTS", &slot]);
    }
    let charge = Charge::new(unserved, &limit, Cost::ONE);
    let error = store.decide(&[charge]).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("CLUSTERDOWN"), "{source}");
    let codes: Vec<_> = store.error_replies().iter().map(|one| one.code).collect();
    assert_eq!(codes, ["CLUSTERDOWN"]);
    wait_until("it is up", || !store.is_up()).await;
    let reason = format!("cluster: slot {slot} is served by no node");
    assert_eq!(store.trouble(), Some(reason));
    // One attempt for each request, not eight.
    let before = store.counts().redirections;
    assert!(store.decide(&[charge]).await.is_err());
    assert_eq!(store.counts().redirections, before);
    let served = a_served_key(&store).await;
    decides(&store, served).await;
    owner.ask(&["CLUSTER", "ADDSLOTS", &slot]);
    wait_until("it is not up again", || store.is_up()).await;
    decides(&store, unserved).await;
    assert_eq!(store.trouble(), None);
}

/// A key whose primary is there.
async fn a_served_key(store: &Redis) -> Key {
    let limit = Limit::token_bucket(1_000, Span::HOUR).unwrap();
    for number in 0..KEYS {
        let key = key(store, number);
        let charge = Charge::new(key, &limit, Cost::ONE);
        if store.decide(&[charge]).await.is_ok() {
            return key;
        }
    }
    panic!("no primary is there");
}

/// A seed that is first in every order, and at which nothing listens.
const DEAD: &str = "127.0.0.1:1";

/// One seed is dead, which may be the first that is asked: nothing listens there, or it accepts
/// connections and never replies. The other one serves decisions and operators.
///
/// On one thread, as in `tollgate keys`: no connection has failed yet when the first command comes.
#[tokio::test]
async fn a_dead_seed_does_not_matter() {
    let cluster = testbed::Cluster::start();
    let [live, other] = [0, 1].map(|index| cluster.nodes()[index].address());
    let stalled = testbed::Proxy::to(&other);
    stalled.set(testbed::Faults {
        stalled: true,
        ..testbed::Faults::default()
    });
    let limit = Limit::token_bucket(1_000, Span::HOUR).unwrap();
    for dead in [DEAD.to_owned(), stalled.address()] {
        for seeds in [[dead.clone(), live.clone()], [live.clone(), dead.clone()]] {
            // Long enough on a busy machine.
            let config = Config {
                timeout: Span::from_secs(3),
                ..Config::cluster(seeds.to_vec())
            };
            for number in 0..8 {
                // An operator's command comes before anything is known of the Cluster.
                let store = Redis::connect(&config).unwrap();
                let peek = Charge::new(key(&store, number), &limit, Cost::Peek(1));
                let state = store.inspect(&peek).await.unwrap();
                assert_eq!(state.decision.remaining(), 1_000, "{seeds:?}");
            }
            let store = Redis::connect(&config).unwrap();
            wait_until("the live seed is not found", || store.is_up()).await;
            all_decide(&store).await;
            assert!(store.is_up(), "{:?}", store.trouble());
            for number in 0..KEYS {
                assert!(store.reset(key(&store, number)).await.unwrap());
            }
        }
    }
}

/// Nodes that do not know their own address redirect to a port of the host that was asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirection_without_a_host_leads_to_the_same_host() {
    let cluster = testbed::Cluster::start();
    for node in cluster.nodes() {
        node.ask(&[
            "CONFIG",
            "SET",
            "cluster-preferred-endpoint-type",
            "unknown-endpoint",
        ]);
    }
    let config = Config {
        timeout: Span::from_secs(10),
        ..Config::cluster(vec![cluster.nodes()[0].address()])
    };
    let store = Redis::connect(&config).unwrap();
    all_decide(&store).await;
    let slot = |number| slot_of(&cluster, &store, key(&store, number));
    // Keys in the first slots of the first primary, which are the slots that move.
    let from = cluster.master_of(0);
    let to = cluster.master_of(16_383);
    let moved = (0..KEYS).filter(|number| slot(*number) < 2_000);
    let moved: Vec<u8> = moved.collect();
    assert!(!moved.is_empty());
    let before = store.counts().redirections;
    tokio::task::block_in_place(|| cluster.move_slots(2_000, from, to));
    let said = from.ask(&["GET", &store.name_of(key(&store, moved[0]))]);
    let port = to.port();
    assert!(said.contains(&format!(" :{port}")), "{said}");
    // At the first attempt: after a failed one, the topology is read again.
    let limit = Limit::token_bucket(1_000, Span::HOUR).unwrap();
    for number in moved {
        let charge = Charge::new(key(&store, number), &limit, Cost::ONE);
        assert!(store.decide(&[charge]).await.unwrap().is_allowed());
    }
    assert!(store.counts().redirections > before);
}

/// While a slot migrates, requests on keys of both nodes arrive together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_a_migrating_slot_are_decided_where_they_are() {
    let cluster = testbed::Cluster::start();
    let config = Config {
        timeout: Span::from_secs(10),
        connections: 1,
        ..Config::cluster(vec![cluster.nodes()[0].address()])
    };
    let store = Redis::connect(&config).unwrap();
    let (slot, [stays, moves]) = two_keys_of_one_slot(&cluster, &store);
    let from = cluster.master_of(slot);
    let to = cluster.master_of((slot + 8_192) % 16_384);
    decides(&store, stays).await;
    begin_migration(slot, from, to);
    let limit = Limit::token_bucket(1_000, Span::HOUR).unwrap();
    for _ in 0..20 {
        let charges = [stays, moves].map(|key| [Charge::new(key, &limit, Cost::ONE)]);
        let batch: Vec<&[Charge<'_>]> = charges.iter().map(|one| &one[..]).collect();
        for decided in store.decide_batch(&batch).await {
            assert!(decided.unwrap().is_allowed());
        }
    }
    // Each where it is.
    let has = |node: &testbed::Redis, key| node.ask(&["EXISTS", &store.name_of(key)]);
    assert_eq!(has(from, stays), "1");
    assert!(has(from, moves).contains("ASK"), "{}", has(from, moves));
}

/// From now on the slot's keys are to be moved: those that exist are served by `from`.
fn begin_migration(slot: u16, from: &testbed::Redis, to: &testbed::Redis) {
    let (id_from, id_to) = (from.ask(&["CLUSTER", "MYID"]), to.ask(&["CLUSTER", "MYID"]));
    let set = |node: &testbed::Redis, what, id: &str| {
        let said = node.ask(&["CLUSTER", "SETSLOT", &slot.to_string(), what, id]);
        assert_eq!(said, "OK");
    };
    set(to, "IMPORTING", &id_from);
    set(from, "MIGRATING", &id_to);
}

/// A call settles reservations in one slot and makes one in another slot, which migrates: its node
/// can create no key in it. All of the call fails, and its requests are sent again.
#[tokio::test]
async fn a_reservation_in_a_migrating_slot_loses_no_settlement_in_the_same_call() {
    let cluster = testbed::Cluster::start();
    let config = Config {
        timeout: Span::from_secs(2),
        connections: 1,
        ..Config::cluster(vec![cluster.nodes()[0].address()])
    };
    let store = Arc::new(Redis::connect(&config).unwrap());
    let (from, to) = (cluster.master_of(0), cluster.master_of(16_383));
    let slot = |key| slot_of(&cluster, &store, key);
    let keys: Vec<Key> = (0..KEYS).map(|number| key(&store, number)).collect();
    let is_served = |key: &&Key| cluster.master_of(slot(**key)).port() == from.port();
    let mut served = keys.iter().filter(is_served);
    let settled = *served.next().unwrap();
    let moves = *served.find(|key| slot(**key) != slot(settled)).unwrap();
    decides(&store, moves).await;
    let limit = Limit::fixed_window(1_000, Span::HOUR).unwrap();
    let mut records = Vec::new();
    // One would be lost in half of all runs: the order of a script's writes is arbitrary.
    for secret in 0..16 {
        let charge = Charge::new(settled, &limit, Cost::Take(10));
        let reserved = store.reserve(&[charge], &new(secret)).await.unwrap();
        records.push(reserved.reservation.unwrap());
    }
    begin_migration(slot(moves), from, to);
    // Tasks, so that all are queued before the connection sends any.
    let settling = records.into_iter().map(|record| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let charge = Charge::new(settled, &limit, Cost::Take(1));
            let line = SettledCharge { line: 0, charge };
            store.settle_reservation(record, &[line]).await
        })
    });
    let settling: Vec<_> = settling.collect();
    let splits = store.counts().split_calls;
    let charge = Charge::new(moves, &limit, Cost::Take(10));
    let reserved = store.reserve(&[charge], &new(99)).await;
    assert!(reserved.unwrap().reservation.is_some());
    assert_eq!(store.counts().split_calls, splits + 1);
    for settled in settling {
        let settled = settled.await.unwrap().unwrap();
        assert_eq!(settled.map(|lines| lines[0].charged), Some(1));
    }
    let peek = Charge::new(settled, &limit, Cost::Peek(1));
    let verdict = store.decide(&[peek]).await.unwrap();
    assert_eq!(verdict.decisions[0].remaining(), 1_000 - 16);
}

const fn new(secret: u128) -> NewReservation<'static> {
    NewReservation {
        secret,
        lifetime: Span::HOUR,
        memo: b"",
    }
}

fn slot_of(cluster: &testbed::Cluster, store: &Redis, key: Key) -> u16 {
    let name = store.name_of(key);
    let slot = cluster.nodes()[0].ask(&["CLUSTER", "KEYSLOT", &name]);
    slot.trim().parse().unwrap()
}

/// Two keys with the same slot.
fn two_keys_of_one_slot(cluster: &testbed::Cluster, store: &Redis) -> (u16, [Key; 2]) {
    let mut known = std::collections::HashMap::new();
    for number in 0..2_000_u16 {
        let key = store.key([&b"cluster"[..], &number.to_le_bytes()].into_iter());
        let slot = slot_of(cluster, store, key);
        if let Some(other) = known.insert(slot, key) {
            return (slot, [other, key]);
        }
    }
    panic!("two thousand keys have slots of their own");
}
