//! `tollgate explain`: by rules alone, and beside a service that counts in a real Redis.

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tollgate_testbed::Redis;

use crate::house::{SETTINGS, Service, ask, directory, exchange, run, text};
use crate::schema::violations;

const RULES: &str = "\
domain: d
descriptors:
  - key: k
    value: \"s*\"
    rate_limit: {requests_per_unit: 2, unit: day, algorithm: token_bucket, name: twice}
    descriptors:
      - {key: path, rate_limit: 5/day}
  - {key: free, rate_limit: {unlimited: true}}
";

/// An explanation, which is as its schema describes it.
fn json(output: &Output) -> Value {
    let found = serde_json::from_str(&text(output, 0)).unwrap();
    assert_eq!(violations("explanation", &found), [""; 0]);
    found
}

#[test]
fn rules_alone_say_where_a_rule_is_and_what_it_would_decide() {
    let directory = directory(&[("rules.yaml", RULES)]);
    let explain = |more: &[&str]| {
        let mut arguments = vec!["explain", "--rules", "rules.yaml"];
        arguments.extend(more);
        run(directory.path(), &arguments)
    };
    let shown = text(&explain(&["--domain", "d", "k=secret", "free=1"]), 0);
    for line in [
        "d: a request would be allowed now",
        "    matches   k: s*  (rules.yaml:3)",
        "  why       twice (rules.yaml:3) applies",
        "  remaining 2 of 2",
        "  limit     unlimited: nothing is counted",
        "note: each key is shown as if it was never used; the states of keys in memory are in the \
         service, which `tollgate explain --url` asks",
    ] {
        assert!(shown.lines().any(|found| found == line), "{line}\n{shown}");
    }
    let denied = json(&explain(&["--cost", "3", "--output", "json", "k=secret"]));
    assert_eq!(denied["allowed"], false);
    assert_eq!(denied["deniedBy"], "twice");
    assert_eq!(denied["retryAfter"], "never");
    assert_eq!(denied["hasStates"], false);
    let nested = |more: &[&str]| {
        let mut arguments = vec!["--output", "json", "path=/x,k=secret"];
        arguments.extend(more);
        json(&explain(&arguments))["descriptors"][0]["outcome"].clone()
    };
    assert_eq!(
        (nested(&[]), nested(&["--any-order"])),
        ("no_match".into(), "rule".into())
    );
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let two = format!("{RULES}---\ndomain: e\ndescriptors: []\n");
    let directory = directory(&[
        ("rules.yaml", RULES),
        ("two.yaml", &two),
        (
            "bad.yaml",
            "domain: d\ndescriptors: [{key: k, rate_limit: 1/fortnight}]\n",
        ),
    ]);
    let table: [(&[&str], i32, &str); 11] = [
        (&["k=v"], 2, "name a running service with --url"),
        (&[], 2, "name a running service with --url"),
        (
            &["--rules", "rules.yaml"],
            2,
            "write its descriptors as KEY=VALUE",
        ),
        (
            &["--rules", "bad.yaml", "k=v"],
            1,
            "correct the rules, or name a domain without errors with --domain",
        ),
        (&["--rules", "none.yaml", "k=v"], 2, "none.yaml"),
        (
            &["--rules", "rules.yaml", "k"],
            2,
            "`k` is not a valid entry",
        ),
        (
            &["--rules", "rules.yaml", "--domain", "x", "k=v"],
            1,
            "the rules have `d`",
        ),
        (
            &["--rules", "two.yaml", "k=v"],
            1,
            "name the domain with --domain; the rules have `d`, `e`",
        ),
        (
            &["--rules", "bad.yaml", "--domain", "d", "k=v"],
            1,
            "bad.yaml:2:",
        ),
        (&["--config", "none.yaml", "k=v"], 2, "none.yaml"),
        (
            &["--config", "none.yaml", "--merge-domains", "k=v"],
            2,
            "cannot be used with",
        ),
    ];
    for (arguments, status, expected) in table {
        let arguments = [&["explain"], arguments].concat();
        let found = text(&run(directory.path(), &arguments), status);
        assert!(found.contains(expected), "{arguments:?}: {found}");
    }
}

