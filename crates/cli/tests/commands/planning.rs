//! `tollgate plan`: its figures beside what a store and a Redis really take, its errors.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tollgate_core::{Charge, Cost, Limit, Moment, Now};
use tollgate_memory::Memory;
use tollgate_testbed::Redis;

use crate::house::{Service, directory, run};
use crate::schema::violations;

/// The constants that the program was built with.
const CONSTANTS: &str = include_str!("../../src/plan/constants.json");
const NO_FILES: &[(&str, &str)] = &[];

fn plan(arguments: &[&str]) -> Output {
    let directory = directory(NO_FILES);
    run(directory.path(), &[&["plan"], arguments].concat())
}

fn json(arguments: &[&str]) -> Value {
    let output = plan(&[arguments, &["--output", "json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let found = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(violations("plan", &found), [""; 0]);
    found
}

fn value(report: &Value, section: &str, name: &str) -> u64 {
    let value = report[section][name]["value"].as_u64();
    value.unwrap_or_else(|| panic!("no {section}.{name}: {report}"))
}

fn message(arguments: &[&str]) -> String {
    let output = plan(arguments);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// The store that the planned settings lead to has exactly the planned table, and full states of
/// all users take at most what is planned for them, and nearly as much.
#[test]
fn planned_memory_is_that_of_a_store_with_so_many_users() {
    const USERS: u64 = 3_000;
    for (text, requests) in [
        ("100 per 1m token_bucket", 1),
        ("60 per 1h sliding_window in 60 segments", 60),
        ("500 per 1h sliding_log", 500),
    ] {
        let report = json(&["--users", "3k", "--rate", "1", "--limit", text]);
        let limit: Limit = text.parse().unwrap();
        let settings = format!("memory: {{max_keys: {USERS}}}");
        assert_eq!(report["settings"], settings, "{text}");
        let builder = Memory::builder().max_keys(3_000).limits([&limit]);
        let size = builder.size();
        let table = u64::try_from(size.table_bytes).unwrap();
        assert_eq!(value(&report, "memory", "tableBytes"), table);
        let store = builder.build();
        let pause = limit.window().as_nanos() / requests;
        for request in 0..requests {
            let now = Now::at(Moment::from_nanos(86_400_000_000_000 + pause * request));
            for user in 0..USERS {
                let charge = Charge::new(store.key_of(&user), &limit, Cost::ONE);
                assert!(store.check_at(now, &charge).unwrap().is_allowed());
            }
        }
        let stats = store.stats();
        let arena = u64::try_from(size.arena_bytes).unwrap();
        assert_eq!(stats.bytes_max, table + arena);
        let spilled = value(&report, "memory", "spilledBytes");
        assert!(stats.arena_bytes <= spilled, "{text}: {stats:?}, {spilled}");
        // Even pauses take less than the worst case of a log, and a key or two may be evicted.
        let least = spilled * 80 / 100;
        assert!(stats.arena_bytes >= least, "{text}: {stats:?}, {spilled}");
    }
}

/// Large states get `max_bytes`, and a store with these settings has room for all of them.
#[test]
fn states_beyond_the_default_arena_are_given_room() {
    let limit = "1000000 per 1d sliding_log";
    let report = json(&["--users", "10k", "--rate", "1", "--limit", limit]);
    let settings = report["settings"].as_str().unwrap();
    let (_, bytes) = settings.split_once("max_bytes: ").unwrap();
    let mebibytes: usize = bytes.strip_suffix("MiB}").unwrap().parse().unwrap();
    let limit: Limit = limit.parse().unwrap();
    let builder = Memory::builder()
        .max_keys(10_000)
        .max_bytes(mebibytes << 20);
    let needed = 10_000 * tollgate_memory::spilled_bytes_max(&limit);
    let size = builder.size();
    assert!(size.arena_bytes >= needed, "{size:?} {needed}");
    assert!(size.table_bytes >= 10_000 * 23, "{size:?}");
}

/// With this variable in the environment, the plan is not compared with another Redis than the one
/// that was measured.
const ANY_REDIS: &str = "TOLLGATE_ANY_REDIS";

/// As many keys of a real service in a real Redis as are planned take what is planned.
#[test]
fn planned_memory_of_redis_is_that_of_a_redis_with_so_many_users() {
    const USERS: u64 = 8_000;
    let redis = Redis::start();
    let version = redis.ask(&["INFO", "server"]);
    let constants: Value = serde_json::from_str(CONSTANTS).unwrap();
    let measured = constants["measured"]["redis"].as_str().unwrap();
    let (major, _) = measured.split_once('.').unwrap();
    if !version.contains(&format!("redis_version:{major}.")) {
        let problem = format!("the constants are of Redis {measured}, which is not here");
        assert!(
            std::env::var_os(ANY_REDIS).is_some(),
            "{problem}: install it, or set {ANY_REDIS}=1 to go without this comparison"
        );
        eprintln!("{problem}: not compared");
        return;
    }
    for limit in [
        "unit: day, requests_per_unit: 9",
        "unit: day, requests_per_unit: 1, algorithm: sliding_log",
    ] {
        redis.ask(&["FLUSHALL"]);
        let rules = format!("domain: d\ndescriptors: [{{key: user, rate_limit: {{{limit}}}}}]\n");
        let settings = format!(
            "rules: rules.yaml\nlisten: {{grpc: null, redis: '127.0.0.1:0', http: '127.0.0.1:0', \
             admin: null}}\nlog: {{format: json}}\nstore: {{redis: {{url: 'redis://{}', \
             timeout: 10s}}}}\n",
            redis.address()
        );
        let folder = directory(&[("rules.yaml", &rules), ("tollgate.yaml", &settings)]);
        // The scripts are there already.
        ask_each(folder.path(), &redis, USERS..USERS + 64);
        let before = redis.keys_and_bytes();
        ask_each(folder.path(), &redis, 64..USERS);
        let grown = || {
            let after = redis.keys_and_bytes();
            assert_eq!(after.0 - before.0, USERS - 64, "keys");
            (after.1 - before.1) * USERS / (USERS - 64)
        };
        let arguments = [
            "--users", "8k", "--rate", "1", "--store", "redis", "--rules",
        ];
        let file = folder.path().join("rules.yaml").display().to_string();
        let more = [&file, "--descriptor", "user={client}"];
        let report = json(&[&arguments[..], &more].concat());
        let keys = value(&report, "redis", "keyBytes") + value(&report, "redis", "hashTableBytes");
        // Redis counts what its clients had up to a second ago, or longer if the machine stalls.
        let latest = Instant::now() + Duration::from_secs(10);
        loop {
            let grown = grown();
            if (grown * 97 / 100..=grown * 103 / 100).contains(&keys) {
                break;
            }
            let is_late = Instant::now() > latest;
            assert!(!is_late, "{limit}: planned {keys}, grown {grown}");
        }
    }
}

/// One request of each of these users, over several connections to a service that ends afterwards:
/// buffers of its connections to Redis are counted as they were up to a second before.
fn ask_each(folder: &Path, redis: &Redis, users: std::ops::Range<u64>) {
    const CONNECTIONS: usize = 16;
    const TRIES_MAX: u32 = 10_000;
    let mut service = Service::start(folder);
    let address = &service.address("http");
    thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let users = users.clone().skip(connection).step_by(CONNECTIONS);
            scope.spawn(move || ask_in_turn(address, users));
        }
    });
    drop(service);
    let is_alone = |_: u32| redis.ask(&["CLIENT", "LIST"]).trim().lines().count() == 1;
    assert!((0..TRIES_MAX).any(is_alone), "connections stay open");
}

fn ask_in_turn(address: &str, users: impl Iterator<Item = u64>) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    for user in users {
        let body = format!("{{\"domain\": \"d\", \"descriptors\": [{{\"user\": \"u{user}\"}}]}}");
        let length = body.len();
        let head =
            format!("POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n");
        stream
            .write_all(format!("{head}{body}").as_bytes())
            .unwrap();
        let (mut line, mut length) = (String::new(), 0);
        assert!(reader.read_line(&mut line).unwrap() > 0);
        assert!(line.contains(" 200 "), "{line}");
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
            if let Some(number) = line.strip_prefix("content-length: ") {
                length = number.trim().parse().unwrap();
            }
        }
        reader.read_exact(&mut vec![0; length]).unwrap();
    }
}

