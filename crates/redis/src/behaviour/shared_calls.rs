//! Calls with keys of several slots on one node of a Cluster.

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Duration, Instant};
use tollgate_behaviour::{Subject, Taste};
use tollgate_core::{Bill, Charge, Cost, Key, Limit, Now, Span};
use tollgate_testbed as testbed;

use super::servers::Migration;
use super::{CLUSTER, Driven, SINGLE};
use crate::config::{Config, PREFIX};
use crate::connection::{Connection, Opener};
use crate::environment::Environment;
use crate::fit::FittedLimit;
use crate::keys;
use crate::names::reservation_name;
use crate::resp::{self, Reply};
use crate::script::Caller;
use crate::script_request::{General, Plain, ScriptRequest, Step, StepLine};
use crate::store::under_test::TimedRedis;

const NOW: Now = Taste::MICROSECONDS.start;

fn limit() -> Limit {
    Limit::fixed_window(10, Span::HOUR).expect("an hour is a window")
}

async fn open(address: &str) -> Connection {
    let opener = Opener::new(&Config::single(address), &Environment::default());
    let opener = opener.expect("the config is valid");
    let deadline = Instant::now() + Duration::from_secs(30);
    let opened = opener.open(address, Some(PREFIX), deadline).await;
    opened.unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::test]
async fn only_a_node_that_rejects_keys_of_others_is_trusted() {
    assert!(open(&CLUSTER.nodes()[0].address()).await.checks_keys);
    assert!(!open(&SINGLE.address()).await.checks_keys);
}

/// Which of the three primaries serves the slot of a key: each has a third of all slots.
fn third(key: Key) -> u16 {
    keys::slot(key) / 5_462
}

/// Two keys of slots of the first primary, and one of the last.
fn keys_here_and_there() -> ([Key; 2], Key) {
    // The first bits of a key choose its slot.
    let all = || (1..1_000).map(|number: u128| Key::from_bits(number << 112));
    let mut here = all().filter(|key| third(*key) == 0);
    let here = [(); 2].map(|()| here.next().expect("a third of all"));
    let there = all().find(|key| third(*key) == 2);
    (here, there.expect("a third of all"))
}

/// The name in Redis.
fn name(key: Key) -> String {
    let name = keys::name(key);
    format!(
        "{PREFIX}{}",
        std::str::from_utf8(&name).expect("it is text")
    )
}

/// One request of each kind that writes, for this key.
fn requests(key: Key) -> Vec<ScriptRequest> {
    let limit = limit();
    let fitted = FittedLimit::new(&limit).expect("an hour is whole");
    let charge = Charge::new(key, &limit, Cost::ONE);
    let bill = Bill::new(&[charge]).expect("one charge");
    let line = &bill.lines()[0];
    let step_line = StepLine {
        line,
        fitted: &fitted,
        times: 1,
        denied: 0,
    };
    let lasts = 1_000_000;
    let name = reservation_name(lasts);
    let reserve = Step::Reserve { name, lasts };
    let reserved = ScriptRequest::reservation(reserve, &[step_line]);
    let joint = ScriptRequest::joint(&bill, &[fitted]);
    vec![
        ScriptRequest::of_one(&charge, &fitted),
        Plain::general_request(&charge, &fitted),
        joint.expect("a window is simple"),
        reserved.expect("a window is simple"),
        ScriptRequest::of_step(reserve, &[step_line]),
        ScriptRequest::remember(&[(line, &fitted)], Some(key), (lasts, false), b"memo"),
    ]
}

/// Sends one call for all these requests, of which only the first declares its key.
async fn call(connection: &mut Connection, requests: &[ScriptRequest]) -> Reply {
    let caller = Caller {
        scripts: connection.scripts.clone(),
        ..Caller::new(PREFIX, &Environment::default())
    };
    let mut out = BytesMut::new();
    let general: Vec<&General> = requests
        .iter()
        .filter_map(ScriptRequest::as_general)
        .collect();
    let plain: Vec<Plain> = requests
        .iter()
        .filter_map(ScriptRequest::as_plain)
        .collect();
    match plain.is_empty() {
        true => caller.call_general(&mut out, &general, true),
        false => caller.call_plain(&mut out, &plain, true),
    }
    connection.stream.write_all(&out).await.expect("it is open");
    loop {
        if let Some(reply) = resp::take(&mut connection.input).expect("it is Redis") {
            return reply;
        }
        let read = connection.stream.read_buf(&mut connection.input).await;
        assert!(read.expect("it is open") > 0);
    }
}

/// A key that the node does not serve fails the whole call, and nothing is charged, in every
/// script: the requests can be sent again, each to its own node.
#[tokio::test]
async fn a_key_of_another_node_fails_the_call_before_anything_is_written() {
    let ([first, second], there) = keys_here_and_there();
    let node = CLUSTER.master_of(0);
    let mut connection = open(&node.address()).await;
    let exist = || node.ask(&["EXISTS", &name(first)]) == "1";
    let all = |key| requests(key).into_iter();
    for ((one, other), foreign) in all(first).zip(all(second)).zip(all(there)) {
        let what = format!("{:?} {one:?}", one.script());
        let reply = call(&mut connection, &[one.clone(), other.clone(), foreign]).await;
        let Reply::Error(text) = &reply else {
            panic!("{what}: {reply:?}");
        };
        let text = String::from_utf8_lossy(text);
        assert!(text.contains("non local key"), "{what}: {text}");
        assert!(!exist(), "{what}");
        let reply = call(&mut connection, &[one, other]).await;
        assert!(matches!(reply, Reply::Bulk(_)), "{what}: {reply:?}");
        assert!(exist(), "{what}");
        for key in [first, second] {
            node.ask(&["DEL", &name(key)]);
        }
    }
}

