//! `tollgate replay --target`: a running service decides, and peers that are none.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

use crate::house::{SETTINGS, Service, directory, run, text, tollgate};
use crate::schema::violations;

/// A bucket of two for each client, which is not refilled before a test has ended.
const RULES: &str = "domain: web
descriptors:
  - key: client
    rate_limit: {unit: day, requests_per_unit: 2, algorithm: token_bucket}
";
const TRACE: &str = r#"
{"at": 1, "domain": "web", "descriptors": [{"entries": [{"key": "client"}]}], "hitsAddend": 2}
{"at": 2.5, "domain": "web", "descriptors": [{"entries": [{"key": "client"}]}]}
"#;

/// Ten requests of three clients in two seconds.
fn log() -> TempDir {
    let line = |index: usize| {
        let (client, second) = (index % 3, index / 5);
        format!(
            "192.0.2.{client} - - [01/Jan/2026:10:00:0{second} +0000] \"GET / HTTP/1.1\" 200 1\n"
        )
    };
    let lines: String = (0..10).map(line).collect();
    directory(&[
        ("rules.yaml", RULES),
        ("tollgate.yaml", SETTINGS),
        ("access.log", &(lines + "junk\n")),
        ("trace.jsonl", TRACE),
        ("empty.log", ""),
    ])
}

/// The arguments that send the log to this address.
fn arguments<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let all = ["replay", "--target", url, "--speed", "max"];
    [&all[..], more].concat()
}

fn send(directory: &Path, url: &str, more: &[&str]) -> Output {
    let access = ["--domain", "web", "--descriptor", "client={client}"];
    let all = [more, &access, &["access.log"]].concat();
    run(directory, &arguments(url, &all))
}

/// A peer that answers each request with these bytes, and closes the connection.
fn peer(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if answer.is_empty() {
                continue;
            }
            let _ = read_request(&mut stream);
            let _ = stream.write_all(answer);
        }
    });
    url
}

/// A request with its body; empty if the peer closed the connection.
fn read_request(stream: &mut TcpStream) -> String {
    let (mut request, mut bytes) = (String::new(), [0; 4096]);
    while !request.ends_with('}') {
        match stream.read(&mut bytes) {
            Ok(0) | Err(_) => break,
            Ok(length) => request.push_str(&String::from_utf8_lossy(&bytes[..length])),
        }
    }
    request
}

#[test]
fn a_service_decides_as_a_replay_of_the_same_log_does() {
    let directory = log();
    let mut service = Service::start(directory.path());
    let url = format!("http://{}", service.address("http"));
    let replay = ["replay", "--rules", "rules.yaml", "--output", "json"];
    let replay = [
        &replay[..],
        &["--descriptor", "client={client}", "access.log"],
    ]
    .concat();
    let expected: Value = serde_json::from_str(&text(&run(directory.path(), &replay), 0)).unwrap();
    let found = send(directory.path(), &url, &["--output", "json"]);
    let found: Value = serde_json::from_str(&text(&found, 0)).unwrap();
    assert_eq!(found["offered"], expected["events"]);
    for member in ["allowed", "denied", "withoutLimit"] {
        assert_eq!(found[member], expected[member], "{member}");
    }
    assert_eq!(
        (&found["allowed"], &found["denied"]),
        (&6.into(), &4.into())
    );
    assert_eq!((&found["sent"], &found["errors"]), (&10.into(), &0.into()));
    assert!(found["latencyMicros"]["max"].as_u64() >= found["latencyMicros"]["p50"].as_u64());
    assert!(found["lateMicros"].is_null());
    assert_eq!(violations("sending", &found), [""; 0]);

    // The buckets are empty now.
    let mut paced = arguments(
        &url,
        &["--domain", "web", "--descriptor", "client={client}"],
    );
    paced.retain(|argument| !["--speed", "max"].contains(argument));
    paced.extend(["--speed", "1000000x", "--in-flight", "1", "access.log"]);
    let paced = run(directory.path(), &paced);
    let errors = String::from_utf8_lossy(&paced.stderr).into_owned();
    let plan = "10 requests of 2s at 1000000x: sending takes 1s";
    assert!(errors.contains(plan), "{errors}");
    let shown = text(&paced, 0);
    assert!(
        shown.starts_with("          10 offered\n           0 allowed\n"),
        "{shown}"
    );
    for row in ["   sent late ", "     latency "] {
        let has_row = shown.lines().any(|line| line.starts_with(row));
        assert!(has_row, "{row}\n{shown}");
    }

    let trace = arguments(
        &url,
        &["--format", "jsonl", "--output", "json", "trace.jsonl"],
    );
    let trace = text(&run(directory.path(), &trace), 0);
    let trace: Value = serde_json::from_str(&trace).unwrap();
    assert_eq!(
        (&trace["allowed"], &trace["denied"]),
        (&1.into(), &1.into())
    );
}

