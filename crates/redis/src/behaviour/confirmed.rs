//! Confirmations that fail in one slot, and whose outcome is unknown in another.

use std::future::poll_fn;
use std::task::Poll;

use tollgate_behaviour::{Subject, Taste};
use tollgate_core::{Charge, Cost, Key, Limit, Span, StoreError};
use tollgate_testbed as testbed;

use super::Driven;
use crate::config::{Config, InvalidConfig};
use crate::keys;
use crate::store::under_test::TimedRedis;

/// The timeout of a decision whose confirmation is to be too late.
const TIMEOUT: Span = Span::from_millis(500);
/// The timeout of one whose confirmation fails: longer than any check of the servers.
const LONG_TIMEOUT: Span = Span::from_secs(30);
/// Keys to choose from: some are in the first and in the last third of the slots.
const NAMES: u32 = 100;
/// How often to retry until Redis replies, each time with [`TIMEOUT`].
const TRIES: usize = 100;
/// The ends of the first and of the second third.
const THIRDS: [u16; 2] = [5_000, 11_000];

/// A key of the first third and one of the last, in this order in a commit.
fn keys_far_apart(subject: &mut Driven) -> [Key; 2] {
    let keys: Vec<Key> = (0..NAMES)
        .map(|name| subject.key(&name.to_string()))
        .collect();
    let find = |holds: &dyn Fn(u16) -> bool| {
        let found = keys.iter().find(|key| holds(keys::slot(**key)));
        *found.expect("there are many keys")
    };
    [
        find(&|slot| slot < THIRDS[0]),
        find(&|slot| slot > THIRDS[1]),
    ]
}

/// If a decision charged nothing in one slot, and its outcome in another is unknown, its outcome is
/// unknown: its caller gets that error.
#[test]
fn one_fails_and_one_is_lost() {
    let (error, remaining) = trouble_at_the_confirmation(TIMEOUT, TimedRedis::connect, |masters| {
        masters[0].ask(&["CONFIG", "SET", "maxmemory", "1"]);
        masters[1].ask(&["CLIENT", "PAUSE", "60000", "WRITE"]);
    });
    assert_eq!(remaining, 9, "it was charged: {error}");
    assert!(matches!(error, StoreError::TimedOut { .. }), "{error}");
}

/// Units charged in one slot are refunded when another one cannot charge: nothing is charged.
#[test]
fn one_fails_and_the_other_takes_it_back() {
    for connect in [TimedRedis::connect, TimedRedis::connect_at_once] {
        let (error, remaining) = trouble_at_the_confirmation(LONG_TIMEOUT, connect, |masters| {
            masters[0].ask(&["CONFIG", "SET", "maxmemory", "1"]);
        });
        assert_eq!(remaining, 10, "it was given back: {error}");
        assert!(matches!(error, StoreError::Unreachable { .. }), "{error}");
    }
}

/// Takes a unit of a key in each of two slots, whose primaries fail once both have reserved, or
/// charged; returns the error, and what remains of the second key.
fn trouble_at_the_confirmation(
    timeout: Span,
    connect: fn(&Config) -> Result<TimedRedis, InvalidConfig>,
    trouble: impl Fn([&testbed::Redis; 2]),
) -> (StoreError, u32) {
    let cluster = testbed::Cluster::start();
    let config = Config::cluster(cluster.addresses());
    let mut subject = Driven {
        crosses_slots: true,
        ..Driven::new(&config)
    };
    let config = Config { timeout, ..config };
    subject.store = {
        let _inside = subject.runtime.enter();
        connect(&config).expect("the config is valid")
    };
    let limit = Limit::fixed_window(10, Span::HOUR).expect("an hour is a window");
    let keys = keys_far_apart(&mut subject);
    let charges = keys.map(|key| Charge::new(key, &limit, Cost::ONE));
    let peeks = keys.map(|key| Charge::new(key, &limit, Cost::Peek(1)));
    let now = Taste::MICROSECONDS.start;
    subject.store.set_now(now.monotonic.as_nanos() / 1_000);
    // The connections are open, and the scripts are loaded.
    let peek = |peeks: &[Charge<'_>]| subject.runtime.block_on(subject.store.decide(peeks)).ok();
    assert!((0..TRIES).any(|_| peek(&peeks).is_some()));
    let masters = keys.map(|key| cluster.master_of(keys::slot(key)));
    let names = keys.map(|key| subject.store.name_of(key));
    let error = subject.runtime.block_on(async {
        let mut asking = Box::pin(subject.store.decide(&charges));
        loop {
            let once = poll_fn(|context| Poll::Ready(asking.as_mut().poll(context)));
            assert!(once.await.is_pending(), "nothing is confirmed yet");
            // No further step until both slots have reserved, and each has failed.
            let is_reserved = |place: usize| masters[place].ask(&["EXISTS", &names[place]]) == "1";
            if is_reserved(0) && is_reserved(1) {
                break;
            }
            tokio::task::yield_now().await;
        }
        trouble(masters);
        asking.await.expect_err("nothing can be confirmed")
    });
    masters[1].ask(&["CLIENT", "UNPAUSE"]);
    let snapshot = (0..TRIES).find_map(|_| peek(&peeks[1..]));
    let remaining = snapshot.expect("it answers again").decisions[0].remaining();
    (error, remaining)
}
