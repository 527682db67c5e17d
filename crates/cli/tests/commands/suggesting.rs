//! `tollgate suggest`: a study of a log, rules that `check` accepts, and limits that are tried.

use std::fmt::Write as _;

use serde_json::Value;
use tempfile::TempDir;

use crate::house::{directory, run, text};
use crate::schema::violations;

/// One client with 40 requests in a minute, and 30 with 4 each.
fn log() -> TempDir {
    let mut log = String::new();
    for index in 0..160 {
        let client = if index < 40 { 0 } else { 1 + index % 30 };
        let path = if index % 2 == 0 {
            "/login"
        } else {
            "/img/a.png"
        };
        let second = index % 60;
        writeln!(
            log,
            "192.0.2.{client} - - [01/Jan/2026:10:00:{second:02} +0000] \"GET {path} HTTP/1.1\" \
             200 1"
        )
        .unwrap();
    }
    log.push_str("no request\n");
    directory(&[("access.log", &log)])
}

#[test]
fn the_rules_that_are_written_pass_the_check_and_touch_what_they_say() {
    let directory = log();
    let suggest = [
        "suggest",
        "--write-rules",
        "rules.yaml",
        "--touch",
        "none",
        "access.log",
    ];
    let shown = text(&run(directory.path(), &suggest), 0);
    for line in [
        "         160 requests",
        "          31 keys",
        "          40 of the largest key, 192.0.2.0 (25 %)",
        "           1 line skipped",
    ] {
        assert!(shown.lines().any(|found| found == line), "{line}\n{shown}");
    }
    let checked = text(&run(directory.path(), &["check", "rules.yaml"]), 0);
    assert!(checked.contains("0 errors, 0 warnings"), "{checked}");
    let replay = [
        "replay",
        "--rules",
        "rules.yaml",
        "--domain",
        "web",
        "--descriptor",
        "remote_address={client}",
        "--descriptor",
        "path={path},remote_address={client}",
        "--output",
        "json",
        "access.log",
    ];
    let report: Value = serde_json::from_str(&text(&run(directory.path(), &replay), 0)).unwrap();
    assert_eq!(report["denied"], 0);
    assert_eq!(report["rules"].as_array().unwrap().len(), 1);
}

#[test]
fn paths_with_identifiers_are_suggested_by_template_and_replayed_so() {
    let line = |index: usize| {
        let (client, id, second) = (index % 7, 1000 + index, index % 60);
        format!(
            "192.0.2.{client} - - [01/Jan/2026:10:00:{second:02} +0000] \
             \"GET /users/{id}/orders/{index} HTTP/1.1\" 200 1\n"
        )
    };
    let lines: String = (0..140).map(line).collect();
    let directory = directory(&[("access.log", &lines)]);
    let write = ["--write-rules", "rules.yaml", "--touch", "none"];
    let suggest = [&["suggest"][..], &write, &["access.log"]].concat();
    let shown = text(&run(directory.path(), &suggest), 0);
    let template = "/users/{id}/orders/{id}";
    assert!(
        shown.contains(&format!("\n{template}: 140 requests, 7 keys")),
        "{shown}"
    );
    assert!(
        shown.contains(&format!("\n  --path-template '{template}'\n")),
        "{shown}"
    );
    let json = run(
        directory.path(),
        &["suggest", "--output", "json", "access.log"],
    );
    let json: Value = serde_json::from_str(&text(&json, 0)).unwrap();
    assert_eq!(json["pathTemplates"], serde_json::json!([template]));
    let checked = text(&run(directory.path(), &["check", "rules.yaml"]), 0);
    assert!(checked.contains("0 errors, 0 warnings"), "{checked}");
    let rules = std::fs::read_to_string(directory.path().join("rules.yaml")).unwrap();
    assert!(
        rules.contains("--path-template of `tollgate replay`"),
        "{rules}"
    );
    let replay = |template: &[&str]| -> Value {
        let rules = ["replay", "--rules", "rules.yaml", "--output", "json"];
        let by = [
            "--descriptor",
            "path={path},remote_address={client}",
            "access.log",
        ];
        let output = run(directory.path(), &[&rules[..], template, &by].concat());
        serde_json::from_str(&text(&output, 0)).unwrap()
    };
    for (arguments, judged) in [(&["--path-template", template][..], 140), (&[], 0)] {
        let report = replay(arguments);
        // The first rule is for all requests.
        assert_eq!(report["rules"][1]["judged"], judged, "{arguments:?}");
        assert_eq!(report["denied"], 0);
    }
}

