//! Redis answers, but does not decide: an instance treats it as unavailable, reports the reason to
//! every caller, and uses it again as soon as it decides.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate_core::{
    Charge, Cost, InspectStore, Key, KeyHasher, Limit, Span, StoreError, StoreEvent,
};
use tollgate_redis::{CONNECTIONS, Config, Redis, Secret};
use tollgate_testbed as testbed;

/// Longer than any reply takes in these tests.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);

/// With a timeout that no reply exceeds, however busy the machine: only error replies open the
/// circuit breaker, never slow ones.
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

/// Decides until Redis is unavailable; returns the codes and texts of the error replies to log.
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

/// Waits until Redis is available again, without sending a decision.
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

/// Commands of `redis-cli` that cause a fault, the code of its error reply, and commands that end
/// it.
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

/// Redis cannot save to its disk.
#[tokio::test]
async fn a_server_that_cannot_save_is_reported() {
    let setup = testbed::Setup::with(&["--dir", "/proc", "--save", "3600 1"]);
    let redis = testbed::Redis::start_with(&setup);
    let remedy = &["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"];
    is_reported(&redis, (&["BGSAVE"], "MISCONF", remedy)).await;
}

/// A replica's data may be outdated. Its error reply says that it is one, before its role is
/// queried.
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

/// A fault is reported and opens the circuit breaker, which closes when the fault ends.
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
    // Redis has nothing under this key, and the key must still not be reported as unused.
    let limit = limit();
    let unseen = Charge::new(key(&store, usize::MAX), &limit, Cost::ONE);
    let looked = store.inspect(&unseen).await;
    assert!(
        matches!(&looked, Err(StoreError::Rejected { .. })),
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
async fn a_server_that_accepts_no_more_clients_is_reported() {
    let redis = testbed::Redis::start();
    redis.ask(&["CONFIG", "SET", "maxclients", "1"]);
    let store = Redis::connect(&config(&redis)).unwrap();
    let latest = Instant::now() + REPLY_TIMEOUT;
    let says_so = |why: String| why.contains("max number of clients");
    while !store.trouble().is_some_and(says_so) {
        assert!(Instant::now() < latest, "{:?}", store.trouble());
        sleep(Duration::from_millis(1)).await;
    }
}

/// An error reply while connecting is counted as one to a decision is.
#[tokio::test]
async fn a_server_that_rejects_what_a_connection_begins_with_is_reported() {
    let redis = testbed::Redis::start();
    redis.ask(&["ACL", "SETUSER", "default", "-script"]);
    let store = Redis::connect(&config(&redis)).unwrap();
    let latest = Instant::now() + REPLY_TIMEOUT;
    while store.trouble().is_none_or(|why| !why.contains("NOPERM")) {
        assert!(Instant::now() < latest, "{:?}", store.trouble());
        sleep(Duration::from_millis(1)).await;
    }
    let errors = store.error_replies();
    let counted = errors.iter().map(|error| (&*error.node, error.code));
    let counted: Vec<_> = counted.collect();
    assert_eq!(counted, [(&*redis.address(), "NOPERM")]);
    redis.ask(&["ACL", "SETUSER", "default", "+script"]);
    decides(&store).await;
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
    // A decision needs only one connection; the test waits until all are open.
    let all = u64::try_from(CONNECTIONS).unwrap();
    let latest = Instant::now() + REPLY_TIMEOUT;
    while store.counts().connections < all {
        assert!(Instant::now() < latest, "not all connections are open");
        sleep(Duration::from_millis(1)).await;
    }
    decides(&store).await;
    let before = store.counts().connections;
    primary.ask(&["REPLICAOF", "127.0.0.1", "1"]);
    // This is noticed without a request.
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

/// One call shows that it decides nothing; until then it is taken for available.
#[tokio::test]
async fn a_server_that_has_never_decided_is_unavailable_after_one_error() {
    let redis = testbed::Redis::start();
    redis.ask(&["ACL", "SETUSER", "default", "-evalsha", "-eval"]);
    let store = Redis::connect(&config(&redis)).unwrap();
    let limit = limit();
    let charge = Charge::new(key(&store, 0), &limit, Cost::ONE);
    assert!(store.decide(&[charge]).await.is_err());
    assert!(!store.is_up());
    let reason = store.trouble().unwrap();
    assert!(reason.contains("it replies with NOPERM"), "{reason}");
    redis.ask(&["ACL", "SETUSER", "default", "+evalsha", "+eval"]);
    until_up(&store).await;
    assert_eq!(store.trouble(), None);
    decides(&store).await;
}

/// A server that is asked seldom replies with as few errors.
#[tokio::test]
async fn errors_that_last_open_the_breaker_however_few_they_are() {
    let redis = testbed::Redis::start();
    let store = Redis::connect(&config(&redis)).unwrap();
    decides(&store).await;
    redis.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let (limit, began) = (limit(), Instant::now());
    let mut errors = 0;
    while store.is_up() {
        let charge = Charge::new(key(&store, 0), &limit, Cost::ONE);
        assert!(store.decide(&[charge]).await.is_err());
        errors += 1;
        sleep(Duration::from_millis(400)).await;
    }
    assert!(errors < 8, "{errors} in {:?}", began.elapsed());
}

/// A server that answers `HELLO` and `PING` and executes no writes is not available, however often
/// it is connected to; nor is it once it replies with errors.
#[tokio::test]
async fn a_server_that_executes_nothing_stays_unavailable() {
    let redis = testbed::Redis::start();
    let store = Redis::connect(&Config {
        timeout: Span::from_millis(100),
        ..config(&redis)
    })
    .unwrap();
    decides(&store).await;
    redis.ask(&["CLIENT", "PAUSE", "600000", "WRITE"]);
    // The same key: one connection's circuit breaker.
    let (limit, latest) = (limit(), Instant::now() + REPLY_TIMEOUT);
    while store.is_up() {
        let charge = Charge::new(key(&store, 0), &limit, Cost::ONE);
        let _answer = store.decide(&[charge]).await;
        assert!(Instant::now() < latest, "it is still up");
    }
    let before = store.counts();
    while store.counts().connections < before.connections + 2 {
        assert!(!store.is_up(), "it decides nothing");
        assert!(Instant::now() < latest, "it is not connected to again");
        sleep(Duration::from_millis(1)).await;
    }
    // It replies again, but with errors.
    redis.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    redis.ask(&["CLIENT", "UNPAUSE"]);
    while store.error_replies().is_empty() {
        assert!(!store.is_up(), "it decides nothing");
        assert!(Instant::now() < latest, "it does not reply");
        sleep(Duration::from_millis(1)).await;
    }
    let openings = store.counts().breaker_openings - before.breaker_openings;
    assert_eq!(openings, 0, "it was taken for available");
    redis.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    until_up(&store).await;
    decides(&store).await;
}
