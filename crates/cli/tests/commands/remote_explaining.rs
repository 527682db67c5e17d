//! `tollgate explain --url`: of a running service, and of peers that are none.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::thread;

use serde_json::Value;
use tempfile::TempDir;
use tollgate_testbed::Certificates;

use crate::house::{RULES, SETTINGS, Service, ask, directory, run, text, tollgate};

const TOKEN: &str = "hunter2-hunter2-hunter2";

/// A service with one more setting, the addresses of its listeners `http` and `admin`, and its
/// directory.
fn serving(setting: &str) -> (Service, String, String, TempDir) {
    let settings = format!("{SETTINGS}{setting}\n");
    let directory = directory(&[
        ("rules.yaml", RULES),
        ("tollgate.yaml", &settings),
        ("token", &format!("# of this test\n\n{TOKEN}\n")),
        ("other", "another-token-of-somewhere\n"),
    ]);
    let mut service = Service::start(directory.path());
    let (http, admin) = (service.address("http"), service.address("admin"));
    (service, http, format!("http://{admin}"), directory)
}

fn explain(directory: &Path, url: &str, more: &[&str]) -> Output {
    let arguments = [&["explain", "--url", url], more].concat();
    run(directory, &arguments)
}

/// The body of the service's own answer.
fn answer(url: &str, path: &str, accept: &str) -> String {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    let head = format!("host: localhost\r\naccept: {accept}\r\nconnection: close\r\n");
    write!(stream, "GET {path} HTTP/1.1\r\n{head}\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn a_request_that_is_too_long_says_what_to_do() {
    let (_service, _, url, directory) = serving("");
    // The service answers the first with 431; the others are longer than a URL can be.
    let rejected = format!("k={}", "x".repeat(20_000));
    let encoded = format!("k={}", "\u{43a}".repeat(11_000));
    let id = "i".repeat(66_000);
    for arguments in [&[&*rejected][..], &[&*encoded], &["--request-id", &id]] {
        let found = text(&explain(directory.path(), &url, arguments), 1);
        let expected = "the request is too long for the service; use shorter values, or explain \
                        without the service: --rules or --config in place of --url";
        assert!(found.contains(expected), "{found}");
    }
}

/// What does not depend on when it was asked.
fn timeless(text: &str) -> Value {
    let mut json: Value = serde_json::from_str(text).unwrap();
    json["retryAfter"].take();
    json["denial"]["ago"].take();
    json["descriptors"][0]["state"]["wait"].take();
    json["descriptors"][0]["state"]["reset"].take();
    json
}

#[test]
fn the_command_prints_what_the_service_answers() {
    let (_service, http, url, directory) = serving("explain: {show_values: true}");
    let directory = directory.path();
    let shown = text(&explain(directory, &url, &["k=secret"]), 0);
    let unknown = text(&explain(directory, &url, &["--domain", "x", "k=secret"]), 1);
    let expected = "there are no rules for the domain `x`; the service has `d`";
    assert!(unknown.contains(expected), "{unknown}");
    assert!(shown.starts_with("d: a request would be allowed now\n\nk=secret\n"));
    assert!(shown.contains("  remaining 1 of 1\n"), "{shown}");
    assert!(ask(&http).starts_with("HTTP/1.1 200"));
    let denied = ask(&http);
    let (_, id) = denied.split_once("x-request-id: ").unwrap();
    let id = id.lines().next().unwrap();
    let queries = [
        (
            &["--domain", "d", "k=secret"][..],
            "domain=d&descriptor=k%3Dsecret".to_owned(),
        ),
        (
            &["--any-order", "--cost", "2", r"k=a\,b", "x=1"],
            "domain=d&descriptor=k%3Da%5C%2Cb&descriptor=x%3D1&any_order=true&cost=2".to_owned(),
        ),
        (&["--request-id", id], format!("request_id={id}")),
    ];
    for (arguments, query) in queries {
        let path = format!("/v1/explain?{query}");
        let shown = text(&explain(directory, &url, arguments), 0);
        let expected = answer(&url, &path, "text/plain");
        assert_eq!(
            shown.lines().count(),
            expected.lines().count(),
            "{shown}\n{expected}"
        );
        // Its words but for the times.
        let words = |text: &str| {
            let words = text.split_whitespace().filter(|word| !word.ends_with('s'));
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(words(&shown), words(&expected));
        let json = text(
            &explain(
                directory,
                &url,
                &[arguments, &["--output", "json"]].concat(),
            ),
            0,
        );
        let expected = answer(&url, &path, "application/json");
        assert_eq!(timeless(&json), timeless(&expected));
    }
    let unknown = text(
        &explain(directory, &url, &["--request-id", "unknown-id"]),
        1,
    );
    assert!(
        unknown.contains("no denied request with this id is kept"),
        "{unknown}"
    );
}

#[test]
fn a_token_is_read_from_a_file_or_the_environment_and_is_in_no_output() {
    let (_service, _, url, directory) = serving("admin: {token_file: token}");
    let directory = directory.path();
    let table: [(&[&str], i32, &str); 6] = [
        (
            &["k=v"],
            1,
            "the service demands a token: name one with --token-file",
        ),
        (&["--token-file", "token", "k=v"], 0, "allowed now"),
        (
            &["--token-file", "other", "k=v"],
            1,
            "does not accept this token",
        ),
        (
            &["--token-file", "none", "k=v"],
            2,
            "--token-file: the file with the tokens cannot be read",
        ),
        (
            &["--token-file", "tollgate.yaml", "k=v"],
            2,
            "other characters than letters",
        ),
        (
            &["--token-env", "NO_SUCH_VARIABLE", "k=v"],
            2,
            "--token-env: the environment variable with the tokens is not set",
        ),
    ];
    for (arguments, status, expected) in table {
        let output = explain(directory, &url, arguments);
        let found = text(&output, status);
        assert!(found.contains(expected), "{arguments:?}: {found}");
        assert!(!format!("{output:?}").contains("hunter2"));
    }
    for (name, more) in [
        ("TOLLGATE_ADMIN_TOKEN", &[][..]),
        ("OURS", &["--token-env", "OURS"]),
    ] {
        let output = tollgate(directory)
            .env(name, TOKEN)
            .args([&["explain", "--url", &url, "k=v"], more].concat())
            .output()
            .unwrap();
        assert!(text(&output, 0).contains("allowed now"));
    }
}

/// A service whose admin listener speaks TLS, with these settings beside its certificate: the port
/// of that listener, and the directory.
fn serving_tls(certificates: &Certificates, more: &str) -> (Service, String, TempDir) {
    let (cert, key) = certificates.identity();
    let tls = format!("{{cert: {cert:?}, key: {key:?}{more}}}");
    let settings = format!(
        "rules: rules.yaml\nlog: {{format: json}}\nlisten:\n  grpc: null\n  \
         http: '127.0.0.1:0'\n  admin: {{address: '127.0.0.1:0', tls: {tls}}}\n"
    );
    let directory = directory(&[("rules.yaml", RULES), ("tollgate.yaml", &settings)]);
    let mut service = Service::start(directory.path());
    let address = service.address("admin");
    let (_, port) = address.rsplit_once(':').unwrap();
    (service, port.to_owned(), directory)
}

#[test]
fn a_service_with_tls_is_asked_by_its_authority() {
    let certificates = Certificates::new();
    let (_service, port, directory) = serving_tls(&certificates, "");
    let url = format!("https://localhost:{port}");
    let authority = certificates.authority();
    let shown = explain(directory.path(), &url, &["--ca", &authority, "k=v"]);
    assert!(text(&shown, 0).contains("allowed now"));
    let public = text(&explain(directory.path(), &url, &["k=v"]), 1);
    assert!(
        public.contains("no TLS connection") && public.contains("--ca"),
        "{public}"
    );
    let plain = text(
        &explain(
            directory.path(),
            &format!("http://localhost:{port}"),
            &["k=v"],
        ),
        1,
    );
    assert!(plain.contains("use https://"), "{plain}");
    let unused = explain(
        directory.path(),
        "http://localhost:1",
        &["--ca", &authority, "k=v"],
    );
    assert!(text(&unused, 2).contains("certificates are for https"));
}

#[test]
fn a_service_that_demands_a_certificate_is_named() {
    let certificates = Certificates::new();
    let authority = certificates.authority();
    let client_ca = format!(", client_ca: {authority:?}");
    let (_service, port, directory) = serving_tls(&certificates, &client_ca);
    let url = format!("https://localhost:{port}");
    let without = explain(directory.path(), &url, &["--ca", &authority, "k=v"]);
    let without = text(&without, 1);
    assert!(
        without.contains("demands a client certificate: name one with --cert"),
        "{without}"
    );
    let (cert, key) = certificates.issue("client");
    let with = ["--ca", &authority, "--cert", &cert, "--key", &key, "k=v"];
    assert!(text(&explain(directory.path(), &url, &with), 0).contains("allowed now"));
}

/// A peer that answers the first connection with these bytes, then closes it.
fn peer(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        // The command may close the connection before it has read everything.
        let _ = stream.write_all(&answer);
    });
    url
}