/// Every constant of a figure is in the report, with where it was measured.
#[test]
fn every_figure_says_where_its_constants_come_from() {
    let report = json(&["--users", "1M", "--rate", "10k/s", "--store", "redis"]);
    let constants: Value = serde_json::from_str(CONSTANTS).unwrap();
    let mut named = 0;
    for section in ["memory", "processors", "redis"] {
        for (name, figure) in report[section].as_object().unwrap() {
            for constant in figure["from"].as_array().unwrap() {
                let constant = constant.as_str().unwrap();
                let used = &report["constants"]["used"][constant];
                assert_eq!(
                    used["value"], constants["constants"][constant]["value"],
                    "{name}"
                );
                named += 1;
            }
        }
    }
    assert!(named > 10, "{named}");
    let commit = &report["constants"]["measured"]["commit"];
    assert_eq!(*commit, constants["measured"]["commit"]);
    let text = String::from_utf8(plan(&["--users", "1M", "--rate", "1"]).stdout).unwrap();
    assert!(text.contains(commit.as_str().unwrap()), "{text}");
}

/// The arithmetic, with constants of which each product is known.
#[test]
fn a_plan_follows_from_its_constants() {
    let mut constants: Value = serde_json::from_str(CONSTANTS).unwrap();
    for (name, value) in [
        ("service.grpc", 20_000),
        ("service.limit", 1_000),
        ("library.token_bucket", 100),
        ("library.sliding_log", 400),
        ("redis.cpu.token_bucket", 5_000),
        ("redis.cpu.sliding_log", 7_000),
        ("redis.instance", 3_000),
        ("service.idle_with_redis", 10_000_000),
    ] {
        constants["constants"][name]["value"] = value.into();
    }
    let folder = directory(&[("mine.json", &constants.to_string())]);
    let arguments = [
        "plan",
        "--users",
        "1M",
        "--rate",
        "1M/s",
        "--listener",
        "grpc",
        "--store",
        "redis",
        "--constants",
        "mine.json",
        "--limit",
        "9/s",
        "--limit",
        "9/m sliding_log",
        "--spare",
        "1",
        "--cores",
        "2",
        "--utilization",
        "50",
        "--output",
        "json",
    ];
    let output = run(folder.path(), &arguments);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    // 20 us, 1.3 us for a second limit that takes 300 ns more than a token bucket, and two calls.
    let nanos = 20_000 + 1_300 + 2 * 3_000;
    assert_eq!(value(&report, "processors", "nanosPerRequest"), nanos);
    assert_eq!(value(&report, "processors", "busy"), nanos);
    // 27.3 busy processors, and one in each machine.
    assert_eq!(value(&report, "processors", "needed"), 28);
    assert_eq!(value(&report, "processors", "instances"), 29);
    assert_eq!(value(&report, "redis", "nanosPerCall"), 12_000);
    assert_eq!(value(&report, "redis", "nodes"), 24);
    assert_eq!(value(&report, "redis", "callsPerSecond"), 1_000_000);
    let instance = value(&report, "memory", "instanceBytes");
    let parts = ["tableBytes", "spilledBytes", "processBytes"];
    let sum: u64 = parts
        .iter()
        .map(|part| value(&report, "memory", part))
        .sum();
    assert_eq!(instance, sum);
    assert_eq!(value(&report, "memory", "totalBytes"), 29 * instance);
    assert_eq!(report["constants"]["source"], "mine.json");
}

