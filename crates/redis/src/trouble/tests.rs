#![allow(clippy::unwrap_used)]
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate_core::{Charge, Cost, Key, Limit, Span};
use tollgate_testbed as testbed;

use super::*;
use crate::config::{Config, Secret};
use crate::store::Redis;

#[tokio::test]
async fn servers_that_were_named_as_what_they_are_not_are_reported() {
    let plain = testbed::Redis::start();
    let reason = trouble(&Config::cluster([plain.address()])).await;
    assert!(reason.contains("not a node of a Cluster"), "{reason}");
    assert!(reason.starts_with(&plain.address()), "{reason}");

    let setup = testbed::Setup::with(&["--cluster-enabled", "yes"]);
    let node = testbed::Redis::start_with(&setup);
    let reason = trouble(&Config::cluster([node.address()])).await;
    assert!(reason.contains("no slot"), "{reason}");
    let redis = Redis::connect(&Config::single(node.address())).unwrap();
    let limit = Limit::fixed_window(1, Span::DAY).unwrap();
    let charge = Charge::new(Key::from_bits(1), &limit, Cost::ONE);
    let latest = Instant::now() + Duration::from_secs(20);
    let why = loop {
        let error = redis.decide(&[charge]).await.unwrap_err();
        if redis.trouble().is_some() {
            break std::error::Error::source(&error).unwrap().to_string();
        }
        assert!(Instant::now() < latest, "{error}");
    };
    assert_eq!(why, "it is one node of a Cluster: name it in `cluster`");
    assert!(redis.trouble().unwrap().ends_with(&why));
    assert!(!redis.is_up());
}

/// The reason that a failing connection reports in the end.
async fn trouble(config: &Config) -> String {
    let redis = Redis::connect(config).unwrap();
    let latest = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(reason) = redis.trouble() {
            assert!(!redis.is_up());
            return reason;
        }
        assert!(Instant::now() < latest, "no reason came");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn the_reason_is_shown_and_no_password() {
    let server = testbed::Redis::start();
    let config = Config {
        password: Some(Secret::new("hunter2")),
        ..Config::single(server.address())
    };
    let reason = trouble(&config).await;
    assert!(reason.contains("AUTH"), "{reason}");
    assert!(!reason.contains("hunter2"), "{reason}");
    server.kill();
    let reason = trouble(&config).await;
    assert!(reason.contains("Connection refused"), "{reason}");
}

fn oom() -> ErrorReply {
    ErrorReply::read("OOM command not allowed when used memory > 'maxmemory'.")
}

fn count_of(event: &StoreEvent) -> u64 {
    match event {
        StoreEvent::ErrorReplies { count, .. } => *count,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_error_is_an_event_every_ten_seconds() {
    let trouble = Trouble::default();
    for _ in 0..5 {
        trouble.record_error("a:1", &oom());
    }
    let events = trouble.events(Instant::now());
    assert_eq!(events.iter().map(count_of).collect::<Vec<_>>(), [5]);
    trouble.record_error("a:1", &oom());
    trouble.record_error("b:1", &oom());
    let events = trouble.events(Instant::now());
    assert_eq!(
        events.iter().map(count_of).collect::<Vec<_>>(),
        [1],
        "of b:1"
    );
    sleep(EVENT_EVERY).await;
    let events = trouble.events(Instant::now());
    assert_eq!(
        events.iter().map(count_of).collect::<Vec<_>>(),
        [1],
        "of a:1"
    );
    sleep(EVENT_EVERY).await;
    assert_eq!(trouble.events(Instant::now()), []);
}

#[test]
fn the_newest_reasons_are_shown() {
    let trouble = Trouble::default();
    for node in ["a:1", "b:1", "c:1", "d:1", "b:1"] {
        trouble.record_failure(node, &"away");
    }
    let shown = "b:1: away; d:1: away; c:1: away";
    assert_eq!(trouble.reason().as_deref(), Some(shown));
    trouble.clear_failure("d:1");
    let shown = "b:1: away; c:1: away; a:1: away";
    assert_eq!(trouble.reason().as_deref(), Some(shown));
    for number in 0..2 * NODES_MAX {
        trouble.record_failure(&format!("{number}:1"), &"away");
    }
    let newest = format!("{}:1: away; ", 2 * NODES_MAX - 1);
    assert!(trouble.reason().unwrap().starts_with(&newest));
}

#[test]
fn what_is_kept_of_nodes_has_a_bound() {
    let trouble = Trouble::default();
    for number in 0..1_000 {
        trouble.record_error(&format!("{number}:1"), &oom());
        trouble.record_failure(&format!("{number}:1"), &"away");
        trouble.record_new_primary("a:1", "b:1");
    }
    let counts = trouble.error_counts();
    assert_eq!(counts.len(), NODES_MAX + 1);
    assert_eq!(counts.iter().map(|one| one.count).sum::<u64>(), 1_000);
    assert_eq!(trouble.reason().unwrap().matches("away").count(), SHOWN_MAX);
    let changes = trouble.events(Instant::now()).len();
    assert_eq!(changes, CHANGES_MAX + NODES_MAX + 1);
}
