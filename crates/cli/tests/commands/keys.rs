//! `tollgate keys`, beside a service that counts in a real Redis.

use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tollgate_testbed::{Cluster, Redis, Setup};

use crate::house::{SETTINGS, Service, ask, directory, run};

const RULES: &str = "
domain: d
descriptors:
  - key: k
    rate_limit: {requests_per_unit: 2, unit: day, algorithm: token_bucket, name: twice}
    descriptors:
      - {key: path, rate_limit: 5/day}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: dark, rate_limit: 0/day, shadow_mode: true}
";

/// How long a busy key may take to be leased.
const LEASED_WITHIN: Duration = Duration::from_secs(20);

/// Rules and settings whose store is `redis`, a map's text.
fn files(redis: &str) -> TempDir {
    let settings = format!("{SETTINGS}store: {{redis: {{{redis}, timeout: 5s}}}}\n");
    directory(&[("rules.yaml", RULES), ("tollgate.yaml", &settings)])
}

fn at(redis: &Redis) -> TempDir {
    files(&format!("url: 'redis://{}'", redis.address()))
}

fn serving(directory: &Path) -> (Service, String) {
    let mut service = Service::start(directory);
    let address = service.address("http");
    service.logged(|line| line["listener"] == "admin");
    (service, address)
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What was written to standard error by a process that ended with `status`.
fn error_text(output: &Output, status: i32) -> String {
    assert_eq!(output.status.code(), Some(status));
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn what_a_service_counted_is_shown_and_reset() {
    let redis = Redis::start();
    let directory = at(&redis);
    let keys = |words: &[&str]| run(directory.path(), &[&["keys"], words].concat());
    let (_service, address) = serving(directory.path());
    assert!(ask(&address).starts_with("HTTP/1.1 200"));

    let shown = json(&keys(&["show", "--json", "d", "k=secret"]));
    let found = &shown["descriptors"][0];
    assert_eq!(found["enforcement"], "enforce");
    assert_eq!(found["outcome"], "limited");
    assert_eq!(
        (&found["rule"], &found["name"]),
        (&json!("k"), &json!("twice"))
    );
    assert_eq!(found["limit"], "2 per 1d token_bucket");
    let key = &found["key"];
    assert_eq!((&key["held"], &key["remaining"]), (&json!(true), &json!(1)));
    // The other key counts the instances.
    let names = redis.ask(&["KEYS", "*"]);
    let mut names = names.lines().filter(|name| *name != "tg:{nodes}");
    assert_eq!(key["name"], names.next().unwrap());
    assert!(key["expiresMs"].as_u64().unwrap() > 40_000_000, "{key}");
    assert_eq!(key.get("deleted"), None);
    assert_eq!(key.get("waitMs"), None);

    // `show` charged nothing: one unit is left, and then none.
    assert!(ask(&address).starts_with("HTTP/1.1 200"));
    assert!(ask(&address).starts_with("HTTP/1.1 429"));
    let shown = keys(&["show", "d", "k=secret"]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains("remaining 0 of 2"), "{text}");
    assert!(text.contains("denied    for 11h59m"), "{text}");

    let reset = keys(&["reset", "d", "k=secret"]);
    assert_eq!(reset.status.code(), Some(0));
    let text = String::from_utf8(reset.stdout).unwrap();
    assert!(text.contains("deleted   yes"), "{text}");
    assert!(text.contains("may deny it for at most 1s more"), "{text}");
    let names = redis.ask(&["KEYS", "*"]);
    assert_eq!(names.trim().trim_end_matches("tg:{nodes}"), "");
    let again = json(&keys(&["reset", "--json", "d", "k=secret"]));
    assert_eq!(again["descriptors"][0]["key"]["deleted"], false);
    // The first instance has the denial in its cache; another one allows the request.
    let (_other, fresh) = serving(directory.path());
    assert!(ask(&fresh).starts_with("HTTP/1.1 200"));
}

#[test]
fn what_a_service_has_leased_is_shown() {
    let redis = Redis::start();
    let address = redis.address();
    let store = format!("{{mode: leased, redis: {{url: 'redis://{address}', timeout: 5s}}}}");
    let files = directory(&[
        ("rules.yaml", &RULES.replace("per_unit: 2", "per_unit: 500")),
        ("tollgate.yaml", &format!("{SETTINGS}store: {store}\n")),
    ]);
    let (_service, address) = serving(files.path());
    let start = Instant::now();
    let shown = loop {
        assert!(ask(&address).starts_with("HTTP/1.1 200"));
        let shown = run(files.path(), &["keys", "show", "d", "k=secret"]);
        let shown = String::from_utf8(shown.stdout).unwrap();
        if shown.contains("leased    ") {
            break shown;
        }
        assert!(start.elapsed() < LEASED_WITHIN, "{shown}");
    };
    let leased = shown.lines().find(|line| line.contains("leased    "));
    assert!(
        leased
            .unwrap()
            .contains(" units by 1 instance, for at most "),
        "{shown}"
    );
}

#[test]
fn several_descriptors_are_shown_in_their_order() {
    let redis = Redis::start();
    let directory = at(&redis);
    let words = [
        "keys",
        "show",
        "d",
        "free=1",
        "k=a,path=/x",
        "k=a",
        "other=1",
        "dark=1",
    ];
    let shown = run(directory.path(), &words);
    assert_eq!(shown.status.code(), Some(0));
    let text = String::from_utf8(shown.stdout).unwrap();
    let rules: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("  rule      "))
        .collect();
    let none = "none, or one that another rule replaces";
    assert_eq!(rules, ["free", "k.path", "k", none, "dark"]);
    assert!(text.contains("shadow    never denies a request"), "{text}");
    assert!(text.contains("over      always"), "{text}");
    assert!(text.contains("unlimited: nothing is counted"), "{text}");
    assert!(text.contains("held      nothing"), "{text}");
    let strange = run(directory.path(), &["keys", "show", "d", "k=\u{1b}[2J"]);
    let text = String::from_utf8(strange.stdout).unwrap();
    assert!(text.contains("d: k=\\u{1b}[2J"), "{text}");
    let turned = ["keys", "show", "--json", "d", "k=\u{202e}c"];
    let output = run(directory.path(), &turned);
    assert!(output.stdout.is_ascii(), "{output:?}");
    let value = &json(&output)["descriptors"][0]["entries"][0]["value"];
    assert_eq!(value, "\u{202e}c");
}

#[test]
fn in_a_cluster_every_key_is_found() {
    let cluster = Cluster::start();
    let nodes = cluster.addresses().join("', '");
    let directory = files(&format!("cluster: ['{nodes}']"));
    let (_service, address) = serving(directory.path());
    assert!(ask(&address).starts_with("HTTP/1.1 200"));
    let words = [
        "keys", "reset", "--json", "d", "k=1", "k=2", "k=3", "k=secret",
    ];
    let reset = json(&run(directory.path(), &words));
    let deleted = reset["descriptors"].as_array().unwrap().iter();
    let deleted: Vec<&Value> = deleted.map(|found| &found["key"]["deleted"]).collect();
    assert_eq!(deleted, [false, false, false, true]);
}

#[test]
fn a_failure_says_why() {
    let redis = Redis::start();
    let directory = at(&redis);
    let show = |words: &[&str]| run(directory.path(), &[&["keys", "show"], words].concat());
    let unknown = error_text(&show(&["e", "k=1"]), 1);
    assert!(
        unknown.contains("no rules for the domain `e`, only for `d`"),
        "{unknown}"
    );
    let unmet = error_text(&show(&["d", "x=1"]), 1);
    assert!(unmet.contains("no descriptor meets a limit"), "{unmet}");
    let unlimited = error_text(&show(&["d", "x=1", "free=1"]), 1);
    let expected = "error: the rule `free` is unlimited, so nothing is counted or stored\n";
    assert_eq!(unlimited, expected);
    let no_value = error_text(&show(&["d", "k"]), 2);
    assert!(no_value.contains("write KEY=VALUE"), "{no_value}");
    let no_config = error_text(&show(&["--config", "nowhere.yaml", "d", "k=1"]), 2);
    assert!(no_config.contains("nowhere.yaml"), "{no_config}");
    assert!(no_config.contains("with `--config PATH`"), "{no_config}");
    redis.kill();
    let unreachable = error_text(&show(&["d", "k=1"]), 1);
    assert!(unreachable.contains("Connection refused"), "{unreachable}");

    let node = Redis::start_with(&Setup::with(&["--cluster-enabled", "yes"]));
    let alone = at(&node);
    let words = ["keys", "show", "d", "k=1"];
    let alone = error_text(&run(alone.path(), &words), 1);
    assert_eq!(alone.matches("one node of a Cluster").count(), 1, "{alone}");
}

/// A value that no instance has stored makes every decision on its key an error. It is named, and
/// deleted.
#[test]
fn a_key_whose_value_is_no_state_is_named_and_deleted() {
    let redis = Redis::start();
    let directory = at(&redis);
    let keys = |words: &[&str]| run(directory.path(), &[&["keys"], words].concat());
    let shown = json(&keys(&["show", "--json", "d", "k=secret"]));
    let name = shown["descriptors"][0]["key"]["name"].as_str().unwrap();
    for value in [&["SET", name, "hello world"][..], &["RPUSH", name, "x"]] {
        redis.ask(value);
        let error = error_text(&keys(&["show", "d", "k=secret"]), 1);
        assert!(error.contains(name), "{error}");
        assert!(
            error.contains("this version cannot read its value"),
            "{error}"
        );
        assert!(
            error.contains("`tollgate keys reset` deletes it"),
            "{error}"
        );
        assert!(!error.contains("cannot reach"), "{error}");
        let reset = keys(&["reset", "d", "k=secret"]);
        let text = String::from_utf8(reset.stdout).unwrap();
        assert!(text.contains("held      unreadable: "), "{text}");
        assert!(text.contains("deleted   yes"), "{text}");
        assert_eq!(redis.ask(&["EXISTS", name]).trim(), "0");
    }
    redis.ask(&["SET", name, "hello world"]);
    let reset = json(&keys(&["reset", "--json", "d", "k=secret"]));
    let key = &reset["descriptors"][0]["key"];
    assert_eq!(
        (&key["deleted"], &key["remaining"]),
        (&json!(true), &json!(2))
    );
    assert!(key["unreadable"].is_string(), "{key}");
}

/// Redis was reached: what it rejects is said, and which rights are missing.
#[test]
fn a_command_that_redis_rejects_is_not_a_redis_that_is_not_reached() {
    let redis = Redis::start();
    let directory = at(&redis);
    redis.ask(&["ACL", "SETUSER", "default", "-eval"]);
    for action in ["show", "reset"] {
        let output = run(directory.path(), &["keys", action, "d", "k=secret"]);
        let error = error_text(&output, 1);
        assert!(error.contains("rejects the command: NOPERM"), "{error}");
        assert!(error.contains("'eval'"), "{error}");
        assert!(error.contains("docs/redis.md"), "{error}");
        assert!(!error.contains("cannot reach"), "{error}");
    }
}

#[test]
fn keys_in_memory_are_in_the_process() {
    let directory = directory(&[("rules.yaml", RULES), ("tollgate.yaml", SETTINGS)]);
    let shown = run(directory.path(), &["keys", "show", "d", "k=1"]);
    let text = error_text(&shown, 1);
    assert!(text.contains("memory of the process that serves"), "{text}");
}

#[test]
fn a_domain_with_errors_is_not_guessed_at() {
    let rules = format!("{RULES}---\ndomain: e\ncolour: red\n");
    let settings = format!("{SETTINGS}store: {{redis: {{url: 'redis://127.0.0.1:1'}}}}\n");
    let directory = directory(&[("rules.yaml", &rules), ("tollgate.yaml", &settings)]);
    let text = error_text(&run(directory.path(), &["keys", "show", "e", "k=1"]), 1);
    assert!(text.contains("unknown key `colour`"), "{text}");
}