/// The response to a GET request, as JSON.
fn get(address: &str, path: &str) -> Value {
    let reply = exchange(address, &format!("GET {path}"), "");
    let (_, body) = reply.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {reply}"))
}

/// A service, and the addresses of its listeners `http` and `admin`.
fn serving(directory: &Path) -> (Service, String, String) {
    let mut service = Service::start(directory);
    let (http, admin) = (service.address("http"), service.address("admin"));
    (service, http, admin)
}

/// What does not depend on when it was asked.
fn timeless(mut json: Value) -> Value {
    json["retryAfter"].take();
    json["descriptors"][0]["state"]["wait"].take();
    json["descriptors"][0]["state"]["reset"].take();
    json
}

#[test]
fn the_command_and_the_service_explain_the_same_over_redis() {
    let redis = Redis::start();
    let settings = format!(
        "{SETTINGS}store: {{redis: {{url: 'redis://{}', timeout: 5s}}}}\n",
        redis.address()
    );
    let directory = directory(&[("rules.yaml", RULES), ("tollgate.yaml", &settings)]);
    let (service, http, admin) = serving(directory.path());
    let explain = || {
        let arguments = [
            "explain",
            "--config",
            "tollgate.yaml",
            "--output",
            "json",
            "k=secret",
        ];
        json(&run(directory.path(), &arguments))
    };
    let path = "/v1/explain?domain=d&descriptor=k%3Dsecret";
    for (count, status) in [(2, "200"), (1, "200"), (0, "429")] {
        let (of_command, of_service) = (explain(), get(&admin, path));
        assert_eq!(of_command["allowed"], status == "200", "{of_command}");
        let state = &of_command["descriptors"][0]["state"];
        assert_eq!(state["remaining"], count, "{of_command}");
        assert_eq!(
            (&of_command["shared"], &of_command["hasStates"]),
            (&true.into(), &true.into())
        );
        assert_eq!(timeless(of_command), timeless(of_service));
        let reply = ask(&http);
        assert!(reply.starts_with(&format!("HTTP/1.1 {status}")), "{reply}");
    }
    // Looking has not charged anything, nor counted as an instance: a denial is still one.
    let metrics = exchange(&admin, "GET /metrics", "");
    assert!(metrics.contains("outcome=\"denied\"} 1\n"), "{metrics}");
    drop(service);
    let arguments = [
        "explain",
        "--config",
        "tollgate.yaml",
        "--cost",
        "2",
        "k=secret",
    ];
    let shown = text(&run(directory.path(), &arguments), 0);
    assert!(
        shown.starts_with("d: a request of cost 2 would be denied now, by twice;"),
        "{shown}"
    );
    drop(redis);
    let found = text(&run(directory.path(), &arguments), 1);
    assert!(found.contains("127.0.0.1"), "{found}");
}

#[test]
fn keys_in_the_memory_of_a_service_are_explained_by_its_admin_listener() {
    let directory = directory(&[("rules.yaml", RULES), ("tollgate.yaml", SETTINGS)]);
    let (_service, http, admin) = serving(directory.path());
    for _ in 0..3 {
        ask(&http);
    }
    let path = "/v1/explain?domain=d&descriptor=k%3Dsecret";
    let explained = get(&admin, path);
    assert_eq!(
        (&explained["allowed"], &explained["hasStates"]),
        (&false.into(), &true.into())
    );
    assert_eq!(explained["descriptors"][0]["state"]["outcome"], "denied");
    let arguments = ["explain", "--config", "tollgate.yaml", "k=secret"];
    let shown = text(&run(directory.path(), &arguments), 0);
    assert!(shown.contains("as if it was never used"), "{shown}");
    let problem = get(&admin, "/v1/explain?domain=d");
    assert_eq!(problem["status"], 400);
}