#[test]
fn algorithms_have_the_names_that_rules_have() {
    let directory = log();
    let arguments = [
        "suggest",
        "--output",
        "json",
        "--try",
        "10/minute",
        "--algorithms",
    ];
    let tried = |names: &str| {
        let arguments = [&arguments[..], &[names, "access.log"]].concat();
        let printed = text(&run(directory.path(), &arguments), 0);
        let json: Value = serde_json::from_str(&printed).unwrap();
        let trials = json["trials"].as_array().unwrap().iter();
        let names = trials.map(|trial| trial["algorithm"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    let names = "fixed_window,sliding_window,sliding_log,token_bucket,leaky_bucket";
    assert_eq!(tried(names), names.split(',').collect::<Vec<_>>());
    assert_eq!(tried("token-bucket"), ["token_bucket"]);
}

#[test]
fn limits_are_tried_with_every_algorithm() {
    let directory = log();
    let arguments = [
        "suggest",
        "--try",
        "10,100/minute",
        "--algorithms",
        "all",
        "--output",
        "json",
        "access.log",
    ];
    let json: Value = serde_json::from_str(&text(&run(directory.path(), &arguments), 0)).unwrap();
    assert_eq!((&json["version"], &json["skipped"]), (&1.into(), &1.into()));
    let trials = json["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 10);
    assert_eq!(trials[0]["algorithm"], "fixed_window");
    assert_eq!(
        (&trials[0]["denied"], &trials[0]["deniedKeys"]),
        (&30.into(), &1.into())
    );
    let first = &trials[0]["topDeniedKeys"][0]["descriptor"][0]["value"];
    assert_eq!(first, "192.0.2.0");
    assert!(
        trials[5..].iter().all(|trial| trial["denied"] == 0),
        "{trials:?}"
    );
    // As `replay` decides.
    let rules = "{domain: web, descriptors: [{key: remote_address, rate_limit: {requests_per_unit: \
        10, unit: minute, algorithm: token_bucket}}]}";
    std::fs::write(directory.path().join("bucket.yaml"), rules).unwrap();
    let replay = [
        "replay",
        "--rules",
        "bucket.yaml",
        "--domain",
        "web",
        "--descriptor",
        "remote_address={client}",
        "--output",
        "json",
        "access.log",
    ];
    let report: Value = serde_json::from_str(&text(&run(directory.path(), &replay), 0)).unwrap();
    let bucket = trials
        .iter()
        .find(|trial| trial["algorithm"] == "token_bucket")
        .unwrap();
    assert_eq!(report["denied"], bucket["denied"]);
}

#[test]
fn what_cannot_be_read_or_tried_is_an_error() {
    let directory = log();
    std::fs::write(directory.path().join("none.log"), "nothing\n").unwrap();
    let long_key = format!("{}={{client}}", "k".repeat(4_097));
    let table: [(&[&str], &str); 19] = [
        // Nothing is read before.
        (
            &["--key", &long_key, "missing.log"],
            "--key: a key of 4097 bytes; the longest that a rule can have is of 4096",
        ),
        (&["missing.log"], "missing.log"),
        (&["none.log"], "none.log"),
        (
            &["--try", "5/1ns", "--algorithms", "all", "missing.log"],
            "--try 5/1ns: token_bucket: a bucket refills at most one unit in 100ns, and 1ns is \
             shorter; make the window longer",
        ),
        (
            &["--try", "5,010/minute", "access.log"],
            "`010` begins with a 0, which some programs read as octal; leave it out",
        ),
        (&["--try", "00/minute", "access.log"], "`00` begins with"),
        (&["--try", "10", "access.log"], "is not a list of limits"),
        (
            &["--try", "10/fortnight", "access.log"],
            "`fortnight` is not a valid unit",
        ),
        (
            &["--try", "10/367d", "access.log"],
            "a window of 367d is outside 1ns to 366d",
        ),
        (
            &["--try", "10/0s", "access.log"],
            "a window of 0s is outside 1ns to 366d",
        ),
        (
            &["--try", "10/9999999d", "access.log"],
            "the window `9999999d`: a length of time is above 584 years; the longest is 366d",
        ),
        (
            &["--write-rules", "out.yaml", "--domain", "", "access.log"],
            "--domain is empty; name the domain of the rules, or leave it out for `web`",
        ),
        (&["--algorithms", "all", "access.log"], "--try"),
        (&["--top", "9", "access.log"], "--try"),
        (&["--domain", "x", "access.log"], "--write-rules"),
        (&["--touch", "1%", "access.log"], "--write-rules"),
        (
            &["--try", "5,99999999999999999999/minute", "access.log"],
            "99999999999999999999 is too large; the most is 4294967295",
        ),
        (
            &["--try", "5,/minute", "access.log"],
            "is not a list of limits",
        ),
        (
            &["--try", "5/minute sliding_log", "access.log"],
            "name algorithms with --algorithms",
        ),
    ];
    for (arguments, expected) in table {
        let arguments = [&["suggest"], arguments].concat();
        let found = text(&run(directory.path(), &arguments), 2);
        assert!(found.contains(expected), "{arguments:?}: {found}");
    }
    assert!(!directory.path().join("out.yaml").exists());
}

#[test]
fn limits_are_tried_as_limits_are_written() {
    let directory = log();
    let tried = |limits: &str| {
        let arguments = ["suggest", "--try", limits, "--output", "json", "access.log"];
        let json: Value =
            serde_json::from_str(&text(&run(directory.path(), &arguments), 0)).unwrap();
        let trials = json["trials"].as_array().unwrap().iter();
        let trials = trials.map(|trial| (trial["limit"].clone(), trial["denied"].clone()));
        trials.collect::<Vec<_>>()
    };
    assert_eq!(tried("10, 20/m"), tried("10,20/minute"));
    assert_eq!(tried("10 per minute"), tried("10/minute"));
    assert_eq!(tried("1/s")[0].0, "1/second");
    assert_eq!(tried("10/15m"), [("10/15m".into(), 30.into())]);
}

#[test]
fn a_log_without_paths_has_keys_and_no_routes() {
    let csv = "ip,date,time\n192.0.2.1,2026-01-31,10:00:00\n192.0.2.1,2026-01-31,10:00:01\n";
    let scene = directory(&[("a.csv", csv), ("a.log", "1 192.0.2.1\n2 192.0.2.1\n")]);
    let csv = ["--format", "csv", "a.csv"];
    let template = ["--log-format", "$msec $remote_addr", "a.log"];
    for log in [csv, template] {
        let arguments = [&["suggest", "--output", "json"][..], &log].concat();
        let json: Value = serde_json::from_str(&text(&run(scene.path(), &arguments), 0)).unwrap();
        assert_eq!(json["all"]["events"], 2, "{log:?}");
        assert_eq!(json["routes"], serde_json::json!([]), "{log:?}");
        let by_path = [&["suggest", "--key", "path={path}"][..], &log].concat();
        let why = text(&run(scene.path(), &by_path), 2);
        assert!(why.contains("`path`"), "{why}");
    }
}

#[test]
fn every_output_fits_the_schema_in_the_documents() {
    let line = |index: usize| {
        let (client, second) = (index % 7, index % 60);
        format!(
            "192.0.2.{client} - - [01/Jan/2026:10:00:{second:02} +0000] \
             \"GET /users/{index}/orders HTTP/1.1\" 200 1\n"
        )
    };
    let lines: String = (0..140).map(line).collect();
    let directory = directory(&[("access.log", &lines)]);
    let study = |options: &[&str]| -> Value {
        let arguments = ["suggest", "--output", "json", "access.log"];
        let shown = text(&run(directory.path(), &[&arguments, options].concat()), 0);
        serde_json::from_str(&shown).unwrap()
    };
    let plain = study(&[]);
    assert_eq!(violations("study", &plain), [""; 0]);
    for members in ["routes", "pathTemplates", "warnings"] {
        assert!(!plain[members].as_array().unwrap().is_empty(), "{members}");
    }
    let tried = study(&["--try", "10/minute", "--algorithms", "all"]);
    assert_eq!(violations("study", &tried), [""; 0]);
    assert!(
        !tried["trials"][0]["topDeniedKeys"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    let mut other = plain;
    other.as_object_mut().unwrap().remove("skipped");
    other["added"] = 1.into();
    other["version"] = 2.into();
    other["all"]["windows"][0]["max"] = "1".into();
    assert_eq!(violations("study", &other).len(), 4);
}