/// Requests on keys of all slots of three nodes take few calls, and so does one request on keys of
/// several slots of a node.
#[test]
fn requests_of_several_slots_share_calls() {
    let limit = limit();
    let mut driven = Driven::apart();
    let keys: Vec<Key> = (0..60)
        .map(|number| driven.key(&format!("{number}")))
        .collect();
    // Connections are open, and the topology is known.
    for key in &keys {
        let peek = Charge::new(*key, &limit, Cost::Peek(1));
        assert!(driven.decide(NOW, &[peek]).is_allowed());
    }
    let before = driven.store.counts().calls;
    let requests: Vec<_> = keys
        .iter()
        .map(|key| vec![Charge::new(*key, &limit, Cost::ONE)])
        .collect();
    let verdicts = driven.decide_together(NOW, &requests);
    assert!(verdicts.iter().all(tollgate_core::Verdict::is_allowed));
    let calls = driven.store.counts().calls - before;
    // Each node has some connections.
    assert!(calls <= 3 * 4, "{calls} calls for 60 keys");

    let together: Vec<Charge<'_>> = keys
        .iter()
        .filter(|key| third(**key) == 0)
        .map(|key| Charge::new(*key, &limit, Cost::Take(9)))
        .take(3)
        .collect();
    let before = driven.store.counts().calls;
    assert!(driven.decide(NOW, &together).is_allowed());
    assert!(!driven.decide(NOW, &together).is_allowed());
    assert_eq!(driven.store.counts().calls - before, 2);
    assert_eq!(driven.store.counts().split_calls, 0);
}

/// A key that has moved already while its slot migrates: the call that it is in is split, and every
/// request is charged once.
#[test]
fn a_slot_that_migrates_is_left_out_of_shared_calls() {
    let cluster = testbed::Cluster::start();
    let mut driven = Driven::connect(
        &Config {
            connections: 1,
            ..Config::cluster(cluster.addresses())
        },
        TimedRedis::connect,
    );
    driven.crosses_slots = true;
    let limit = limit();
    let keys: Vec<Key> = (0..60)
        .map(|number| driven.key(&format!("{number}")))
        .collect();
    for key in &keys {
        let charge = Charge::new(*key, &limit, Cost::ONE);
        assert!(driven.decide(NOW, &[charge]).is_allowed());
    }
    let here: Vec<Key> = keys.into_iter().filter(|key| third(*key) == 0).collect();
    let moving = here[0];
    let migration = Migration::begin(&cluster, moving);
    migration.move_key(&name(moving));

    let requests: Vec<_> = here
        .iter()
        .map(|key| vec![Charge::new(*key, &limit, Cost::ONE)])
        .collect();
    let verdicts = driven.decide_together(NOW, &requests);
    for verdict in verdicts {
        assert_eq!(verdict.decisions[0].remaining(), 8);
    }
    assert!(driven.store.counts().split_calls > 0);
    // One request on both keys is decided in rounds.
    let both = [here[0], here[1]].map(|key| Charge::new(key, &limit, Cost::ONE));
    let verdict = driven.decide(NOW, &both);
    let remaining = [0, 1].map(|at| verdict.decisions[at].remaining());
    assert_eq!((verdict.is_allowed(), remaining), (true, [7, 7]));
}

/// Several limits of one slot while it migrates: with keys at either node, or new ones; and a
/// request that has a limit in another slot as well, or is a refund.
#[test]
fn limits_of_a_slot_that_migrates_are_decided_key_by_key() {
    let cluster = testbed::Cluster::start();
    let mut driven = Driven::new(&Config::cluster(cluster.addresses()));
    let limit = limit();
    let [one, other, new, newer] = ["one", "other", "new", "newer"].map(|name| driven.key(name));
    driven.crosses_slots = true;
    let apart = driven.key("apart");
    assert_ne!(keys::slot(one), keys::slot(apart));
    let mut decide = |keys: &[Key], cost| {
        let charges = keys.iter().map(|key| Charge::new(*key, &limit, cost));
        let verdict = driven.decide(NOW, &charges.collect::<Vec<_>>());
        let remaining = verdict
            .decisions
            .iter()
            .map(tollgate_core::Decision::remaining);
        (verdict.is_allowed(), remaining.collect::<Vec<_>>())
    };
    let take = Cost::ONE;
    assert_eq!(decide(&[one, other], take), (true, vec![9, 9]));
    let migration = Migration::begin(&cluster, one);
    assert_eq!(decide(&[one, new], take), (true, vec![8, 9]));
    migration.move_key(&name(one));
    assert_eq!(decide(&[one, other], take), (true, vec![7, 8]));
    assert_eq!(decide(&[one, newer], take), (true, vec![6, 9]));
    assert_eq!(decide(&[one, other, apart], take), (true, vec![5, 7, 9]));
    // All or nothing.
    assert_eq!(decide(&[one, other], Cost::Take(6)), (false, vec![5, 7]));
    assert_eq!(decide(&[one, other], Cost::Refund(2)), (true, vec![7, 9]));
    migration.move_key(&name(other));
    migration.end();
    let all = [one, other, new, newer, apart];
    assert_eq!(decide(&all, Cost::Peek(1)), (true, vec![7, 9, 9, 9, 9]));
}
