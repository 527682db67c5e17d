//! `tollgate replay` as a process: exit codes, files and streams.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const RULES: &str = "
domain: web
descriptors:
  - key: client
    rate_limit: {requests_per_unit: 1, unit: minute}
";
const LINE: &str = "c - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\n";
const EVENT: &str = "{\"at\":0.25,\"domain\":\"web\",\"descriptors\":\
    [{\"entries\":[{\"key\":\"client\",\"value\":\"c\"}]}]}\n";
const BY_CLIENT: [&str; 4] = ["--domain", "web", "--descriptor", "client={client}"];

/// A directory of its own for each test.
struct Scene(PathBuf);

impl Scene {
    fn new(test: &str) -> Scene {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _absent = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let scene = Scene(directory);
        scene.write("rules.yaml", RULES);
        scene
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn replay(&self, args: &[&str], input: &str) -> (Option<i32>, String, String) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
            .args(["replay", "--rules", "rules.yaml"])
            .args(args)
            .current_dir(&self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A child that wants no input may be gone already.
        let _unread = child.stdin.take().unwrap().write_all(input.as_bytes());
        let Output {
            status,
            stdout,
            stderr,
        } = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.code(), text(stdout), text(stderr))
    }

    fn by_client(&self, args: &[&str], input: &str) -> (Option<i32>, String, String) {
        self.replay(&[&BY_CLIENT, args].concat(), input)
    }
}

#[test]
fn an_access_log_is_read_from_files_and_standard_input_and_told_to_people() {
    let scene = Scene::new("people");
    scene.write("a.log", &[LINE, "junk\n"].concat());
    let (code, out, err) = scene.by_client(&["a.log", "-"], LINE);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(
        out.starts_with("           2 events\n           1 admitted\n"),
        "{out}"
    );
    assert!(
        out.ends_with("  a.log line 2: there is no host\n    junk\n"),
        "{out}"
    );
}

#[test]
fn what_was_refused_or_skipped_is_no_failure() {
    let scene = Scene::new("exit0");
    let (code, out, _) = scene.by_client(&["--output", "json", "-"], "junk\n\n");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &report["events"], &report["skipped"]),
        (Some(0), &0.into(), &2.into())
    );
}

#[test]
fn decisions_on_standard_output_leave_it_to_themselves() {
    let scene = Scene::new("decisions");
    let args = [
        "--format",
        "jsonl",
        "--decisions",
        "-",
        "--output",
        "json",
        "-",
    ];
    let (code, out, err) = scene.replay(&args, EVENT);
    let (decision, report): (Value, Value) = (
        serde_json::from_str(&out).unwrap(),
        serde_json::from_str(&err).unwrap(),
    );
    assert_eq!(
        (code, &decision["allowed"], &report["events"]),
        (Some(0), &true.into(), &1.into())
    );
    assert!(out.starts_with("{\"line\":1,\"at\":0.25,"), "{out}");
}

#[test]
fn decisions_go_to_a_file_but_never_over_an_input() {
    let scene = Scene::new("overwrite");
    scene.write("a.log", LINE);
    let (code, ..) = scene.by_client(&["--decisions", "out.jsonl", "a.log"], "");
    assert_eq!(code, Some(0));
    assert_eq!(
        fs::read_to_string(scene.0.join("out.jsonl"))
            .unwrap()
            .lines()
            .count(),
        1
    );
    let (code, _, err) = scene.by_client(&["--decisions", "./a.log", "a.log"], "");
    assert_eq!(code, Some(2));
    assert_eq!(
        err,
        "error: --decisions would overwrite the input a.log; name another file\n"
    );
    assert_eq!(fs::read_to_string(scene.0.join("a.log")).unwrap(), LINE);
}

#[test]
fn a_bounded_store_says_what_it_gave_up() {
    let scene = Scene::new("bounded");
    let args = ["--max-keys", "100", "--output", "json", "-"];
    let (code, out, _) = scene.by_client(&args, &[LINE, LINE].concat());
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &report["refused"], &report["evictedKeys"]),
        (Some(0), &1.into(), &0.into())
    );
}

#[test]
fn rules_with_mistakes_are_shown_and_end_with_1() {
    let scene = Scene::new("exit1");
    scene.write(
        "rules.yaml",
        "domain: web\ndescriptors:\n  - key: client\n    rate_limt: 1/minute\n",
    );
    let (code, out, err) = scene.by_client(&["-"], LINE);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(
        err.contains("rules.yaml:4:5") && err.contains("rate_limit"),
        "{err}"
    );
}

#[test]
fn a_wrong_command_line_ends_with_2_and_says_what_to_write() {
    let scene = Scene::new("exit2");
    scene.write("a.log", LINE);
    let needs = "error: an access log needs --domain NAME and at least one --descriptor \
        'key={field}'; a trace needs --format jsonl\n";
    let mistakes: [(&[&str], &str); 9] = [
        (&["a.log"], needs),
        (&["--domain", "web", "a.log"], needs),
        (
            &["--format", "jsonl", "--domain", "web", "a.log"],
            "drop --domain and --descriptor",
        ),
        (
            &["--descriptor", "c={clinet}", "a.log"],
            "did you mean `client`?",
        ),
        (
            &["--format", "jsonl", "-", "-"],
            "`-`, standard input, can be read only once",
        ),
        (
            &["--format", "jsonl", "no.jsonl"],
            "error: cannot read no.jsonl: No such file",
        ),
        (
            &["--format", "jsonl", "."],
            "error: cannot read .: Is a directory",
        ),
        (
            &["--format", "jsonl", "--rules", "no.yaml", "-"],
            "error: cannot read no.yaml: No such",
        ),
        (
            &["--format", "jsonl", "--decisions", "no/d", "-"],
            "error: cannot write no/d: No such",
        ),
    ];
    for (args, message) in mistakes {
        let (code, out, err) = scene.replay(args, "");
        assert_eq!((code, out.as_str()), (Some(2), ""), "{args:?}: {err}");
        assert!(err.contains(message), "{args:?}: {err}");
    }
}

#[test]
fn a_domain_without_rules_is_a_warning() {
    let scene = Scene::new("warning");
    let args = ["--domain", "wbe", "--descriptor", "client={client}", "-"];
    let (code, _, err) = scene.replay(&args, LINE);
    assert_eq!(code, Some(0));
    assert_eq!(
        err,
        "warning: no rules for domain `wbe`, so nothing is limited; there are rules for: web\n"
    );
}

#[test]
fn a_gzip_file_cut_short_cannot_be_read() {
    let scene = Scene::new("cut");
    fs::write(scene.0.join("cut.gz"), [0x1f, 0x8b, 8, 0]).unwrap();
    let (code, _, err) = scene.by_client(&["cut.gz"], "");
    assert_eq!(code, Some(2));
    assert!(err.starts_with("error: cannot read cut.gz: "), "{err}");
}