#[test]
fn rules_say_which_limits_have_a_key_for_each_user() {
    let rules = "domain: d\ndescriptors:\n  \
        - {key: user, rate_limit: {unit: minute, requests_per_unit: 9}}\n  \
        - {key: all, value: x, rate_limit: {unit: second, requests_per_unit: 99}}\n";
    let folder = directory(&[("rules.yaml", rules)]);
    let arguments = [
        "plan",
        "--users",
        "5k",
        "--rate",
        "9M/s",
        "--rules",
        "rules.yaml",
        "--descriptor",
        "user={client}",
        "--descriptor",
        "all=x",
        "--store",
        "redis",
        "--output",
        "json",
    ];
    let report: Value = serde_json::from_slice(&run(folder.path(), &arguments).stdout).unwrap();
    assert_eq!(violations("plan", &report), [""; 0]);
    let keys: Vec<_> = [0, 1]
        .map(|at| report["limits"][at]["keys"].as_u64().unwrap())
        .into();
    assert_eq!(keys, [5_000, 1]);
    let warning = report["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("share the key of `99 per 1s fixed_window`"),
        "{warning}"
    );
    let arguments = [&arguments[..], &["--mode", "leased"]].concat();
    let report: Value = serde_json::from_slice(&run(folder.path(), &arguments).stdout).unwrap();
    assert_eq!(report["warnings"], serde_json::json!([]));
    assert_eq!(report["limits"][1]["mode"], "leased");
    // Descriptors that meet none of them.
    let arguments = [
        "plan",
        "--users",
        "5k",
        "--rate",
        "9",
        "--rules",
        "rules.yaml",
    ];
    let arguments = [&arguments[..], &["--descriptor", "usr={client}"]].concat();
    let output = run(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("no limit of `d` applies to these descriptors"),
        "{text}"
    );
}

