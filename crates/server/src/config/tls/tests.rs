#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;

use tollgate_rules::Source;
use tollgate_testbed::{Certificates, Folder};

use super::*;
use crate::config::{Config, Listen, ListenerKind};

fn parse(text: &str, directory: &Path) -> Result<Config, String> {
    let text = format!("rules: r\n{text}");
    let parsed = Config::parse(&Source::new("tollgate.yaml", text), directory);
    parsed.map_err(|error| error.to_string())
}

#[test]
fn a_listener_is_an_address_or_a_map() {
    let certificates = Certificates::new();
    let (cert, key) = certificates.identity();
    let text = format!(
        "listen:\n  grpc: {{tls: {{cert: {cert}, key: server.key}}}}\n  \
         http: {{address: '[::1]:443', tls: {{cert: {cert}, key: {key}, client_ca: ca.pem}}}}\n  \
         admin: {{address: '0.0.0.0:0'}}\n"
    );
    // Paths are relative to the file.
    let directory = Path::new(&cert).parent().unwrap();
    let listen = |kind, address: &str, tls| Listen {
        kind,
        address: address.parse().unwrap(),
        tls,
    };
    let files = |client_ca: Option<&str>| TlsFiles {
        cert: PathBuf::from(&cert),
        key: PathBuf::from(&key),
        client_ca: client_ca.map(|name| directory.join(name)),
    };
    let expected = [
        listen(ListenerKind::Grpc, "127.0.0.1:8081", Some(files(None))),
        listen(ListenerKind::Http, "[::1]:443", Some(files(Some("ca.pem")))),
        listen(ListenerKind::Admin, "0.0.0.0:0", None),
    ];
    assert_eq!(parse(&text, directory).unwrap().listen, expected);
}

#[test]
fn errors_name_their_place_and_the_remedy() {
    let (certificates, folder) = (Certificates::new(), Folder::new());
    let (cert, key) = certificates.identity();
    let (other, _) = certificates.issue("other");
    fs::write(folder.path().join("empty.pem"), "").unwrap();
    let cases = [
        (
            "{}".to_owned(),
            "2:22",
            "TLS needs a certificate and its key",
        ),
        (
            format!("{{cert: {cert}}}"),
            "2:29",
            "a certificate without its key",
        ),
        (format!("{{key: {key}}}"), "2:28", "add `cert: FILE` (PEM)"),
        (
            "{client_ca: empty.pem}".to_owned(),
            "2:34",
            "clients are asked for certificates, and the listener has none itself",
        ),
        (
            format!("{{key: {key}, cert: nowhere.pem}}"),
            "",
            "the file cannot be read: No such file",
        ),
        (
            format!("{{key: {key}, cert: empty.pem}}"),
            "",
            "the file has no certificate",
        ),
        (
            format!("{{cert: {other}, key: {key}}}"),
            "",
            "the key does not belong to the certificate",
        ),
        (
            format!("{{cert: {cert}, key: {key}, client_ca: empty.pem}}"),
            "",
            "the file has no certificate",
        ),
        (
            format!("{{cert: {cert}, kee: {key}}}"),
            "",
            "did you mean `listen.http.tls.key`?",
        ),
        ("true".to_owned(), "2:22", "this must be a map"),
    ];
    for (tls, place, expected) in cases {
        let text = format!("listen: {{http: {{tls: {tls}}}}}\n");
        let error = parse(&text, folder.path()).unwrap_err();
        assert!(error.contains(expected), "{text}{error}");
        assert!(
            error.contains(&format!("tollgate.yaml:{place}")),
            "{text}{error}"
        );
    }
    let error = parse("listen: {http: {adress: '[::]:1'}}\n", folder.path()).unwrap_err();
    assert!(
        error.contains("did you mean `listen.http.address`?"),
        "{error}"
    );
}

/// All that is wrong with a listener is reported at once.
#[test]
fn every_file_that_cannot_be_used_is_an_error() {
    let text = "listen:\n  http:\n    tls:\n      cert: a\n      key: b\n      client_ca: c\n";
    let error = parse(text, Path::new("/nowhere")).unwrap_err();
    for place in ["5:13", "6:12", "7:18"] {
        assert!(error.contains(&format!("tollgate.yaml:{place}")), "{error}");
    }
}

#[test]
fn a_key_in_the_settings_themselves_is_not_shown() {
    let certificates = Certificates::new();
    let (_, key) = certificates.identity();
    let key = fs::read_to_string(key).unwrap();
    let body = key.lines().nth(1).unwrap();
    let quoted = key.replace('\n', "\\n");
    let block = key.replace('\n', "\n        ");
    for text in [
        format!("listen: {{http: {{tls: {{cert: a, key: \"{quoted}\"}}}}}}\n"),
        format!("listen:\n  http:\n    tls:\n      cert: a\n      key: |\n        {block}\n"),
    ] {
        let error = parse(&text, Path::new("")).unwrap_err();
        assert!(error.contains("this is PEM itself"), "{error}");
        assert!(!error.contains(body), "{error}");
    }
}
