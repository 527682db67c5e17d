//! `tollgate serve`, `check` and `schema` as processes.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const RULES: &str = "domain: d\ndescriptors: [{key: k, rate_limit: 1/day}]\n";
const SETTINGS: &str = "rules: rules.yaml\nlisten: {grpc: '127.0.0.1:0', http: '127.0.0.1:0', \
    admin: '127.0.0.1:0'}\nlog: {format: json}\n";

fn tollgate(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.current_dir(directory);
    command
}

fn run(directory: &Path, arguments: &[&str]) -> Output {
    tollgate(directory).args(arguments).output().unwrap()
}

fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = TempDir::new().unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

/// A service that is ended with its test.
struct Service {
    process: Child,
    log: BufReader<ChildStderr>,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Service {
    fn start(directory: &Path) -> Service {
        let mut command = tollgate(directory);
        let mut process = command.arg("serve").stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(process.stderr.take().unwrap());
        Service { process, log }
    }

    /// Reads the log, a JSON object a line, up to the line that is meant.
    fn logged(&mut self, meant: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            let length = self.log.read_line(&mut line).unwrap();
            assert!(length > 0, "the log has ended");
            let line: Value = serde_json::from_str(&line).unwrap();
            if meant(&line) {
                return line;
            }
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status().unwrap();
        assert!(sent.success());
    }
}

fn ask(address: &str) -> String {
    let question = r#"{"domain":"d","descriptors":[{"k":"secret"}]}"#;
    let mut stream = TcpStream::connect(address).unwrap();
    let length = question.len();
    let head = "POST /v1/check HTTP/1.1\r\nhost: h\r\nconnection: close\r\n";
    write!(stream, "{head}content-length: {length}\r\n\r\n{question}").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn serve_answers_reloads_and_ends_with_0() {
    let directory = directory(&[("rules.yaml", RULES), ("tollgate.yaml", SETTINGS)]);
    let mut service = Service::start(directory.path());
    let listening = service.logged(|line| line["door"] == "http");
    let address = listening["address"].as_str().unwrap().to_owned();
    service.logged(|line| line["door"] == "admin");
    assert!(ask(&address).starts_with("HTTP/1.1 200"));
    assert!(ask(&address).starts_with("HTTP/1.1 429"));
    service.signal("-HUP");
    let read = service.logged(|line| line["outcome"].is_string());
    assert_eq!(read["outcome"], "InForce");
    service.signal("-TERM");
    let end = service.logged(|line| line["message"] == "stopped");
    assert!(!end.to_string().contains("secret"));
    assert_eq!(service.process.wait().unwrap().code(), Some(0));
}

#[test]
fn serve_says_why_it_does_not_run() {
    let wrong = directory(&[
        ("rules.yaml", RULES),
        ("tollgate.yaml", "rule: rules.yaml\n"),
    ]);
    let output = run(wrong.path(), &["serve"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("tollgate.yaml:1:1"), "{text}");
    assert!(text.contains("did you mean `rules`?"), "{text}");
    let bad = directory(&[
        ("rules.yaml", "domain: d\nx: 1\n"),
        ("tollgate.yaml", SETTINGS),
    ]);
    let output = run(bad.path(), &["serve"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("rules.yaml:2:1"), "{text}");
    let nothing = directory(&[]);
    let output = run(nothing.path(), &["serve", "nowhere.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("cannot read nowhere.yaml: "), "{text}");
}

#[test]
fn check_tells_good_rules_from_bad_and_from_none() {
    let rules = directory(&[("good.yaml", RULES), ("bad.yaml", "domain: e\nx: 1\n")]);
    let good = run(rules.path(), &["check", "good.yaml"]);
    assert_eq!(good.status.code(), Some(0));
    let bad = run(rules.path(), &["check", "."]);
    assert_eq!(bad.status.code(), Some(1));
    let text = String::from_utf8(bad.stdout).unwrap();
    assert!(text.contains("bad.yaml:2:1"), "{text}");
    assert!(text.contains("1 errors"), "{text}");
    let json = run(rules.path(), &["check", "--format", "json", "bad.yaml"]);
    assert_eq!(json.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["errors"], 1);
    assert_eq!(json["diagnostics"][0]["line"], 2);
    let none = run(rules.path(), &["check", "nowhere.yaml"]);
    assert_eq!(none.status.code(), Some(2));
    assert_eq!(run(rules.path(), &["check"]).status.code(), Some(2));
}

#[test]
fn schema_writes_json() {
    let output = run(directory(&[]).path(), &["schema"]);
    assert_eq!(output.status.code(), Some(0));
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(schema["$schema"].as_str().unwrap().contains("2020-12"));
}