/// Of a limit that takes longer than a token bucket, only the difference counts.
#[test]
fn a_difference_of_constants_names_both() {
    let mut constants: Value = serde_json::from_str(CONSTANTS).unwrap();
    constants["constants"]["library.token_bucket"]["value"] = 100.into();
    constants["constants"]["library.sliding_log"]["value"] = 400.into();
    let folder = directory(&[("mine.json", &constants.to_string())]);
    let arguments = ["plan", "--users", "1k", "--rate", "9", "--output", "json"];
    let arguments = [&arguments[..], &["--constants", "mine.json"]].concat();
    let log = ["--limit", "9/m sliding_log"];
    let bucket = ["--limit", "9/m"];
    for (limits, from) in [
        (
            &log[..],
            &[
                "service.http",
                "library.sliding_log",
                "library.token_bucket",
            ][..],
        ),
        (
            &[bucket, log].concat(),
            &[
                "service.http",
                "service.limit",
                "library.sliding_log",
                "library.token_bucket",
            ],
        ),
        (
            &[bucket, bucket].concat(),
            &["service.http", "service.limit"],
        ),
    ] {
        let output = run(folder.path(), &[&arguments[..], limits].concat());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = &report["processors"]["nanosPerRequest"]["from"];
        assert_eq!(*found, serde_json::json!(from), "{limits:?}");
        for constant in from {
            let used = &report["constants"]["used"][constant]["value"];
            assert!(used.is_u64(), "{constant}: {report}");
        }
    }
}