#[test]
fn the_report_is_as_its_schema_says() {
    let directory = log();
    let mut service = Service::start(directory.path());
    let http = format!("http://{}", service.address("http"));
    let noise = peer(b"SSH-2.0-OpenSSH\r\n");
    // With times and without decisions: the members that can be null or empty.
    for (url, status, speed) in [(&http, 0, "1000000x"), (&noise, 2, "max")] {
        let more = ["--output", "json", "--speed", speed];
        let access = ["--domain", "web", "--descriptor", "client={client}"];
        let all = [
            &["replay", "--target", url][..],
            &more,
            &access,
            &["access.log"],
        ]
        .concat();
        let output = run(directory.path(), &all);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(violations("sending", &found), [""; 0]);
        assert_eq!(found["lateMicros"].is_null(), speed == "max", "{found}");
        assert_eq!(found["latencyMicros"].is_null(), status == 2, "{found}");
        let reasons = found["errorReasons"].as_array().unwrap().len();
        assert_eq!(reasons > 0, status == 2, "{found}");

        let mut wrong = found.clone();
        wrong["elapsedMicros"] = "1".into();
        wrong["extra"] = 1.into();
        assert_eq!(violations("sending", &wrong).len(), 2);
    }
}

#[test]
fn requests_that_no_rule_matches_are_counted() {
    let directory = log();
    let mut service = Service::start(directory.path());
    let url = format!("http://{}", service.address("http"));
    let access = [
        "--domain",
        "other",
        "--descriptor",
        "client={client}",
        "access.log",
    ];
    let shown = text(&run(directory.path(), &arguments(&url, &access)), 0);
    assert!(shown.contains("          10 met no limit\n"), "{shown}");
}

#[test]
fn an_address_of_no_service_is_an_error_that_says_so() {
    let directory = log();
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let closed = format!("http://{closed}");
    let mut service = Service::start(directory.path());
    let http = service.address("http");
    let (plain, encrypted) = (format!("http://{http}"), format!("https://{http}"));
    let admin = format!("http://{}", service.address("admin"));
    let closing = peer(b"");
    let page = peer(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 0\r\n\r\n");
    let noise = peer(b"SSH-2.0-OpenSSH\r\n");
    for (url, more, expected) in [
        (
            &*closed,
            &[][..],
            "connection refused; is `tollgate serve` running",
        ),
        ("http://a.invalid", &[], "cannot connect: "),
        (
            "http://a/v1/check",
            &[],
            "it has a path; the command adds its own",
        ),
        ("ftp://a", &[], "begins with neither http:// nor https://"),
        (&*encrypted, &[], "use http:// for a listener without TLS"),
        (&*plain, &["--ca", "ca.pem"], "certificates are for https"),
        (
            &*plain,
            &["--token-file", "none"],
            "--token-file: the file with",
        ),
        (&*plain, &["--in-flight", "0"], "from 1 to 10000"),
        (
            &*plain,
            &["--rules", "rules.yaml"],
            "cannot be used with '--rules",
        ),
        (
            &*plain,
            &["--fail-if", "denied > 1"],
            "cannot be used with '--fail-if",
        ),
        (&*admin, &[], "no decision on any request"),
        (&*closing, &[], "no decision on any request"),
        (&*page, &[], "no decision on any request"),
        (&*noise, &[], "no decision on any request"),
    ] {
        let output = send(directory.path(), url, more);
        let errors = text(&output, 2);
        assert!(errors.contains(expected), "{url} {more:?}: {errors}");
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        if expected.starts_with("no decision") {
            assert!(
                shown.contains("          10 failed, without a decision\n"),
                "{shown}"
            );
        }
    }
}

#[test]
fn options_that_are_missing_or_alone_are_errors() {
    let directory = log();
    let url = "http://127.0.0.1:1";
    let unnamed = ["--descriptor", "client={client}", "access.log"];
    let unnamed = text(&run(directory.path(), &arguments(url, &unnamed)), 2);
    assert!(unnamed.contains("--domain NAME"), "{unnamed}");
    let empty = [
        "--domain",
        "web",
        "--descriptor",
        "client={client}",
        "empty.log",
    ];
    let empty = text(&run(directory.path(), &arguments(url, &empty)), 2);
    assert!(empty.contains("there is no event to decide"), "{empty}");
    let standing = ["replay", "--target", url, "--speed", "0x", "access.log"];
    assert!(text(&run(directory.path(), &standing), 2).contains("from 0.001x to 1000000x"));
    for option in [["--speed", "1x"], ["--in-flight", "2"], ["--ca", "ca.pem"]] {
        let replay = [
            "replay",
            "--rules",
            "rules.yaml",
            "--descriptor",
            "client={client}",
        ];
        let alone = [&replay[..], &option, &["access.log"]].concat();
        let alone = text(&run(directory.path(), &alone), 2);
        assert!(
            alone.contains(option[0]) && alone.contains("add --target URL"),
            "{alone}"
        );
    }
}

#[test]
fn what_a_peer_says_cannot_control_the_terminal() {
    let directory = log();
    let url = peer(
        b"HTTP/1.1 500 No\r\nconnection: close\r\ncontent-type: application/problem+json\r\n\
          content-length: 26\r\n\r\n{\"detail\":\"\\u001b[2J\\u202ex\"}",
    );
    let output = send(directory.path(), &url, &[]);
    assert_eq!(output.status.code(), Some(2));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("          10  status 500"), "{shown}");
    assert!(
        !shown.contains('\u{1b}') && !shown.contains('\u{202e}'),
        "{shown}"
    );
}

