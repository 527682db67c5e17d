//! A Redis that answers, and does not do what it is asked: it is not there as far as decisions are
//! concerned, all callers get the reason, and it is used again as soon as it decides.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate_core::{
    Charge, Cost, InspectStore, Key, KeyHasher, Limit, Span, StoreError, StoreEvent,
};
use tollgate_redis::{CONNECTIONS, Config, Redis, Secret};
use tollgate_testbed as testbed;

/// Longer than anything takes here.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);

/// Requests wait until Redis replies, however busy this machine is: what opens the breaker here is
/// what Redis says, never that it was slow.
fn config(redis: &testbed::Redis) -> Config {
    Config {
        timeout: REPLY_TIMEOUT.into(),
        ..Config::single(redis.address())
    }
}

fn limit() -> Limit {
    Limit::token_bucket(1_000, Span::HOUR).unwrap()
}

fn key(store: &Redis, number: usize) -> Key {
    store.key([&b"error"[..], b"", &number.to_le_bytes()].into_iter())
}

/// Asks until Redis is said to be away; the codes and texts of what belongs into the log.
async fn until_away(store: &Redis) -> Vec<(&'static str, String)> {
    let (limit, latest) = (limit(), Instant::now() + REPLY_TIMEOUT);
    let mut number = 0;
    while store.is_up() {
        number += 1;
        let charge = Charge::new(key(store, number), &limit, Cost::ONE);
        let _answer = store.decide(&[charge]).await;
        assert!(Instant::now() < latest, "it is still up");
        sleep(Duration::from_millis(1)).await;
    }
    let reply = store.events().into_iter().filter_map(|event| match event {
        StoreEvent::ErrorReplies { code, text, .. } => Some((code, text)),
        _ => None,
    });
    reply.collect()
}

/// Waits until Redis is said to be there, without asking anything.
async fn until_up(store: &Redis) {
    let latest = Instant::now() + REPLY_TIMEOUT;
    while !store.is_up() {
        assert!(Instant::now() < latest, "{:?}", store.trouble());
        sleep(Duration::from_millis(1)).await;
    }
}

async fn decides(store: &Redis) {
    let limit = limit();
    let charge = Charge::new(key(store, 0), &limit, Cost::ONE);
    let latest = Instant::now() + REPLY_TIMEOUT;
    while store.decide(&[charge]).await.is_err() {
        assert!(Instant::now() < latest, "it does not decide");
        sleep(Duration::from_millis(1)).await;
    }
}

/// What goes wrong, its code, and how it is mended: commands of `redis-cli`.
type Fault = (
    &'static [&'static str],
    &'static str,
    &'static [&'static str],
);

#[tokio::test]
async fn error_replies_open_the_breaker_and_are_reported() {
    const FAULTS: [Fault; 4] = [
        (
            &["CONFIG", "SET", "maxmemory", "1"],
            "OOM",
            &["CONFIG", "SET", "maxmemory", "0"],
        ),
        (
            &["CONFIG", "SET", "min-replicas-to-write", "1"],
            "NOREPLICAS",
            &["CONFIG", "SET", "min-replicas-to-write", "0"],
        ),
        (
            &["ACL", "SETUSER", "default", "-evalsha"],
            "NOPERM",
            &["ACL", "SETUSER", "default", "+evalsha"],
        ),
        (
            &["ACL", "SETUSER", "default", "resetkeys", "~other:*"],
            "NOPERM",
            &["ACL", "SETUSER", "default", "~*"],
        ),
    ];
    let redis = testbed::Redis::start();
    for fault in FAULTS {
        is_reported(&redis, fault).await;
    }
}

/// A disk on which nothing can be saved.
#[tokio::test]
async fn a_server_that_cannot_save_is_reported() {
    let setup = testbed::Setup::with(&["--dir", "/proc", "--save", "3600 1"]);
    let redis = testbed::Redis::start_with(&setup);
    let remedy = &["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"];
    is_reported(&redis, (&["BGSAVE"], "MISCONF", remedy)).await;
}

