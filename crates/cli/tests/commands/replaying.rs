//! `tollgate replay`: which events are decided, and conditions on what comes of them.

use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::house::{directory, run, text};
use crate::schema::violations;

const RULES: &str = "domain: web
descriptors:
  - key: client
    rate_limit: {requests_per_unit: 2, unit: minute, algorithm: fixed_window}
";
/// Eight requests of two clients: every second one a POST, from 10:00:00 on, ten seconds apart.
fn log() -> TempDir {
    let line = |index: usize| {
        let (client, second) = (index / 4, index % 6 * 10);
        let method = ["GET", "POST"][index % 2];
        let minute = index / 6;
        format!(
            "192.0.2.{client} - - [01/Jan/2026:10:0{minute}:{second:02} +0000] \
             \"{method} /api/{index}?q HTTP/1.1\" 200 1 \"-\" \"curl/8\"\n"
        )
    };
    let lines: String = (0..8).map(line).collect();
    let two = format!("{RULES}---\ndomain: other\ndescriptors: [{{key: k, rate_limit: 1/day}}]\n");
    directory(&[
        ("rules.yaml", RULES),
        ("two.yaml", &two),
        ("access.log", &(lines + "junk\n")),
    ])
}

fn replay(directory: &TempDir, arguments: &[&str]) -> Output {
    let mut all = vec!["replay", "--descriptor", "client={client}"];
    all.extend(arguments);
    if !arguments.contains(&"two.yaml") {
        all.extend(["--rules", "rules.yaml"]);
    }
    all.push("access.log");
    run(directory.path(), &all)
}