#[test]
fn ctrl_c_gives_the_sums_so_far_of_a_service_that_never_answers() {
    let directory = log();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let access = [
        "--domain",
        "web",
        "--descriptor",
        "client={client}",
        "access.log",
    ];
    let mut command = tollgate(directory.path());
    command
        .args(arguments(&url, &access))
        .args(["--in-flight", "1"]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    assert!(read_request(&mut stream).starts_with("POST /v1/check HTTP/1.1\r\n"));
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(
        shown.contains("           1 in flight when it ended\n"),
        "{shown}"
    );
    assert!(
        shown.contains("           0 allowed\n           0 denied\n"),
        "{shown}"
    );
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("of 10 requests; the sums are of these"),
        "{errors}"
    );
}

#[test]
fn a_token_is_sent_only_if_it_is_named() {
    let directory = log();
    let token = "hunter2-hunter2-hunter2";
    for (more, expected) in [(&["--token-env", "TOKEN"][..], true), (&[], false)] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let access = [
            "--domain",
            "web",
            "--descriptor",
            "client={client}",
            "access.log",
        ];
        let mut command = tollgate(directory.path());
        command
            .env("TOLLGATE_ADMIN_TOKEN", token)
            .env("TOKEN", token);
        command
            .args(arguments(&url, &access))
            .args(more)
            .args(["--in-flight", "1"]);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let request = read_request(&mut stream);
        child.kill().unwrap();
        child.wait().unwrap();
        let header = format!("authorization: Bearer {token}\r\n");
        assert_eq!(request.contains(&header), expected, "{request}");
        assert!(request.ends_with(
            r#"{"descriptors":[{"entries":[{"key":"client","value":"192.0.2.0"}]}],"domain":"web"}"#
        ));
    }
}

/// The service accepts a connection, and never answers its first message of TLS.
#[test]
fn ctrl_c_ends_the_process_while_it_connects() {
    let directory = log();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let access = ["--domain", "web", "--descriptor", "client={client}"];
    let mut command = tollgate(directory.path());
    let command = command.args(arguments(&url, &access)).arg("access.log");
    let child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (_stream, _) = listener.accept().unwrap();
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(sent.success());
    let errors = text(&child.wait_with_output().unwrap(), 130);
    assert!(
        errors.starts_with("error: interrupted after reading "),
        "{errors}"
    );
    assert!(
        errors.ends_with("; nothing was decided, nothing written\n"),
        "{errors}"
    );
}
