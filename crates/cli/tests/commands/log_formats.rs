//! The options that say what a log is like, and what goes wrong with them.

use std::process::Output;

use tempfile::TempDir;

use crate::house::{directory, run};

const CSV: &str = "time,ip,url\n1,192.0.2.1,/a\n2,192.0.2.1,/a\nx,192.0.2.1,/a\n";

fn scene() -> TempDir {
    let rules = "{domain: web, descriptors: [{key: client, rate_limit: 1/minute}]}";
    directory(&[("rules.yaml", rules), ("a.csv", CSV)])
}

fn replay(options: &[&str]) -> Output {
    let command = [
        "replay",
        "--rules",
        "rules.yaml",
        "--descriptor",
        "client={client}",
    ];
    run(scene().path(), &[&command, options, &["a.csv"]].concat())
}

#[test]
fn options_that_do_not_go_together_say_what_to_drop() {
    for (options, why) in [
        (
            &["--columns", "a,b"][..],
            "--columns names those of CSV; add --format csv",
        ),
        (
            &["--fields", "client=ip"],
            "--fields is about JSON, CSV and W3C; drop it, or",
        ),
        (
            &["--format", "alb", "--fields", "client=ip"],
            "have places and no names",
        ),
        (
            &["--format", "csv", "--fields", "ip"],
            "`ip` is not `field=name`",
        ),
        (&["--log-format", "%h"], "--log-format: it has no time"),
        (
            &["--log-format", "%h %t", "--format", "csv"],
            "cannot be used with",
        ),
        (
            &["--format", "json", "--where", "colour=red"],
            "there is no field `colour`",
        ),
        (
            &["--where", "host=h"],
            "the common and the combined format have no `host`",
        ),
        (
            &["--log-format", "%t %u"],
            "--descriptor: the log format has no `client`",
        ),
    ] {
        let output = replay(options);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {message}");
        assert!(message.contains(why), "{options:?}: {message}");
    }
}

#[test]
fn lines_that_are_no_events_are_shown_with_their_place_and_headings_are_none() {
    let output = replay(&["--format", "csv"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("           2 events\n"), "{text}");
    assert!(text.contains("           1 line skipped\n"), "{text}");
    assert!(
        text.contains("  line 4: the time is not in the form"),
        "{text}"
    );
}

#[test]
fn without_the_format_replay_says_which_one_it_looks_like() {
    let output = replay(&[]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("a.csv: it looks like CSV; add --format csv"),
        "{message}"
    );
}

#[test]
fn suggest_reads_the_same_formats() {
    let output = run(scene().path(), &["suggest", "--format", "csv", "a.csv"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("           2 of the largest key, 192.0.2.1"),
        "{text}"
    );
    let output = run(scene().path(), &["suggest", "--format", "jsonl", "a.csv"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("traces and counts are no access logs"),
        "{message}"
    );
}
