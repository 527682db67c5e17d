//! `tollgate replay` as a process: exit statuses, files and streams.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
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
        // A child that reads no input may have exited already.
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
fn an_access_log_is_read_from_files_and_standard_input_and_reported_to_people() {
    let scene = Scene::new("people");
    scene.write("a.log", &[LINE, "junk\n"].concat());
    let (code, out, err) = scene.by_client(&["a.log", "-"], LINE);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(
        out.starts_with("           2 events\n           1 allowed\n"),
        "{out}"
    );
    assert!(
        out.contains("  a.log line 2: not in common or combined format") && out.ends_with("junk\n"),
        "{out}"
    );
}

#[test]
fn what_was_denied_or_skipped_is_no_failure() {
    let scene = Scene::new("exit0");
    let input = ["junk\n\n", LINE, LINE].concat();
    for json in [&["--output", "json"][..], &["--json"]] {
        let (code, out, _) = scene.by_client(&[json, &["-"]].concat(), &input);
        let report: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            (
                code,
                &report["denied"],
                &report["skipped"],
                &report["version"]
            ),
            (Some(0), &1.into(), &2.into(), &1.into())
        );
    }
}

#[test]
fn an_input_without_an_event_is_a_failure_that_says_what_it_looks_like() {
    let scene = Scene::new("nothing");
    scene.write(
        "log.csv",
        "ip,time,url\n1.2.3.4,[29/Nov/2017:06:58:55,GET /\n",
    );
    fs::write(scene.0.join("log.zst"), b"\x28\xb5\x2f\xfd\x24\0\0\0").unwrap();
    fs::write(scene.0.join("log.txt"), b"\xff\xfe1\0.\0").unwrap();
    scene.write("empty.log", "");
    let decisions = ["--decisions", "out.jsonl"];
    for (file, expected) in [
        ("log.csv", "it looks like CSV"),
        (
            "log.zst",
            "log.zst: its compressed data are cut or damaged before the first line ends",
        ),
        (
            "log.txt",
            "error: log.txt is text in UTF-16; convert it first",
        ),
        ("empty.log", "empty.log: it is empty"),
    ] {
        let (code, out, err) = scene.by_client(&[&decisions[..], &[file]].concat(), "");
        assert_eq!((code, out.as_str()), (Some(2), ""), "{file}: {err}");
        assert!(err.contains(expected), "{err}");
        // Not even an empty file.
        let left = fs::read_dir(&scene.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        assert_eq!(left.count(), 5, "{file}");
    }
}

#[test]
fn decisions_on_standard_output_have_it_to_themselves() {
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
    assert!(
        out.starts_with("{\"version\":1,\"line\":1,\"at\":\"1970-01-01T00:00:00.25Z\","),
        "{out}"
    );
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
        "error: --decisions would overwrite a.log; name another file\n"
    );
    assert_eq!(fs::read_to_string(scene.0.join("a.log")).unwrap(), LINE);
    let output = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["replay", "--rules", "rules.yaml"])
        .args(BY_CLIENT)
        .args(["--decisions", "a.log", "-"])
        .current_dir(&scene.0)
        .stdin(File::open(scene.0.join("a.log")).unwrap())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "error: --decisions would overwrite the file on standard input; name another file\n"
    );
    assert_eq!(fs::read_to_string(scene.0.join("a.log")).unwrap(), LINE);
}

#[test]
fn a_bounded_store_reports_its_evictions() {
    let scene = Scene::new("bounded");
    let args = ["--max-keys", "100", "--output", "json", "-"];
    let (code, out, _) = scene.by_client(&args, &[LINE, LINE].concat());
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &report["denied"], &report["evictedKeys"]),
        (Some(0), &1.into(), &0.into())
    );
}