#[test]
fn peers_that_are_no_admin_listener_are_errors() {
    let directory = directory(&[]);
    let explain = |url: &str, status: i32| {
        text(
            &explain(directory.path(), url, &["--domain", "d", "k=v"]),
            status,
        )
    };
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let closed = explain(&format!("http://{free}"), 1);
    assert!(
        closed.contains("connection refused; is `tollgate serve` running"),
        "{closed}"
    );
    let reply = |media_type: &str, body: &[u8]| {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\n\r\n");
        peer([head.as_bytes(), body].concat())
    };
    let page = explain(&reply("text/html", b"<html>"), 1);
    assert!(
        page.contains("not the admin listener of a Tollgate"),
        "{page}"
    );
    let large = explain(&reply("text/plain", &vec![b'x'; (8 << 20) + 1]), 1);
    assert!(large.contains("more than 8388608 bytes"), "{large}");
    let noise = explain(&peer(b"\x00\x01\x02\r\n\r\n".to_vec()), 1);
    assert!(noise.contains("no HTTP response"), "{noise}");
    // What such a peer sends cannot control the terminal.
    let hostile = "one\u{1b}[2J\u{9b}2J\ntwo\r\u{7}".as_bytes();
    let shown = explain(&reply("text/plain", hostile), 0);
    assert_eq!(shown, "one\\u{1b}[2J\\u{9b}2J\ntwo\\r\\u{7}\n");
    let head = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n\r\n";
    let problem = explain(
        &peer(format!("{head}{{\"detail\": \"a\\u001b[2Jb\"}}").into_bytes()),
        1,
    );
    assert!(
        problem.contains("a\\u{1b}[2Jb (400 Bad Request)"),
        "{problem}"
    );
}