/// Keys on several Redis nodes take more than one call for each request.
#[test]
fn requests_over_several_redis_nodes_are_warned_of() {
    let calls = |rate: &str, limits: &[&str]| {
        let arguments = ["--users", "1M", "--rate", rate, "--store", "redis"];
        let report = json(&[&arguments[..], limits].concat());
        let what = report["redis"]["callsPerSecond"]["what"].as_str().unwrap();
        let warnings = report["warnings"].to_string();
        (
            what.contains("at most one for each request"),
            warnings.contains("keys of a request are on several Redis nodes"),
        )
    };
    let two = ["--limit", "9/s", "--limit", "90/m"];
    assert_eq!(calls("10M", &two), (false, true));
    assert_eq!(calls("10", &two), (true, false), "one node");
    assert_eq!(calls("10M", &two[..2]), (true, false), "one key");
    let leased = [&two[..], &["--mode", "leased"]].concat();
    assert_eq!(calls("10M", &leased), (true, false), "leased one by one");
}

#[test]
fn memory_beyond_64_bits_is_planned() {
    let limit = "4294967295 per 1d sliding_log";
    let arguments = ["--users", "900G", "--rate", "1", "--limit", limit];
    let per_key = tollgate_memory::spilled_bytes_max(&limit.parse().unwrap());
    let spilled = 900_000_000_000 * u128::try_from(per_key).unwrap();
    let tenths = spilled.div_ceil(100_000_000);
    let shown = String::from_utf8(plan(&arguments).stdout).unwrap();
    let expected = format!("{}.{} GB  states that are larger", tenths / 10, tenths % 10);
    assert!(shown.contains(&expected), "{expected}\n{shown}");
    assert!(!shown.contains("18446744073.8 GB"), "{shown}");
    let report = json(&arguments);
    assert_eq!(value(&report, "memory", "spilledBytes"), u64::MAX);
}

/// A store has a largest arena, whatever its settings.
#[test]
fn states_beyond_the_largest_arena_are_warned_of() {
    let limit = "1000000 per 1d sliding_log";
    for (users, is_warned) in [("10k", false), ("1M", true)] {
        let report = json(&["--users", users, "--rate", "1", "--limit", limit]);
        let warnings = report["warnings"].to_string();
        let found = warnings.contains("live keys are evicted");
        assert_eq!(found, is_warned, "{users}: {warnings}");
    }
}

#[test]
fn several_instances_in_memory_are_warned_of() {
    let report = json(&["--users", "1", "--rate", "10M/s"]);
    let warning = report["warnings"][0].as_str().unwrap();
    assert!(warning.contains("instances count alone"), "{warning}");
}

#[test]
fn a_figure_names_each_constant_once() {
    let redis = ["--users", "1", "--rate", "1", "--store", "redis"];
    let limits = ["9/s", "9/m sliding_log", "90/m"].map(|limit| ["--limit", limit]);
    let report = json(&[&redis[..], &limits.concat()].concat());
    let mut figures = 0;
    for section in ["memory", "processors", "redis"] {
        for (name, figure) in report[section].as_object().unwrap() {
            let from: Vec<&str> = figure["from"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one.as_str().unwrap())
                .collect();
            let distinct: HashSet<&str> = from.iter().copied().collect();
            assert_eq!(from.len(), distinct.len(), "{name}: {from:?}");
            figures += 1;
        }
    }
    assert!(figures > 10, "{report}");
}

/// The texts in backticks that begin with a digit.
fn quoted_limits(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let is_limit = |quoted: &&str| quoted.starts_with(|first: char| first.is_ascii_digit());
    quoted.filter(is_limit).collect()
}

#[test]
fn the_limits_in_the_help_and_in_the_document_are_valid() {
    let help = String::from_utf8(plan(&["--help"]).stdout).unwrap();
    let (_, help) = help.split_once("--limit <LIMIT>").unwrap();
    let (help, _) = help.split_once("--rules").unwrap();
    let document = include_str!("../../../../docs/plan.md");
    let row = document
        .lines()
        .find(|line| line.contains("--limit 'LIMIT'"));
    for text in [help, row.unwrap()] {
        let limits = quoted_limits(text);
        assert!(limits.len() >= 4, "{text}");
        for limit in limits {
            let words: Vec<&str> = limit.split_whitespace().collect();
            let limit = words.join(" ");
            json(&["--users", "1", "--rate", "1", "--limit", &limit]);
        }
    }
}