#[test]
fn rules_with_errors_are_reported_and_end_with_1() {
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
    let needs = "error: an access log needs at least one --descriptor 'key={field}'; \
        a trace needs --format jsonl\n";
    let wrong: [(&[&str], &str); 13] = [
        (&["--max-keys", "0", "a.log"], "must be at least 1"),
        (&["--max-keys", "many", "a.log"], "must be a whole number"),
        (
            &["--max-keys", "99999999999999999999", "a.log"],
            "is too large; the maximum is 18446744073709551615",
        ),
        (
            &["--top", "10001", "a.log"],
            "must be a whole number up to 10000",
        ),
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
    for (args, message) in wrong {
        let (code, out, err) = scene.replay(args, "");
        assert_eq!((code, out.as_str()), (Some(2), ""), "{args:?}: {err}");
        assert!(err.contains(message), "{args:?}: {err}");
    }
}

#[test]
fn a_domain_without_rules_is_a_warning() {
    let scene = Scene::new("warning");
    let args = ["--domain", "wbe", "--descriptor", "client={client}", "-"];
    let (code, out, err) = scene.replay(&args, LINE);
    assert_eq!(code, Some(0));
    assert!(
        out.starts_with("warning: no rule matched any event"),
        "{out}"
    );
    assert_eq!(
        err,
        "warning: no rules for domain `wbe`, so nothing is limited; there are rules for: web\n"
    );
}

#[test]
fn a_gzip_file_cut_before_its_first_line_is_an_error() {
    let scene = Scene::new("cut");
    fs::write(scene.0.join("cut.gz"), [0x1f, 0x8b, 8, 0]).unwrap();
    let (code, _, err) = scene.by_client(&["cut.gz"], "");
    assert_eq!(code, Some(2));
    let why = "cut.gz: its compressed data are cut or damaged before the first line ends";
    assert!(err.contains(why), "{err}");
}

/// Waits for a process that was sent SIGINT.
fn interrupted(mut child: std::process::Child) -> (Option<i32>, String) {
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert!(sent.success());
    let stdin = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn an_interrupt_says_how_far_it_came_and_leaves_no_file() {
    let scene = Scene::new("interrupt");
    scene.write("out.jsonl", "from before\n");
    let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args([
            "replay",
            "--rules",
            "rules.yaml",
            "--decisions",
            "out.jsonl",
        ])
        .args(BY_CLIENT)
        .arg("-")
        .current_dir(&scene.0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // More than a pipe holds: once all is written, the process is reading, and listens for SIGINT.
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(LINE.repeat(10_000).as_bytes()).unwrap();
    child.stdin = Some(stdin);
    let (code, err) = interrupted(child);
    assert_eq!(code, Some(130), "{err}");
    assert!(
        err.starts_with("error: interrupted after reading "),
        "{err}"
    );
    assert!(
        err.ends_with("; nothing was decided, nothing written\n"),
        "{err}"
    );
    assert_eq!(
        fs::read_to_string(scene.0.join("out.jsonl")).unwrap(),
        "from before\n"
    );
}

/// The file of decisions is a pipe, of which the test reads one line before it interrupts: the
/// process is then deciding, and cannot finish before the rest is read.
#[test]
fn an_interrupt_between_decisions_says_where_they_are() {
    const EVENTS: usize = 100_000;
    let scene = Scene::new("interrupt-deciding");
    scene.write("a.log", &LINE.repeat(EVENTS));
    scene.write("out.jsonl", "from before\n");
    let pipe = scene.0.join("out.jsonl.partial");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["replay", "--rules", "rules.yaml"])
        .args(["--decisions", "out.jsonl"])
        .args(BY_CLIENT)
        .arg("a.log")
        .current_dir(&scene.0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut decisions = BufReader::new(File::open(&pipe).unwrap());
    assert!(decisions.read_line(&mut String::new()).unwrap() > 0);
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert!(sent.success());
    let written = 1 + decisions.lines().map_while(Result::ok).count();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{err}");
    let expected = format!(
        "error: interrupted after {written} of {EVENTS} events; out.jsonl is not written, \
         the decisions so far are in out.jsonl.partial\n"
    );
    let expected = expected.replace(
        "out.jsonl",
        &scene.0.join("out.jsonl").display().to_string(),
    );
    assert_eq!(err, expected);
    assert!(written < EVENTS);
    // Reading the pipe would never end.
    assert!(fs::metadata(scene.0.join("out.jsonl")).unwrap().is_file());
    let before = fs::read_to_string(scene.0.join("out.jsonl")).unwrap();
    assert_eq!(before, "from before\n");
}

#[test]
fn a_full_disk_says_how_far_it_came_and_leaves_the_file_alone() {
    let scene = Scene::new("full");
    scene.write("out.jsonl", "from before\n");
    std::os::unix::fs::symlink("/dev/full", scene.0.join("out.jsonl.partial")).unwrap();
    let args = ["--decisions", "out.jsonl", "-"];
    let (code, _, err) = scene.by_client(&args, &LINE.repeat(10));
    assert_eq!(code, Some(2));
    assert!(
        err.starts_with("error: cannot write the decisions after 10 of 10 events: No space left"),
        "{err}"
    );
    assert!(
        err.contains("is not written, the decisions so far are in"),
        "{err}"
    );
    assert_eq!(
        fs::read_to_string(scene.0.join("out.jsonl")).unwrap(),
        "from before\n"
    );
}

/// The most bytes of memory per event that the process may write, for a log in which no client
/// occurs twice. It includes what the process itself needs, divided by the events of this test.
///
/// Not its address space (`ulimit -v`): the C library reserves 64 MiB or 128 MiB of that, which
/// nothing ever uses, at the first allocation of a second thread, depending on where they lie.
const BYTES_PER_EVENT: usize = 400;

#[test]
fn memory_is_bounded_by_the_distinct_requests_of_a_log() {
    const EVENTS: usize = 200_000;
    let scene = Scene::new("memory");
    let line = |client: usize| {
        format!("client-{client} - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\n")
    };
    let log: String = (0..EVENTS).map(line).collect();
    scene.write("a.log", &log);
    let kibibytes = (BYTES_PER_EVENT * EVENTS / 1024).to_string();
    let output = Command::new("sh")
        .args(["-c", "ulimit -d $0 && exec \"$@\"", &kibibytes])
        .arg(env!("CARGO_BIN_EXE_tollgate"))
        .args(["replay", "--rules", "rules.yaml", "--json"])
        .args(BY_CLIENT)
        .arg("a.log")
        .current_dir(&scene.0)
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["events"], EVENTS);
    assert_eq!(report["warnings"][0]["code"], "own-keys");
}
