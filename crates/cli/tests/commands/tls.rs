//! `tollgate serve` and `check` with TLS, asked by curl.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;
use tollgate_testbed::Certificates;

use crate::house::{RULES, Service, directory, run};

/// Settings whose `http` listener has `tls`, and which answer `/v1/auth`.
fn settings(tls: &str) -> String {
    format!(
        "rules: rules.yaml\nlog: {{format: json}}\nlisten:\n  grpc: null\n  \
         http: {{address: '127.0.0.1:0', tls: {tls}}}\n  admin: '127.0.0.1:0'\n\
         auth:\n  domain: d\n  source: x-original-uri\n  identity:\n    \
         client_address: {{source: x-real-ip}}\n    \
         descriptors: [{{entries: [{{key: k, from: client_address}}]}}]\n"
    )
}

/// A directory with settings, rules, a certificate and its key.
fn ground(certificates: &Certificates, tls: &str) -> TempDir {
    let directory = directory(&[("rules.yaml", RULES), ("tollgate.yaml", &settings(tls))]);
    put(directory.path(), certificates.identity());
    fs::copy(certificates.authority(), directory.path().join("ca.pem")).unwrap();
    directory
}

fn put(directory: &Path, (cert, key): (String, String)) {
    fs::copy(cert, directory.join("cert.pem")).unwrap();
    fs::copy(key, directory.join("key.pem")).unwrap();
}

/// Starts a service; returns it with the port of its `http` listener.
fn start(directory: &Path) -> (Service, String) {
    let mut service = Service::start(directory);
    let address = service.address("http");
    let port = address.rsplit(':').next().unwrap().to_owned();
    service.logged(|line| line["listener"] == "admin");
    (service, port)
}

fn curl(directory: &Path, port: &str, path: &str, words: &[&str]) -> Output {
    let mut curl = Command::new("curl");
    curl.current_dir(directory)
        .args(["-sS", "-w", "%{http_code}", "--cacert", "ca.pem"]);
    let url = format!("https://localhost:{port}{path}");
    curl.args(words).arg(url).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8([&*output.stdout, &output.stderr].concat()).unwrap()
}

#[test]
fn curl_is_answered_over_tls() {
    let certificates = Certificates::new();
    let directory = ground(&certificates, "{cert: cert.pem, key: key.pem}");
    let (_service, port) = start(directory.path());
    let question = r#"{"domain":"d","descriptors":[{"k":"v"}]}"#;
    for version in [&["--tlsv1.3"][..], &["--tls-max", "1.2"]] {
        let words = [version, &["-d", question]].concat();
        let status = if version.len() == 1 { "200" } else { "429" };
        let output = curl(directory.path(), &port, "/v1/check", &words);
        assert!(text(&output).ends_with(status), "{output:?}");
    }
    let proxied = [
        "-Hx-original-uri: /",
        "-Hx-original-method: GET",
        "-Hx-real-ip: 192.0.2.7",
    ];
    for status in ["200", "429"] {
        let output = curl(directory.path(), &port, "/v1/auth", &proxied);
        assert!(text(&output).ends_with(status), "{output:?}");
    }
    for old in ["1.0", "1.1"] {
        let output = curl(directory.path(), &port, "/healthz", &["--tls-max", old]);
        assert!(!output.status.success(), "{output:?}");
    }
}

#[test]
fn a_log_is_sent_over_tls() {
    let certificates = Certificates::new();
    let directory = ground(&certificates, "{cert: cert.pem, key: key.pem}");
    let line = "192.0.2.1 - - [01/Jan/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n";
    fs::write(directory.path().join("access.log"), line.repeat(2)).unwrap();
    let (_service, port) = start(directory.path());
    let url = format!("https://localhost:{port}");
    let send = |more: &[&str]| {
        let words = [
            "replay", "--target", &url, "--speed", "max", "--domain", "d",
        ];
        let log = ["--descriptor", "k={client}", "access.log"];
        run(directory.path(), &[&words[..], more, &log].concat())
    };
    let output = send(&["--ca", "ca.pem"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let sums = "           2 offered\n           1 allowed\n           1 denied\n";
    assert!(text(&output).starts_with(sums), "{output:?}");
    let output = send(&[]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output).contains("name the service's authority with --ca"));
}

#[test]
fn curl_needs_a_certificate_where_the_settings_say_so() {
    let certificates = Certificates::new();
    let directory = ground(
        &certificates,
        "{cert: cert.pem, key: key.pem, client_ca: ca.pem}",
    );
    let (cert, key) = certificates.issue("client");
    let (_service, port) = start(directory.path());
    let certified = ["--cert", &*cert, "--key", &*key];
    for version in [&["--tlsv1.3"][..], &["--tls-max", "1.2"]] {
        let words = [version, &certified].concat();
        let output = curl(directory.path(), &port, "/healthz", &words);
        assert!(text(&output).ends_with("200"), "{output:?}");
        let output = curl(directory.path(), &port, "/healthz", version);
        assert!(!output.status.success(), "{output:?}");
        assert!(text(&output).contains("certificate required"), "{output:?}");
    }
}

#[test]
fn a_hangup_reads_certificates_again() {
    let certificates = Certificates::new();
    let directory = ground(&certificates, "{cert: cert.pem, key: key.pem}");
    let (mut service, port) = start(directory.path());
    let other = Certificates::new();
    put(directory.path(), other.identity());
    service.signal("-HUP");
    service.logged(|line| line["message"] == "certificate in effect");
    service.logged(|line| line["outcome"].is_string());
    let output = curl(directory.path(), &port, "/healthz", &[]);
    assert_eq!(output.status.code(), Some(60), "{output:?}");
    fs::copy(other.authority(), directory.path().join("ca.pem")).unwrap();
    let output = curl(directory.path(), &port, "/healthz", &[]);
    assert!(text(&output).ends_with("200"), "{output:?}");
}

#[test]
fn an_expired_certificate_is_a_warning_in_the_settings() {
    let certificates = Certificates::new();
    let directory = ground(&certificates, "{cert: cert.pem, key: key.pem}");
    let check = |more: &[&str]| {
        let words = ["check", "--config", "tollgate.yaml"];
        let output = run(directory.path(), &[&words, more].concat());
        (text(&output), output.status.code())
    };
    let (found, _) = check(&[]);
    assert!(found.contains("0 errors, 0 warnings"), "{found}");
    put(directory.path(), certificates.issue_expired("old"));
    let (found, status) = check(&[]);
    assert_eq!(status, Some(0), "{found}");
    let expected = "the certificate has expired: clients reject it";
    for expected in [expected, "tollgate.yaml:5:46", "replace its file"] {
        assert!(found.contains(expected), "{expected}: {found}");
    }
    assert_eq!(check(&["--deny-warnings"]).1, Some(1));
}

#[test]
fn certificates_that_cannot_be_used_are_errors_in_the_settings() {
    let certificates = Certificates::new();
    let tls = "{cert: cert.pem, key: ca.pem, client_ca: nowhere.pem}";
    let directory = ground(&certificates, tls);
    for (words, status) in [
        (&["serve"][..], 2),
        (&["check", "--config", "tollgate.yaml"], 1),
    ] {
        let output = run(directory.path(), words);
        assert_eq!(output.status.code(), Some(status), "{words:?}");
        let text = text(&output);
        for expected in [
            "the file has no private key that can be read",
            "the file cannot be read: No such file",
            "tollgate.yaml:5:61",
            "tollgate.yaml:5:80",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}