/// Whatever it held may be outdated: it says so itself, before anybody asks for its role.
#[tokio::test]
async fn a_replica_without_its_primary_is_reported() {
    let redis = testbed::Redis::start();
    redis.ask(&["CONFIG", "SET", "replica-serve-stale-data", "no"]);
    let store = Redis::connect(&config(&redis)).unwrap();
    decides(&store).await;
    redis.ask(&["REPLICAOF", "127.0.0.1", "1"]);
    let reply = until_away(&store).await;
    assert!(
        matches!(&reply[..], [("MASTERDOWN", text)] if text.contains("MASTERDOWN")),
        "{reply:?}"
    );
    redis.ask(&["REPLICAOF", "NO", "ONE"]);
    until_up(&store).await;
    decides(&store).await;
}

/// A fault is reported, opens the breaker, and closes it when it is over.
async fn is_reported(redis: &testbed::Redis, (fault, code, remedy): Fault) {
    let store = Redis::connect(&config(redis)).unwrap();
    decides(&store).await;
    redis.ask(fault);
    let reply = until_away(&store).await;
    assert!(
        matches!(&reply[..], [(reply, text)] if *reply == code && text.contains(code)),
        "{code}: {reply:?}"
    );
    let errors = store.error_replies();
    assert_eq!(
        (&*errors[0].node, errors[0].code),
        (&*redis.address(), code)
    );
    // A key of which nothing is held is not said to be whole.
    let limit = limit();
    let unseen = Charge::new(key(&store, usize::MAX), &limit, Cost::ONE);
    let looked = store.inspect(&unseen).await;
    assert!(
        matches!(&looked, Err(StoreError::Unreachable { .. })),
        "{code}: {looked:?}"
    );
    redis.ask(remedy);
    until_up(&store).await;
    decides(&store).await;
    let latest = Instant::now() + REPLY_TIMEOUT;
    while let Err(error) = store.inspect(&unseen).await {
        assert!(Instant::now() < latest, "{error}");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_renamed_command_is_reported() {
    let setup = testbed::Setup::with(&["--rename-command", "EVALSHA", "HIDDEN"]);
    let redis = testbed::Redis::start_with(&setup);
    let store = Redis::connect(&config(&redis)).unwrap();
    let reply = until_away(&store).await;
    assert!(
        matches!(&reply[..], [("ERR", text)] if text.contains("EVALSHA")),
        "{reply:?}"
    );
}

#[tokio::test]
async fn a_replica_is_no_store_and_is_not_connected_to_without_end() {
    let primary = testbed::Redis::start();
    let store = Redis::connect(&config(&primary)).unwrap();
    // A decision needs only one of them.
    let all = u64::try_from(CONNECTIONS).unwrap();
    let latest = Instant::now() + REPLY_TIMEOUT;
    while store.counts().connections < all {
        assert!(Instant::now() < latest, "not all connections are open");
        sleep(Duration::from_millis(1)).await;
    }
    decides(&store).await;
    let before = store.counts().connections;
    primary.ask(&["REPLICAOF", "127.0.0.1", "1"]);
    // Noticed without a request.
    let latest = Instant::now() + REPLY_TIMEOUT;
    while store.is_up() {
        assert!(Instant::now() < latest, "a replica is still up");
        sleep(Duration::from_millis(10)).await;
    }
    let why = store.trouble().unwrap();
    assert!(why.contains("it is a replica"), "{why}");
    assert!(why.contains(&primary.address()), "{why}");
    sleep(Duration::from_secs(1)).await;
    let more = store.counts().connections - before;
    assert_eq!(more, 0, "connections that were opened to a replica");
    primary.ask(&["REPLICAOF", "NO", "ONE"]);
    until_up(&store).await;
    decides(&store).await;
}

#[tokio::test]
async fn a_user_who_may_not_ask_for_the_role_is_served() {
    let redis = testbed::Redis::start();
    redis.ask(&[
        "ACL",
        "SETUSER",
        "me",
        "on",
        ">pw",
        "~tg:*",
        "+@all",
        "-@admin",
        "-@dangerous",
    ]);
    let config = Config {
        username: Some("me".to_owned()),
        password: Some(Secret::new("pw")),
        ..config(&redis)
    };
    decides(&Redis::connect(&config).unwrap()).await;
}