#[test]
fn errors_say_what_to_do() {
    for (arguments, part) in [
        (
            &["--users", "0", "--rate", "1"][..],
            "write 250000, 250k, 1M or 2G",
        ),
        (
            &["--users", "1", "--rate", "fast"],
            "is not a rate such as 10k/s",
        ),
        (
            &["--users", "1", "--rate", "1", "--mode", "leased"],
            "add --store redis",
        ),
        (
            &["--users", "1", "--rate", "1", "--limit", "9"],
            "write `100/minute`",
        ),
        (
            &["--users", "1", "--rate", "1", "--limit", "1/5x"],
            "or a length such as 15m: unknown unit of time `x`",
        ),
        (
            &["--users", "1", "--rate", "1", "--limit", "100/ns"],
            "not all of its values are valid: a bucket refills at most one unit in 100ns",
        ),
        (
            &["--users", "1", "--rate", "1", "--constants", "no"],
            "cannot read no:",
        ),
        (
            &["--users", "1", "--rate", "1", "--rules", "no"],
            "--descriptor",
        ),
        (
            &[
                "--users",
                "1",
                "--rate",
                "1",
                "--rules",
                "no",
                "--descriptor",
                "a={path}",
            ],
            "there is no `{path}`: this traffic has only `{client}`",
        ),
        (&["--users", "1", "--rate", "1", "--cores", "0"], "1..=4096"),
        (
            &[
                "--users", "1", "--rate", "1", "--store", "redis", "--limit", "700000/s",
            ],
            "Redis cannot keep `700000 per 1s token_bucket`",
        ),
    ] {
        let message = message(arguments);
        assert!(message.contains(part), "{arguments:?}: {message}");
    }
}

/// A limit that a mode does not suit, or that is too small to be leased, is decided strictly.
#[test]
fn the_mode_of_a_limit_is_the_one_in_effect() {
    let redis = ["--users", "1k", "--rate", "10", "--store", "redis"];
    for (limit, mode, expected) in [
        ("100/minute", "leased", "leased"),
        ("100/minute leaky_bucket", "leased", "strict"),
        ("100/minute reserved 20%", "leased", "strict"),
        ("100/minute elastic 20%", "write_back", "strict"),
        ("2/minute", "leased", "strict"),
        ("2/minute", "write_back", "write_back"),
        ("100/minute sliding_log", "write_back", "strict"),
        ("100/minute sliding_log", "leased", "strict"),
        ("100/minute sliding_window", "leased", "leased"),
        ("100/second sliding_window", "leased", "strict"),
    ] {
        let arguments = [&redis[..], &["--limit", limit, "--mode", mode]].concat();
        let found = json(&arguments);
        assert_eq!(found["limits"][0]["mode"], expected, "{limit} {mode}");
        let shown = String::from_utf8(plan(&arguments).stdout).unwrap();
        let line = format!("a key for each user, {expected}\n");
        assert!(shown.contains(&line), "{limit} {mode}: {shown}");
    }
}

/// Advice to lease a limit is given only if it can be followed.
#[test]
fn a_shared_key_is_not_to_be_leased_if_it_cannot_be() {
    for (limit, expected) in [
        ("1000000/s", "calls: give this limit `mode: leased`"),
        (
            "{unit: second, requests_per_unit: 1000, algorithm: leaky_bucket}",
            "calls: this limit cannot be leased, so give each user a key of its own",
        ),
    ] {
        let rules = format!("domain: d\ndescriptors: [{{key: k, rate_limit: {limit}}}]\n");
        let directory = directory(&[("rules.yaml", &rules)]);
        let arguments = ["plan", "--users", "1k", "--rate", "10M", "--store", "redis"];
        let by = ["--rules", "rules.yaml", "--descriptor", "k=all"];
        let output = run(directory.path(), &[&arguments[..], &by].concat());
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(shown.contains(expected), "{shown}");
    }
}
