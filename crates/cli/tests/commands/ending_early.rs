//! Commands that end before all is written: readers that go away, full disks and Ctrl-C.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::house::{RULES, directory, run, text, tollgate};

const LINE: &str = "192.0.2.1 - - [01/Jan/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n";
/// All but the first request of a day are denied.
const REPLAY: [&str; 5] = [
    "replay",
    "--rules",
    "rules.yaml",
    "--descriptor",
    "k={client}",
];
/// Their decisions are more than a pipe holds.
const EVENTS: usize = 3000;

fn scene() -> TempDir {
    directory(&[("rules.yaml", RULES), ("x.log", &LINE.repeat(EVENTS))])
}

fn read(directory: &TempDir, name: &str) -> String {
    fs::read_to_string(directory.path().join(name)).unwrap()
}

/// What a command prints to standard error, of whose output nothing is read.
fn run_unread(directory: &Path, arguments: &[&str]) -> Output {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = tollgate(directory);
    command.args(arguments).stdin(Stdio::null()).stdout(writer);
    command.stderr(Stdio::piped()).output().unwrap()
}

#[test]
fn conditions_are_judged_when_nobody_reads_the_decisions() {
    let directory = scene();
    let traffic = ["--traffic", "constant 100/s for 30s"];
    let simulate = [&["simulate", "--rules", "rules.yaml"][..], &traffic].concat();
    let by_client = ["--descriptor", "k={client}"];
    let simulate = [&simulate[..], &by_client].concat();
    let replay = [&REPLAY[..], &["x.log"]].concat();
    for command in [replay, simulate] {
        let run = |more: &[&str]| {
            let arguments = [&command[..], &["--decisions", "-"], more].concat();
            run_unread(directory.path(), &arguments)
        };
        let shown = text(&run(&["--fail-if", "denied > 0"]), 3);
        assert!(shown.contains("        2999 denied\n"), "{shown}");
        assert!(shown.contains("error: --fail-if denied > 0"), "{shown}");
        assert_eq!(run(&["--fail-if", "denied > 2999"]).status.code(), Some(0));
        assert_eq!(run(&["--report", "page.html"]).status.code(), Some(0));
        assert!(read(&directory, "page.html").contains("</html>"));
        fs::remove_file(directory.path().join("page.html")).unwrap();
        // Without them, nothing is left to do, or to say.
        let output = run(&[]);
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    }
}

/// The file of decisions is a pipe, which the test reads once it has interrupted: all events are
/// decided before the process asks again, which is when it begins to decide them a second time.
#[test]
fn decisions_are_kept_if_an_interrupt_comes_after_the_last_of_them() {
    let directory = scene();
    let partial = directory.path().join("out.jsonl.partial");
    let made = Command::new("mkfifo").arg(&partial).status().unwrap();
    assert!(made.success());
    let mut command = tollgate(directory.path());
    let written = ["--decisions", "out.jsonl", "--report", "page.html", "x.log"];
    let command = command.args(REPLAY).args(written).stdin(Stdio::null());
    let child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut decisions = BufReader::new(File::open(&partial).unwrap());
    assert!(decisions.read_line(&mut String::new()).unwrap() > 0);
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert!(sent.success());
    assert_eq!(decisions.lines().count(), EVENTS - 1);
    let errors = text(&child.wait_with_output().unwrap(), 130);
    let path = directory.path().join("out.jsonl");
    let expected = format!(
        "error: interrupted after all {EVENTS} events were decided; the report is not written, \
         the decisions are in out.jsonl\n"
    );
    assert_eq!(errors, expected);
    assert!(path.exists() && !partial.exists());
    assert!(!directory.path().join("page.html").exists());
}

#[test]
fn a_run_without_a_decision_leaves_what_an_earlier_one_left() {
    let directory = scene();
    let earlier = "the decisions of an earlier run, which are longer than one\n".repeat(10);
    let path = directory.path().join("out.jsonl.partial");
    fs::write(&path, &earlier).unwrap();
    let replay = |log| {
        let arguments = [&REPLAY[..], &["--decisions", "out.jsonl", log]].concat();
        run(directory.path(), &arguments)
    };
    text(&replay("no.log"), 2);
    assert_eq!(read(&directory, "out.jsonl.partial"), earlier);
    fs::write(directory.path().join("one.log"), LINE).unwrap();
    text(&replay("one.log"), 0);
    assert!(!path.exists());
    assert_eq!(read(&directory, "out.jsonl").lines().count(), 1);
    // Its own empty file is removed.
    text(&replay("no.log"), 2);
    assert!(!path.exists());
}

#[test]
fn a_page_that_cannot_be_written_costs_neither_the_report_nor_the_conditions() {
    let directory = scene();
    let unwritable = ["--report", "/dev/full", "x.log"];
    for (condition, status) in [("denied > 0", 3), ("denied > 2999", 2)] {
        let arguments = [&REPLAY[..], &["--fail-if", condition], &unwritable].concat();
        let output = run(directory.path(), &arguments);
        let errors = text(&output, status);
        let mut lines = errors.lines();
        let no_space = "error: cannot write /dev/full: No space left on device (os error 28)";
        assert_eq!(lines.next(), Some(no_space));
        let holds = lines
            .next()
            .map(|line| line.contains("--fail-if denied > 0"));
        assert_eq!(holds, (status == 3).then_some(true), "{errors}");
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(shown.contains("        2999 denied\n"), "{shown}");
    }
}
