//! A real Envoy with its HTTP rate limit filter in front of a real `tollgate serve`.

#![allow(clippy::unwrap_used, missing_docs)]

mod configuration;
mod mesh;
mod tokens;
mod values;
mod waiting;

use configuration::PLAN;
use mesh::{Mesh, RULES, UPSTREAM, soon};

/// The length of the windows, in seconds: so long that none ends during a test.
const YEAR: &str = "31536000";

#[test]
fn requests_pass_and_then_get_429_with_envoys_headers() {
    let mesh = Mesh::start();
    for (remaining, status) in [("1", 200), ("0", 200), ("0", 429)] {
        let reply = mesh.get(&[("user", "ann")]);
        assert_eq!(reply.status, status, "{reply:?}");
        let limit = format!("2, 2;w={YEAR};name=\"per-user\"");
        assert_eq!(reply.header("x-ratelimit-limit"), limit);
        assert_eq!(reply.header("x-ratelimit-remaining"), remaining);
        let reset: u64 = reply.header("x-ratelimit-reset").parse().unwrap();
        assert!((1..=31_536_000).contains(&reset), "{reset}");
        let limited = reply.headers.contains_key("x-envoy-ratelimited");
        assert_eq!(limited, status == 429, "{reply:?}");
        let body = if status == 200 { UPSTREAM } else { "" };
        assert_eq!(reply.body, body);
    }
    assert_eq!(mesh.get(&[("user", "bob")]).status, 200);
    // Without a descriptor Envoy does not ask, so nothing is limited.
    let free = mesh.get(&[]);
    assert_eq!(free.status, 200);
    assert!(!free.headers.contains_key("x-ratelimit-limit"), "{free:?}");
}

#[test]
fn shadow_rules_never_deny() {
    let mesh = Mesh::start();
    for _ in 0..5 {
        let reply = mesh.get(&[("trial", "x")]);
        assert_eq!((reply.status, reply.body.as_str()), (200, UPSTREAM));
        assert_eq!(reply.header("x-ratelimit-remaining"), "0");
    }
    let statuses: Vec<u16> = (0..3)
        .map(|_| mesh.get(&[("trial", "x"), ("user", "ann")]).status)
        .collect();
    assert_eq!(statuses, [200, 200, 429]);
}

#[test]
fn a_denied_request_costs_no_other_limit() {
    let mesh = Mesh::start();
    assert_eq!(mesh.statuses("tenant", "acme", 2), [200, 429]);
    for _ in 0..4 {
        let reply = mesh.get(&[("user", "ann"), ("tenant", "acme")]);
        assert_eq!(reply.status, 429);
    }
    assert_eq!(mesh.statuses("user", "ann", 3), [200, 200, 429]);
}

#[test]
fn every_algorithm_limits_and_none_makes_envoy_wait() {
    let mesh = Mesh::start();
    assert_eq!(mesh.statuses("window", "a", 3), [200, 200, 429]);
    assert_eq!(mesh.statuses("log", "a", 3), [200, 200, 429]);
    assert_eq!(mesh.statuses("bucket", "a", 4), [200, 200, 200, 429]);
    // The second is due in half a year: if Envoy delayed it, this test would not end.
    let first = mesh.get(&[("queue", "a")]);
    assert!(
        !first.headers.contains_key("x-tollgate-delay-ms"),
        "{first:?}"
    );
    let second = mesh.get(&[("queue", "a")]);
    let delay: u64 = second.header("x-tollgate-delay-ms").parse().unwrap();
    assert!(
        (15_767_000_000..=15_768_000_000).contains(&delay),
        "{delay}"
    );
    assert_eq!(mesh.statuses("queue", "a", 3), [200, 200, 429]);
}

#[test]
fn envoy_may_say_what_a_request_costs_and_bring_a_limit_along() {
    let mesh = Mesh::start();
    assert_eq!(mesh.statuses("bulk", "a", 3), [200, 200, 429]);
    let reply = mesh.get(&[("bulk", "a")]);
    // A cost above 1 may be consumed already, so it is charged until the limit is exhausted.
    assert_eq!(reply.header("x-ratelimit-remaining"), "0");
    let statuses = mesh.statuses("plan", "gold", 5);
    assert_eq!(statuses, [200, 200, 200, 200, 429]);
    let reply = mesh.get(&[("plan", "gold")]);
    let limit = format!("{PLAN}, {PLAN};w={YEAR}");
    assert_eq!(reply.header("x-ratelimit-limit"), limit);
}

#[test]
fn a_rule_change_takes_effect_without_a_restart_and_keeps_what_was_consumed() {
    let mesh = Mesh::start();
    assert_eq!(mesh.statuses("user", "ann", 3), [200, 200, 429]);
    mesh.rules(&RULES.replace("requests_per_unit: 2}", "requests_per_unit: 3}"));
    // A denied request costs nothing, so retrying until one is allowed changes nothing.
    let reply = soon("the new rule", || {
        let reply = mesh.get(&[("user", "ann")]);
        (reply.status == 200).then_some(reply)
    });
    assert_eq!(reply.header("x-ratelimit-remaining"), "0");
    assert!(reply.header("x-ratelimit-limit").starts_with("3, 3;"));
    assert_eq!(mesh.get(&[("user", "ann")]).status, 429);
    mesh.rules("domain: edge\ndescriptors: [{key: tenant, rate_limit: 1/year}]\n");
    soon("the rule's end", || {
        (mesh.get(&[("user", "ann")]).status == 200).then_some(())
    });
    assert_eq!(mesh.statuses("user", "ann", 5), [200; 5]);
}