fn report(directory: &TempDir, arguments: &[&str]) -> Value {
    let output = replay(directory, &[arguments, &["--output", "json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn only_the_selected_events_are_decided() {
    let directory = log();
    for (arguments, decided) in [
        (&[][..], [8, 2, 0]),
        (&["--where", "method=POST"], [4, 0, 4]),
        (
            &["--where", "method!=POST", "--where", "path$=/4"],
            [1, 0, 7],
        ),
        (
            &["--where", "path^=/api", "--where", "user_agent*=curl"],
            [8, 2, 0],
        ),
        (&["--from", "2026-01-01T10:00:20"], [6, 0, 2]),
        (&["--to", "2026-01-01T10:00:20Z"], [2, 0, 6]),
        (
            &["--from", "2026-01-01T11:00:20+01:00", "--to", "1767261640"],
            [2, 0, 6],
        ),
        (&["--from", "2026-01-01", "--to", "2026-01-02"], [8, 2, 0]),
    ] {
        let report = report(&directory, arguments);
        let found = [&report["events"], &report["denied"], &report["excluded"]];
        assert_eq!(found, decided.map(Value::from).each_ref(), "{arguments:?}");
        assert_eq!(report["skipped"], 1);
    }
}

#[test]
fn a_trace_is_filtered_by_the_keys_of_its_entries() {
    let event = |at: usize, client: &str| {
        format!(
            "{{\"at\":{at},\"domain\":\"web\",\"descriptors\":[{{\"entries\":\
             [{{\"key\":\"client\",\"value\":\"{client}\"}}]}}]}}\n"
        )
    };
    let trace: String = (0..9)
        .map(|at| event(at, ["a", "b", "c"][at % 3]))
        .collect();
    let directory = directory(&[("rules.yaml", RULES), ("trace.jsonl", &trace)]);
    for (filter, events) in [("client=a", 3), ("client!=a", 6), ("user!=a", 9)] {
        let arguments = [
            "replay",
            "--rules",
            "rules.yaml",
            "--format",
            "jsonl",
            "--where",
        ];
        let arguments = [&arguments[..], &[filter, "--output", "json", "trace.jsonl"]].concat();
        let output = run(directory.path(), &arguments);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["events"], events, "{filter}");
        assert_eq!(report["excluded"], 9 - events, "{filter}");
    }
}

#[test]
fn what_cannot_be_selected_is_an_error_that_names_it() {
    let directory = log();
    for (arguments, expected) in [
        (
            &["--where", "methd=POST"][..],
            "--where: there is no field `methd`; did you mean `method`?",
        ),
        (
            &["--where", "method"],
            "'--where <FIELD=VALUE>': there is no operator; write `field=value`",
        ),
        (
            &["--where", "method=PUT"],
            "none of 8 events is selected by --from, --to and --where",
        ),
        (
            &["--from", "noon"],
            "'--from <TIME>': the time is not in the form that is expected; write",
        ),
        (&["--from", "2026-02-30"], "there is no such day or time"),
        (
            &["--from", "2016"],
            "Write 2016-01-01, or 2016.0 for seconds",
        ),
        (
            &["--fail-if", "denied > 101%"],
            "column 10: expected a percentage of at most 100%",
        ),
        (
            &["--from", "2026-01-02", "--to", "2026-01-02"],
            "--to is not after --from",
        ),
        (
            &["--rules", "two.yaml"],
            "several domains; name one with --domain: other, web",
        ),
        (
            &["--fail-if", "denied > many"],
            "column 10: expected a number such as 100 or 0.1%",
        ),
        (
            &["--fail-if", "dennied > 1"],
            "column 1: expected one of events, allowed, denied",
        ),
    ] {
        let output = replay(&directory, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            message(&output).contains(expected),
            "{arguments:?}: {}",
            message(&output)
        );
    }
    let named = report(&directory, &["--rules", "two.yaml", "--domain", "web"]);
    assert_eq!(named["denied"], 2);
}

#[test]
fn the_usage_names_what_is_required() {
    let directory = log();
    let usage = "<--rules <PATH>|--target <URL>> <FILE>...";
    let output = run(directory.path(), &["replay", "access.log"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        message(&output).contains("  <--rules <PATH>|--target <URL>>\n"),
        "{output:?}"
    );
    let help = run(directory.path(), &["replay", "--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(
        help.contains(&format!("Usage: tollgate replay [OPTIONS] {usage}\n")),
        "{help}"
    );
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for compared in [
        "also the metrics newly_denied and",
        "--compare, it shows what changes",
    ] {
        assert!(words.contains(compared), "{help}");
    }
}

/// The gateway's own access log is one.
#[test]
fn json_needs_its_format_alone() {
    let line = concat!(
        r#"{"time":"2026-11-27T11:44:06.123456Z","client":"192.0.2.7","method":"GET","#,
        r#""target":"/","protocol":"HTTP/1.1","status":200,"bytes":5,"duration_us":9,"#,
        r#""complete":true,"outcome":"allowed"}"#,
        "\n"
    );
    let directory = directory(&[("rules.yaml", RULES), ("gateway.log", line)]);
    let arguments = [
        "replay",
        "--rules",
        "rules.yaml",
        "--descriptor",
        "client={client}",
    ];
    let replay = |more: &[&str]| run(directory.path(), &[&arguments[..], more].concat());
    let output = replay(&["--format", "json", "gateway.log"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = replay(&["gateway.log"]);
    assert_eq!(output.status.code(), Some(2));
    let expected = "it looks like lines of JSON; add --format json, and --fields if";
    assert!(message(&output).contains(expected), "{}", message(&output));
}

#[test]
fn a_condition_that_holds_ends_with_3_after_the_report() {
    let directory = log();
    let conditions = ["--fail-if", "denied > 25%", "--fail-if", "skipped >= 12%"];
    let output = replay(&directory, &conditions);
    assert_eq!((output.status.code(), &*message(&output)), (Some(0), ""));
    let conditions = [
        "--fail-if",
        "denied >= 25%",
        "--fail-if",
        "events < 8",
        "--fail-if",
        "skipped>0",
    ];
    let output = replay(
        &directory,
        &[&conditions[..], &["--output", "json"]].concat(),
    );
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(
        message(&output),
        "error: --fail-if denied >= 25%: 2 of 8 events (25.00%)\n  \
         --fail-if skipped>0: 1 of 9 lines (11.11%)\n"
    );
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        report["conditions"],
        json!([
            {"condition": "denied >= 25%", "holds": true, "judged": true, "count": 2, "of": 8},
            {"condition": "events < 8", "holds": false, "judged": true, "count": 8, "of": 8},
            {"condition": "skipped>0", "holds": true, "judged": true, "count": 1, "of": 9},
        ])
    );
}

#[test]
fn a_condition_on_limits_that_no_event_met_fails_with_2() {
    let directory = log();
    let unmet = ["--domain", "wbe"];
    let output = replay(
        &directory,
        &[&unmet[..], &["--fail-if", "denied > 0.1%"]].concat(),
    );
    assert_eq!(output.status.code(), Some(2));
    let why = "error: --fail-if denied > 0.1% cannot be judged, because no event met a limit: ";
    assert!(message(&output).contains(why), "{}", message(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("8 met no limit"));
    for (condition, status) in [
        ("denied > 0", 2),
        ("allowed < 8", 2),
        ("denied < 1", 3),
        ("events < 8", 0),
        ("skipped > 50%", 0),
        ("without_limit < 100%", 0),
        ("without_limit > 0", 3),
    ] {
        let output = replay(
            &directory,
            &[&unmet[..], &["--fail-if", condition]].concat(),
        );
        assert_eq!(output.status.code(), Some(status), "{condition}");
    }
    // What changes is judged if the events meet a limit of either rules.
    let none = "domain: web\ndescriptors: [{key: other, rate_limit: 1/day}]\n";
    std::fs::write(directory.path().join("none.yaml"), none).unwrap();
    let compare = |compared: &[&str], condition: &str| {
        let condition = ["--fail-if", condition];
        replay(&directory, &[compared, &condition].concat())
            .status
            .code()
    };
    let old = ["--compare", "none.yaml"];
    assert_eq!(compare(&old, "no_longer_denied > 0"), Some(0));
    let neither = [&unmet[..], &["--compare", "rules.yaml"]].concat();
    assert_eq!(compare(&neither, "newly_denied > 0"), Some(2));
}

#[test]
fn a_comparison_says_what_changes_for_whom() {
    let directory = log();
    let old =
        "domain: web\ndescriptors:\n  - {key: client, value: 192.0.2.1, rate_limit: 0/minute}\n";
    std::fs::write(directory.path().join("old.yaml"), old).unwrap();
    let output = replay(&directory, &["--compare", "old.yaml"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let expected = "           8 events
           4 denied by the old rules
           2 denied by the new rules
           2 newly denied
           4 no longer denied
           1 line skipped

from 2026-01-01T10:00:00Z to 2026-01-01T10:01:10Z

  old denied   new denied        newly    no longer  rule
           -            2            2            0  web/client: 2 per 1m fixed_window (new)
           4            -            0            4  web/client_192.0.2.1: 0 per 1m \
        fixed_window (removed)

       newly  key (1 of 1)
           2  client=192.0.2.0

   no longer  key (1 of 1)
           4  client=192.0.2.1

       newly    no longer  client (2 of 2)
           0            4  192.0.2.1
           2            0  192.0.2.0
";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    let json = report(&directory, &["--compare", "old.yaml", "--top", "1"]);
    assert_eq!(
        [
            &json["version"],
            &json["before"]["denied"],
            &json["after"]["denied"]
        ],
        [1, 4, 2].map(Value::from).each_ref()
    );
    assert_eq!(
        json["topChangedClients"],
        json!([{"client": "192.0.2.1", "newlyDenied": 0, "noLongerDenied": 4}])
    );
    assert_eq!(json["changedClients"], 2);
}

#[test]
fn a_condition_can_be_about_what_changes() {
    let directory = log();
    let condition = ["--fail-if", "newly_denied > 0"];
    let output = replay(&directory, &condition);
    assert_eq!(output.status.code(), Some(2));
    assert!(message(&output).contains("newly_denied needs --compare OLD-RULES"));
    let old = RULES.replace("requests_per_unit: 2", "requests_per_unit: 3");
    std::fs::write(directory.path().join("old.yaml"), old).unwrap();
    for (old, status) in [("rules.yaml", 0), ("old.yaml", 3)] {
        let output = replay(&directory, &[&condition[..], &["--compare", old]].concat());
        assert_eq!(output.status.code(), Some(status), "{output:?}");
    }
}

#[test]
fn a_report_is_a_page_with_the_same_totals() {
    let directory = log();
    let json = report(&directory, &["--report", "page.html"]);
    assert_eq!(json, report(&directory, &[]));
    let page = std::fs::read_to_string(directory.path().join("page.html")).unwrap();
    assert!(
        page.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"),
        "{page}"
    );
    assert!(
        page.contains("<dd id=\"denied\" data-count=\"2\">"),
        "{page}"
    );
    assert!(page.contains("<h3>client=192.0.2.0</h3>"), "{page}");
    let keys = "The 1 key with the most denials, of 1.";
    assert!(page.contains(keys), "{page}");
    assert!(page.contains("<code><b>4×</b> curl/8</code>"), "{page}");
    for (path, expected) in [
        ("no/page.html", "cannot write no/page.html: No such file"),
        (".", "cannot write .: "),
        (
            "access.log",
            "--report would overwrite access.log; name another file",
        ),
        (
            "./rules.yaml",
            "--report would overwrite rules.yaml; name another file",
        ),
    ] {
        let output = replay(&directory, &["--report", path]);
        assert_eq!(output.status.code(), Some(2), "{path}");
        assert!(
            message(&output).contains(expected),
            "{path}: {}",
            message(&output)
        );
    }
    let names = std::fs::read_dir(directory.path()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!names.into_iter().any(|name| name.ends_with(".partial")));
}

#[test]
fn a_report_with_a_comparison_shows_what_changes() {
    let directory = log();
    let old = RULES.replace("requests_per_unit: 2", "requests_per_unit: 3");
    std::fs::write(directory.path().join("old.yaml"), old).unwrap();
    let compare = ["--compare", "old.yaml"];
    let json = report(
        &directory,
        &[&compare[..], &["--report", "page.html"]].concat(),
    );
    assert_eq!(json, report(&directory, &compare), "as without a page");
    assert!(json["newlyDenied"].as_u64() > Some(0));
    let page = std::fs::read_to_string(directory.path().join("page.html")).unwrap();
    for (id, expected) in [
        ("offered", &json["after"]["events"]),
        ("denied-before", &json["before"]["denied"]),
        ("denied-after", &json["after"]["denied"]),
        ("newly-denied", &json["newlyDenied"]),
        ("no-longer-denied", &json["noLongerDenied"]),
    ] {
        let written = format!("<dd id=\"{id}\" data-count=\"{expected}\">");
        assert!(page.contains(&written), "{written}\n{page}");
    }
    assert!(page.contains("2 per 1m fixed_window, was 3 per 1m fixed_window"));
    let output = replay(
        &directory,
        &[&compare[..], &["--report", "old.yaml"]].concat(),
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(message(&output).contains("--report would overwrite old.yaml; name another file"));
}

#[test]
fn lines_near_the_end_of_representable_time_are_skipped() {
    let line = |at: &str| {
        let descriptors = "[{\"entries\":[{\"key\":\"client\"}]}]";
        format!("{{\"at\":\"{at}\",\"domain\":\"web\",\"descriptors\":{descriptors}}}\n")
    };
    let lines = ["2500-01-01T00:00:00Z", "2554-07-21T23:34:33Z"].map(line);
    let directory = directory(&[("rules.yaml", RULES), ("trace", &lines.concat())]);
    let words = "replay --rules rules.yaml --format jsonl --output json trace";
    let words: Vec<&str> = words.split(' ').collect();
    let output = run(directory.path(), &words);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!([&report["events"], &report["skipped"]], [1, 1]);
    let reason = &report["skippedReasons"][0]["reason"];
    assert_eq!(reason, "`at`: the time is after 2500-01-01");
}

#[test]
fn events_are_generated_from_requests_per_second() {
    let directory = directory(&[("rules.yaml", RULES), ("counts.txt", "6\n0\n6\n")]);
    let counts = |arguments: &[&str]| {
        let all = [
            "replay",
            "--rules",
            "rules.yaml",
            "--format",
            "counts",
            "counts.txt",
        ];
        run(directory.path(), &[&all, arguments].concat())
    };
    let client = ["--descriptor", "client={client}"];
    let one_key = ["--keys", "1", "--start", "2026-01-01", "--output", "json"];
    let output = counts(&[&client[..], &one_key].concat());
    assert_eq!((output.status.code(), &*message(&output)), (Some(0), ""));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        [&report["events"], &report["denied"]],
        [12, 10].map(Value::from).each_ref()
    );
    assert_eq!(report["to"], "2026-01-01T00:00:02.833333333Z");
    assert_eq!(
        report["topDeniedKeys"][0]["descriptor"][0]["value"],
        "key-0"
    );
    let part = ["--from", "1970-01-01T00:00:02Z", "--output", "json"];
    let report: Value =
        serde_json::from_str(&text(&counts(&[&client[..], &part].concat()), 0)).unwrap();
    assert_eq!([&report["events"], &report["excluded"]], [6, 6]);
    for (arguments, expected) in [
        (&["--keys", "0"][..], "0 is not in 1..=10000000"),
        (
            &["--from", "1970-01-01T00:00:00.5Z"],
            "--from: with --format counts, it must be a whole number of seconds from --start \
             (1970-01-01 without it), because a second is decided as a whole",
        ),
        (
            &["--start", "0.5", "--to", "1970-01-01T00:00:02Z"],
            "--to: with --format counts, it must be a whole",
        ),
        (
            &["--start", "2554-07-21"],
            "'--start <TIME>': the time is after 2500-01-01",
        ),
        (
            &["--where", "client=key-0"],
            "generated events have no fields",
        ),
    ] {
        let output = counts(&[&client, arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(message(&output).contains(expected), "{}", message(&output));
    }
    let log = log();
    let output = replay(&log, &["--keys", "5"]);
    assert!(
        message(&output).contains("add --format counts"),
        "{}",
        message(&output)
    );
}

#[test]
fn every_output_fits_the_schema_in_the_documents() {
    let directory = log();
    let all = "domain: web\ndescriptors:\n  - {key: client, rate_limit: {unit: minute, \
        requests_per_unit: 2, soft: 50%}}\n  - {key: shadow, shadow_mode: true, \
        rate_limit: 0/minute}\n";
    let old = RULES.replace("client", "gone");
    for (name, text) in [("all.yaml", all), ("old.yaml", &old)] {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let log = ["access.log", "more.log"].map(|name| directory.path().join(name));
    std::fs::copy(&log[0], &log[1]).unwrap();
    let shadow = [
        "--descriptor",
        "shadow={client}",
        "--descriptor",
        "gone={client}",
    ];
    let more = ["more.log", "--max-keys", "9", "--fail-if", "denied > 100%"];
    let replay = |arguments: &[&str]| {
        let decisions = [
            "replay",
            "--rules",
            "all.yaml",
            "--decisions",
            "out",
            "--output",
            "json",
        ];
        let client = ["--descriptor", "client={client}", "access.log"];
        let all = [&decisions[..], &client, &shadow, &more, arguments].concat();
        let output = run(directory.path(), &all);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report
    };
    let report = replay(&[]);
    assert_eq!(violations("report", &report), [""; 0]);
    assert!(report["evictedKeys"].is_u64() && report["conditions"].is_array());
    let comparison = replay(&["--compare", "old.yaml"]);
    assert_eq!(violations("comparison", &comparison), [""; 0]);
    let decisions = std::fs::read_to_string(directory.path().join("out")).unwrap();
    for line in decisions.lines() {
        let decision = serde_json::from_str(line).unwrap();
        assert_eq!(violations("decision", &decision), [""; 0]);
        assert!(!violations("report", &decision).is_empty());
    }
    for member in [
        "overSoft",
        "retryAfter",
        "deniedKey",
        "shadowDeniedBy",
        "file",
    ] {
        assert!(
            decisions.contains(&format!("\"{member}\":")),
            "no decision has {member}"
        );
    }
    let mut without = report;
    without.as_object_mut().unwrap().remove("skipped");
    without["added"] = json!(1);
    without["version"] = json!(2);
    assert_eq!(violations("report", &without).len(), 3);
}