#[test]
fn options_that_do_not_fit_together_are_errors() {
    let directory = directory(&[("rules.yaml", RULES)]);
    let url = "http://127.0.0.1:1";
    let table: [(&[&str], &str); 8] = [
        (
            &["--url", url, "--rules", "rules.yaml", "k=v"],
            "cannot be used with",
        ),
        (&["--url", url], "KEY=VALUE"),
        (
            &["--url", url, "--request-id", "i", "k=v"],
            "cannot be used with",
        ),
        (
            &["--rules", "rules.yaml", "--request-id", "i"],
            "add --url URL",
        ),
        (
            &["--url", "127.0.0.1:6070", "k=v"],
            "write http://HOST:PORT",
        ),
        (
            &["--url", "http://127.0.0.1:260393", "k=v"],
            "its port is not a number from 1 to 65535; write http://HOST:PORT",
        ),
        (
            &["--url", "https://localhost:", "k=v"],
            "its port is not a number",
        ),
        (
            &["--rules", "rules.yaml", "--token-env", "T", "k=v"],
            "add --url URL",
        ),
    ];
    for (arguments, expected) in table {
        let output = run(directory.path(), &[&["explain"], arguments].concat());
        let found = text(&output, 2);
        assert!(found.contains(expected), "{arguments:?}: {found}");
    }
}
