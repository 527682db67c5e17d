//! `tollgate simulate`: its report, its table, its errors.

use std::process::{Child, Command, Output, Stdio};
use std::thread::yield_now;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::house::{directory, run, tollgate};
use crate::schema::violations;

/// For what happens soon.
const TIMEOUT: Duration = Duration::from_secs(20);

const RULES: &str = "domain: web\ndescriptors:\n  - {key: remote_address, rate_limit: {unit: \
    second, requests_per_unit: 10, algorithm: token_bucket}}\n";

fn rules() -> TempDir {
    directory(&[("rules.yaml", RULES)])
}

fn simulate(directory: &TempDir, arguments: &[&str]) -> Output {
    let all = [&["simulate", "--rules", "rules.yaml"][..], arguments].concat();
    run(directory.path(), &all)
}

fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn message(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The report, the decisions and the page of a simulation.
fn write_all(directory: &TempDir, arguments: &[&str]) -> (Value, String, String) {
    let outputs = ["--decisions", "out", "--report", "page.html"];
    let outputs = [&outputs[..], &["--output", "json"], arguments].concat();
    let output = simulate(directory, &outputs);
    let read = |name| std::fs::read_to_string(directory.path().join(name)).unwrap();
    (json(&output), read("out"), read("page.html"))
}

#[test]
fn the_same_seed_writes_the_same_report_decisions_and_page() {
    let directory = rules();
    let traffic = [
        "--traffic",
        "poisson 30/s keys 2 for 9s retry backoff 1s",
        "--traffic",
        "new-keys 9/s for 9s",
    ];
    let mut written = Vec::new();
    for seed in ["5", "5", "6"] {
        let seed = ["--seed", seed];
        written.push(write_all(&directory, &[&traffic[..], &seed].concat()));
    }
    assert_eq!(written[0], written[1]);
    let (report, decisions, page) = &written[0];
    assert_ne!(decisions, &written[2].1);
    assert_eq!(violations("report", report), [""; 0]);
    for line in decisions.lines() {
        let decision = serde_json::from_str(line).unwrap();
        assert_eq!(violations("decision", &decision), [""; 0]);
    }
    let sum = |member: &str| {
        let each = report["traffic"].as_array().unwrap().iter();
        each.map(|one| one[member].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(report["events"], sum("attempts"));
    assert_eq!(report["allowed"], sum("allowed"));
    assert_eq!(report["seed"], 5);
    assert!(report["denied"].as_u64() > Some(0));
    assert!(page.contains(&format!("data-count=\"{}\"", sum("attempts"))));
    assert!(page.contains("<h1>Tollgate simulate</h1>"));
    assert!(page.contains("Seed 5: "));
    for workload in report["traffic"].as_array().unwrap() {
        let words = workload["traffic"].as_str().unwrap();
        assert!(page.contains(&format!("<td>{words}</td>")), "{words}");
    }
}

#[test]
fn the_table_has_what_each_algorithm_allows() {
    let directory = rules();
    let output = run(
        directory.path(),
        &["simulate", "--table", "--output", "json"],
    );
    let found = json(&output);
    assert_eq!(violations("tables", &found), [""; 0]);
    let rows = found["tables"][0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 5 * 8);
    for row in rows {
        let offered = row["offeredPerUnit"].as_u64().unwrap();
        let allowed = row["allowed"].as_u64().unwrap();
        let in_windows = 60 * offered.min(10);
        // A bucket begins with ten units, and has refilled 59.95 to 59.99 seconds' worth of units
        // when the last request comes; a tenth of a second is a unit.
        let in_bucket = if offered > 10 { 10 + 599 } else { in_windows };
        let expected = match row["algorithm"].as_str().unwrap() {
            "fixed_window" | "sliding_log" => in_windows..=in_windows,
            // It is an estimate, which may deny up to a unit of a window.
            "sliding_window" if offered == 10 => in_windows - 60..=in_windows,
            "sliding_window" => in_windows..=in_windows,
            "token_bucket" | "leaky_bucket" => in_bucket..=in_bucket,
            other => panic!("{other}"),
        };
        assert!(expected.contains(&allowed), "{row}");
        assert_eq!(row["requests"], 60 * offered);
    }
    let tables = ["simulate", "--table", "--limit", "5,7/minute"];
    let text = String::from_utf8(run(directory.path(), &tables).stdout).unwrap();
    assert!(text.contains("\none client, 7 per minute, 60 minutes of constant traffic\n"));
    assert_eq!(text.lines().count(), 2 * 43 + 1);
}

#[test]
fn the_table_takes_every_window_of_a_limit() {
    let directory = rules();
    for (limit, shown, words) in [
        ("5/15m", "5/15m", "5 per 15m, 60 times 15m of"),
        ("5/week", "5/7d", "5 per 7d, 60 times 7d of"),
        ("5/month", "5/30d", "5 per 30d, 60 times 30d of"),
        ("5/366d", "5/366d", "5 per 366d, 60 times 366d of"),
        ("5/500ms", "5/500ms", "5 per 500ms, 60 times 500ms of"),
        ("5/60s", "5/minute", "5 per minute, 60 minutes of"),
    ] {
        let table = ["simulate", "--table", "--limit", limit];
        let output = run(directory.path(), &table);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(words), "{limit}: {text}");
        let found = json(&run(
            directory.path(),
            &[&table[..], &["--output", "json"]].concat(),
        ));
        assert_eq!(violations("tables", &found), [""; 0]);
        assert_eq!(found["tables"][0]["limit"], shown);
        for row in found["tables"][0]["rows"].as_array().unwrap() {
            let offered = row["offeredPerUnit"].as_u64().unwrap();
            assert_eq!(row["requests"], 60 * offered, "{limit}: {row}");
            if row["algorithm"] == "fixed_window" {
                assert_eq!(row["allowed"], 60 * offered.min(5), "{limit}: {row}");
            }
        }
    }
}

/// Whether the process handles SIGINT (2), by the mask of its status.
fn handles_interrupts(process: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    u64::from_str_radix(mask.unwrap().trim(), 16).unwrap() & 2 != 0
}

/// Events are simulated first and their decisions written after that, so there are none yet.
#[test]
fn an_interrupt_of_the_simulation_writes_nothing_and_says_so() {
    let directory = rules();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("out"), "from before\n").unwrap();
    let process = tollgate(directory.path())
        .args(["simulate", "--rules", "rules.yaml", "--decisions", "out"])
        .args(["--traffic", "constant 100000/s for 8m"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let latest = Instant::now() + TIMEOUT;
    while !handles_interrupts(&process) {
        assert!(Instant::now() < latest, "it handles no interrupt");
        yield_now();
    }
    let id = process.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert!(sent.success());
    let output = process.wait_with_output().unwrap();
    let found = message(&output);
    assert_eq!(output.status.code(), Some(130), "{found}");
    // It may not have begun.
    let early =
        "error: interrupted before anything was read; nothing was decided, nothing written\n";
    let count = found.strip_prefix("error: interrupted after the simulation of ");
    let count = count.and_then(|rest| {
        rest.strip_suffix(" events, before their decisions were written; nothing is written\n")
    });
    let is_counted = count.is_some_and(|count| count.parse::<u64>().is_ok());
    assert!(is_counted || found == early, "{found}");
    assert!(!path("out.partial").exists());
    let before = std::fs::read_to_string(path("out")).unwrap();
    assert_eq!(before, "from before\n");
}

#[test]
fn an_error_of_the_table_is_about_its_limit() {
    let directory = rules();
    for (limit, expected) in [
        (
            "7/1ns",
            "--limit 7/1ns: token_bucket: a bucket refills at most one unit in 100ns, and 1ns is \
             shorter; make the window longer",
        ),
        ("010/s", "`010` begins with a 0"),
    ] {
        let output = run(directory.path(), &["simulate", "--table", "--limit", limit]);
        assert_eq!(output.status.code(), Some(2), "{limit}");
        let message = message(&output);
        assert!(message.contains(expected), "{limit}: {message}");
    }
    // The shortest window of a bucket, in which up to 100 requests are offered.
    let shortest = ["simulate", "--table", "--limit", "1/100ns"];
    assert_eq!(run(directory.path(), &shortest).status.code(), Some(0));
}

#[test]
fn the_help_has_what_the_command_has() {
    let directory = rules();
    let help = simulate(&directory, &["--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    let usage = "[OPTIONS] --rules <PATH> --traffic <WORDS>\n";
    assert!(help.contains(usage), "{help}");
    for absent in ["newly_denied", "--compare"] {
        assert!(!help.contains(absent), "{help}");
    }
}

#[test]
fn every_error_says_what_to_do() {
    let directory = rules();
    for (arguments, expected) in [
        (&[][..], "--traffic"),
        (&["--traffic", "constant"], "add a rate such as `20/s`"),
        (
            &["--traffic", "constant 1/s", "--table"],
            "cannot be used with",
        ),
        (&["--traffic", "constant 1/s", "--limit", "1/s"], "--limit"),
        (
            &["--traffic", "constant 1/s", "--descriptor", "a={b}"],
            "there is no `{b}`: this traffic has only `{client}`",
        ),
        (
            &["--traffic", "constant 1/s", "--descriptor", "a={path}"],
            "there is no `{path}`: this traffic has only `{client}`",
        ),
        (
            &["--traffic", "poisson 1/366d for 1ms"],
            "there is no event to decide",
        ),
        (
            &["--traffic", "constant 1/s", "--fail-if", "newly_denied > 0"],
            "--fail-if newly_denied is for two sets of rules, which only `tollgate replay \
             --compare` has; use another metric, such as denied",
        ),
        (
            &["--traffic", "constant 1/s", "--report", "rules.yaml"],
            "--report would overwrite rules.yaml",
        ),
        (
            &["--traffic", "constant 1/s", "--decisions", "rules.yaml"],
            "--decisions would overwrite",
        ),
    ] {
        let output = simulate(&directory, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let message = message(&output);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
    let condition = ["--traffic", "constant 1/s", "--fail-if", "events == 60"];
    assert_eq!(simulate(&directory, &condition).status.code(), Some(3));
    let unknown = ["--traffic", "constant 1/s", "--descriptor", "a={client}"];
    let output = String::from_utf8(simulate(&directory, &unknown).stdout).unwrap();
    assert!(output.contains("no rule matched any event"), "{output}");
}

#[test]
fn the_table_has_no_instances() {
    let directory = rules();
    for option in [
        "--instances=2",
        "--mode=leased",
        "--on-store-error=deny",
        "--delay=2ms",
        "--timeout=9ms",
        "--skew=1s",
        "--sync=1s",
        "--crash=1s",
        "--outage=1s,2s",
        "--failover=1s,2s",
    ] {
        let output = run(directory.path(), &["simulate", "--table", option]);
        assert_eq!(output.status.code(), Some(2), "{option}");
        let (name, _) = option.split_once('=').unwrap();
        let message = message(&output);
        let expected = format!("'--table' cannot be used with '{name} <");
        assert!(message.contains(&expected), "{message}");
    }
}

#[test]
fn every_error_about_instances_says_what_to_do() {
    let directory = rules();
    let without = "--failover: only for instances that share limits over Redis; add --instances N";
    let max_keys = "--max-keys: instances that share limits over Redis keep all keys there";
    let many = "more than 1000000 events with their retries; shorten the traffic";
    for (traffic, options, expected) in [
        ("constant 1/s", "--failover 1s,10ms", without),
        (
            "constant 1/s",
            "--instances 101",
            "must be a whole number from 1 to 100",
        ),
        (
            "constant 1/s",
            "--instances 2 --outage 3s",
            "write two times such as 20s,5s",
        ),
        (
            "constant 1/s",
            "--instances 2 --delay 1us",
            "must be whole milliseconds, such as 2ms",
        ),
        (
            "constant 1/s",
            "--instances 2 --skew 2h",
            "--skew 2h: must be from 0ms to 1h",
        ),
        (
            "constant 1/s",
            "--instances 2 --crash soon",
            "write a time such as 20s or 500ms",
        ),
        (
            "constant 1/s",
            "--instances 2 --mode exact",
            "write strict, leased or write_back",
        ),
        ("constant 1/s", "--instances 2 --max-keys 9", max_keys),
        (
            "constant 1/s for 9s",
            "--instances 2 --crash 8s --outage 9s,1s",
            "--outage 9s: the traffic ends at 9s; write an earlier time",
        ),
        ("constant 60000/s for 20s", "--instances 2", many),
    ] {
        let mut arguments = vec!["--traffic", traffic];
        arguments.extend(options.split(' '));
        let output = simulate(&directory, &arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let message = message(&output);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
}

/// Three instances, two seconds of whose six a failover takes.
const INSTANCES: [&str; 5] = [
    "--traffic",
    "poisson 60/s keys 4 for 6s retry backoff 1s",
    "--instances",
    "3",
    "--failover=2s,300ms",
];

#[test]
fn instances_write_the_same_report_decisions_and_page_for_the_same_seed() {
    let directory = rules();
    let mut written = Vec::new();
    for (seed, mode) in [("5", "write_back"), ("5", "write_back"), ("5", "strict")] {
        let options = ["--seed", seed, "--mode", mode, "--on-store-error", "error"];
        written.push(write_all(&directory, &[&INSTANCES[..], &options].concat()));
    }
    assert_eq!(written[0], written[1]);
    assert_ne!(written[0].1, written[2].1);
    let (report, decisions, page) = &written[2];
    assert_eq!(violations("report", report), [""; 0]);
    let mut failed = 0;
    for line in decisions.lines() {
        let decision: Value = serde_json::from_str(line).unwrap();
        assert_eq!(violations("decision", &decision), [""; 0]);
        failed += u64::from(decision["failed"] == true);
    }
    let count = |path: &str| report.pointer(path).unwrap().as_u64().unwrap();
    assert!(failed > 0);
    assert_eq!(count("/instances/failed"), failed);
    assert_eq!(
        count("/events"),
        count("/allowed") + count("/denied") + failed
    );
    assert_eq!(count("/instances/allowed"), count("/allowed"));
    assert_eq!(count("/instances/rules/0/allowed"), count("/allowed"));
    assert_eq!(count("/instances/count"), 3);
    assert!((1..=4).contains(&count("/instances/redis/keys")));
    assert_eq!(count("/instances/redis/mostKeys"), 4);
    assert!(count("/instances/redis/mostBytes") >= count("/instances/redis/bytes"));
    assert!(count("/instances/redis/requestsPerSecond") > 0);
    assert!(page.contains(&format!("data-count=\"{}\"", count("/events"))));
    for (id, path) in [
        ("no-answer", "/instances/failed"),
        ("no-redis", "/instances/withoutRedis"),
        ("redis-requests", "/instances/redis/requestsPerSecond"),
        ("redis-most-keys", "/instances/redis/mostKeys"),
        ("redis-most-bytes", "/instances/redis/mostBytes"),
        ("redis-end-bytes", "/instances/redis/bytes"),
    ] {
        let shown = format!("id=\"{id}\" data-count=\"{}\"", count(path));
        assert!(page.contains(&shown), "{shown}");
    }
    assert!(page.contains("<h2 id=\"instances\">3 instances over Redis</h2>"));
    let (_, chart) = page.split_once("<svg class=\"chart\"").unwrap();
    let (chart, _) = chart.split_once("</svg>").unwrap();
    let sum = |name: &str| -> u64 {
        let label = format!("\n{name}: ");
        let values = chart.split(&label).skip(1);
        let values = values.map(|rest| rest.split(['\n', '<']).next().unwrap());
        values.map(|value| value.parse::<u64>().unwrap()).sum()
    };
    assert_eq!(sum("allowed"), count("/allowed"));
    assert_eq!(sum("denied"), count("/denied"));
    assert_eq!(sum("without an answer"), failed);
}

#[test]
fn a_mode_that_has_no_effect_is_noted() {
    let rule = |key: &str, rest: &str| {
        format!("  - {{key: {key}, rate_limit: {{unit: second, requests_per_unit: {rest}}}}}\n")
    };
    let rules = [
        rule("small", "10"),
        rule("leaky", "20, algorithm: leaky_bucket"),
        rule("log", "20, algorithm: sliding_log"),
    ];
    let rules = format!("domain: web\ndescriptors:\n{}", rules.concat());
    let directory = directory(&[("rules.yaml", &rules)]);
    let small = "small is decided strictly: it holds 10 units, and a lease needs 17";
    let leaky = "leaky is decided strictly: leased does not suit 20 per 1s leaky_bucket";
    let log = "log is decided strictly: write_back does not suit 20 per 1s sliding_log";
    for (mode, expected) in [
        ("strict", &[][..]),
        (
            "leased",
            &[small, leaky, &*log.replace("write_back", "leased")],
        ),
        (
            "write_back",
            &[&*leaky.replace("leased", "write_back"), log],
        ),
    ] {
        let arguments = [
            "--traffic",
            "constant 20/s for 1s",
            "--descriptor",
            "small={client}",
        ];
        let arguments = [&arguments[..], &["--instances", "2", "--mode", mode]].concat();
        let (report, _, page) = write_all(&directory, &arguments);
        assert_eq!(
            report["instances"]["notes"],
            serde_json::json!(expected),
            "{mode}"
        );
        assert_eq!(violations("report", &report), [""; 0]);
        let text = String::from_utf8(simulate(&directory, &arguments).stdout).unwrap();
        for note in expected {
            assert!(text.contains(&format!("note: {note}\n")), "{text}");
            assert!(page.contains(note), "{note}");
        }
    }
}

#[test]
fn instances_show_what_they_allow_beyond_a_single_one() {
    let directory = rules();
    let shown = |options: &[&str]| {
        let traffic = ["--traffic", "poisson 90/s keys 4 for 6s"];
        let output = simulate(&directory, &[&traffic, &INSTANCES[2..], options].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = shown(&["--mode", "leased"]);
    assert!(text.contains("\n3 instances over Redis\n"), "{text}");
    let row = |heading: &str| {
        let below = text.split(heading).nth(1).unwrap();
        let row = below.lines().nth(1).unwrap().split_whitespace();
        row.map_while(|word| word.parse().ok())
            .collect::<Vec<u64>>()
    };
    let [exact, allowed, over, under] =
        row("exact      allowed         over        under  rule")[..]
    else {
        panic!("{text}");
    };
    assert!(over > 0 && exact + over == allowed + under, "{text}");
    // Without Redis, each instance decides on its share, which is of what Redis has not counted.
    let of_counts = |what: &str| {
        let line = text.lines().find(|line| line.ends_with(what)).unwrap();
        line.split_whitespace()
            .next()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    assert!(of_counts("decided without Redis") > 0, "{text}");
    assert!((1..=4).contains(&of_counts("keys in Redis at the end")));
    assert_eq!(of_counts("keys in Redis at most"), 4);
    assert!(of_counts("bytes of keys at most") >= of_counts("bytes of keys at the end"));
    assert_ne!(
        text,
        shown(&[
            "--mode",
            "leased",
            "--skew",
            "300ms",
            "--on-store-error",
            "allow"
        ])
    );
}

/// The report of one strict instance, beside Redis and without faults, is that of no instances.
#[test]
fn one_instance_without_delay_and_faults_has_the_report_of_a_single_one() {
    let directory = rules();
    for traffic in [
        "poisson 60/s keys 3 for 9s retry backoff 500ms",
        "botnet 4 clients 15/s for 5s",
    ] {
        let arguments = ["--traffic", traffic, "--output", "json", "--seed", "9"];
        let alone = ["--instances", "1", "--delay", "0ms"];
        let single = json(&simulate(&directory, &arguments));
        let mut shared = json(&simulate(&directory, &[&arguments[..], &alone].concat()));
        let instances = shared.as_object_mut().unwrap().remove("instances").unwrap();
        assert!(single["denied"].as_u64() > Some(50));
        for member in [
            "events",
            "allowed",
            "denied",
            "rules",
            "topDeniedKeys",
            "from",
            "to",
        ] {
            assert_eq!(single[member], shared[member], "{member}");
        }
        assert_eq!(instances["exact"], instances["allowed"]);
        assert_eq!(instances["rules"][0]["over"], 0);
        assert_eq!(instances["rules"][0]["under"], 0);
    }
}

#[test]
fn traffic_ends_before_times_saturate() {
    let directory = rules();
    let from = |start: &str| {
        let traffic = ["--start", start, "--traffic", "constant 50/s for 10s"];
        simulate(&directory, &[&traffic[..], &["--output", "json"]].concat())
    };
    let denied = |output: &Output| json(output)["denied"].as_u64().unwrap();
    let usual = denied(&from("1970-01-01"));
    assert!(usual > 0);
    assert_eq!(denied(&from("2499-12-31T23:59:50Z")), usual);
    for (start, expected) in [
        (
            "2499-12-31T23:59:51Z",
            "--traffic 'constant 50/s for 10s': it ends after 2500-01-01, when times saturate; \
             give it less time, or begin earlier with --start",
        ),
        (
            "2500-01-01T00:00:01Z",
            "'--start <TIME>': the time is after 2500-01-01; write",
        ),
    ] {
        let late = from(start);
        assert_eq!(late.status.code(), Some(2));
        let shown = message(&late);
        assert!(shown.contains(expected), "{shown}");
    }
    let long = "constant 1/day for 36500d from 200000d";
    let late = simulate(&directory, &["--traffic", long]);
    assert!(
        message(&late).contains("it ends after 2500-01-01"),
        "{late:?}"
    );
}
