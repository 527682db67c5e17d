#![allow(clippy::unwrap_used)]

use std::fs;
use std::num::NonZeroU32;

use tempfile::TempDir;
use tollgate_core::{Mode, OnStoreError, Span};
use tollgate_redis::{Config, Identity, Secret, Servers, Tls};
use tollgate_rules::Source;
use tollgate_testbed::Certificates;

use super::*;
use crate::config::{Config as Settings, ConfigError};

/// Reads settings where only Redis can be named, so that the messages are the same when there are
/// more backends.
fn parse_in(directory: &Path, text: &str) -> Result<Settings, ConfigError> {
    let source = Source::new("tollgate.yaml", format!("rules: r\n{text}"));
    Settings::parse_with(&source, directory, &[AnyBackend::of::<Config>()])
}

fn parse(text: &str) -> Settings {
    parse_in(Path::new("/etc/tollgate"), text).unwrap()
}

fn redis(settings: &Settings) -> &Config {
    match &settings.store {
        Place::Shared(config) => config.downcast_ref().unwrap(),
        Place::Memory => panic!("in memory"),
    }
}

fn single(address: &str) -> Config {
    Config::single(address)
}

#[test]
fn by_default_state_is_in_memory() {
    for text in [
        "",
        "store: memory\n",
        "store: {}\n",
        "store: {memory: true}\n",
    ] {
        let settings = parse(text);
        assert_eq!(settings.store, Place::Memory, "{text}");
        assert_eq!(settings.sharing, Sharing::default());
        assert_eq!(settings.stores, []);
    }
}

#[test]
fn one_server_needs_its_url_and_nothing_else() {
    let settings = parse("store: {redis: {url: 'redis://localhost'}}\n");
    assert_eq!(*redis(&settings), single("localhost:6379"));
    let settings = parse("store: {redis: {url: 'rediss://me:pw@db:1'}}\n");
    let expected = Config {
        tls: Some(Tls::default()),
        username: Some("me".to_owned()),
        password: Some(Secret::new("pw")),
        ..single("db:1")
    };
    assert_eq!(*redis(&settings), expected);
}

/// `ca.pem`, and `us.pem` with `us.key`.
fn copy_certificates(to: &Path) {
    let certificates = Certificates::new();
    let (certificate, key) = certificates.identity();
    for (from, name) in [
        (certificates.authority(), "ca.pem"),
        (certificate, "us.pem"),
        (key, "us.key"),
    ] {
        fs::copy(from, to.join(name)).unwrap();
    }
}

#[test]
fn everything_about_stores_can_be_said() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("pw"), "correct horse\r\n").unwrap();
    copy_certificates(directory.path());
    let text = "store:\n  mode: write_back\n  on_store_error: local\n  instances: 3\n  redis:\n\
        \x20   cluster: ['a:1', '[::1]:2']\n\
        \x20   tls: {ca: ca.pem, server_name: db, cert: us.pem, key: us.key}\n\
        \x20   username: me\n    password_file: pw\n    prefix: 'x:'\n    timeout: 15ms\n\
        \x20   pool: 2\n    sync_interval: 250ms\n\
        stores:\n  pay:\n    domains: [a, b]\n    redis:\n\
        \x20     sentinel: {master: m, addresses: 's:1', username: w, password: sp}\n\
        \x20     password: pw\n      tls: true\n\
        \x20 near: {domains: c, memory: true}\n";
    let settings = parse_in(directory.path(), text).unwrap();
    let expected = Sharing {
        mode: Mode::WriteBack,
        on_store_error: OnStoreError::Local,
        instances: NonZeroU32::new(3),
    };
    assert_eq!(settings.sharing, expected);
    let expected = Config {
        tls: Some(Tls {
            authorities: Some(directory.path().join("ca.pem")),
            server_name: Some("db".to_owned()),
            identity: Some(Identity {
                certificate: directory.path().join("us.pem"),
                key: directory.path().join("us.key"),
            }),
        }),
        username: Some("me".to_owned()),
        password: Some(Secret::new("correct horse")),
        prefix: "x:".to_owned(),
        timeout: Span::from_millis(15),
        connections: 2,
        sync_interval: Span::from_millis(250),
        ..Config::cluster(["a:1", "[::1]:2"].map(str::to_owned))
    };
    assert_eq!(*redis(&settings), expected);
    let servers = Servers::Sentinel {
        addresses: vec!["s:1".to_owned()],
        master: "m".to_owned(),
    };
    let pay = Config {
        tls: Some(Tls::default()),
        password: Some(Secret::new("pw")),
        sentinel_username: Some("w".to_owned()),
        sentinel_password: Some(Secret::new("sp")),
        ..Config::new(servers)
    };
    let expected = [
        OtherStore {
            name: "pay".to_owned(),
            domains: vec!["a".to_owned(), "b".to_owned()],
            place: Place::Shared(SharedConfig::new(pay)),
        },
        OtherStore {
            name: "near".to_owned(),
            domains: vec!["c".to_owned()],
            place: Place::Memory,
        },
    ];
    assert_eq!(settings.stores, expected);
}

#[test]
fn a_url_in_place_of_a_map_is_a_store_with_defaults() {
    let expected = Config {
        tls: Some(Tls::default()),
        username: Some("me".to_owned()),
        password: Some(Secret::new("pw")),
        ..single("db:1")
    };
    let settings = parse("store: rediss://me:pw@db:1\n");
    assert_eq!(*redis(&settings), expected);
    assert_eq!(settings.sharing, Sharing::default());
    let settings = parse("store: {redis: 'rediss://me:pw@db:1', mode: leased}\n");
    assert_eq!(*redis(&settings), expected);
    assert_eq!(settings.sharing.mode, Mode::Leased);
    let settings = parse("store: redis://localhost\n");
    assert_eq!(*redis(&settings), single("localhost:6379"));
    for text in [
        "store: unix:///run/redis.sock\n",
        "store: {redis: 'unix:///run/redis.sock'}\n",
        "store: {redis: {url: 'unix:///run/redis.sock'}}\n",
    ] {
        let expected = single("unix:/run/redis.sock");
        assert_eq!(*redis(&parse(text)), expected, "{text}");
    }
}

/// Places in which a password may be written accidentally.
const WRONG_PLACES: [&str; 33] = [
    "store: X",
    "store: redis://:X",
    "store: redis://:X@host:port",
    "store: redis://:X@host/1",
    "store: postgres://:X@host",
    "store: [X, X]",
    "store: 'X'",
    "store: !X redis://host",
    "store: *X",
    "store: {X: }",
    "store: {X: redis://host}",
    "store: {redis://:X@host: }",
    "store:\n  redis://:X@host:\n",
    "store:\n  redis://:X@host: 1\n  redis://:X@host: 2\n",
    "store: {memory: X}",
    "store: {memory: redis://:X@host}",
    "store: {memory: true, redis: X}",
    "store: {redis: {X: }}",
    "store: {redis: {KEY: X}}",
    "store: {redis: {KEY: [X]}}",
    "store: {redis: {KEY: {X: X}}}",
    "store: {redis: {url: redis://host, KEY: X}}",
    "store: {redis: {url: redis://host, KEY: {X: 1}}}",
    "store: {redis: {url: redis://host, tls: {X: 1, ca: X, server_name: 'X X'}}}",
    "store: {redis: {cluster: ['redis://:X@host', X]}}",
    "store: {redis: {sentinel: {master: m, addresses: ['redis://:X@host'], X: X}}}",
    "store: {mode: X, on_store_error: X, instances: X}",
    "stores: X",
    "stores: {X@h: {domains: d}}",
    "stores: {redis://:X@host: {domains: d, dmains: d}}",
    "stores: {a: X}",
    "stores: {a: {domains: [X, X], memory: X, X: X}}",
    "redis://:X@host: store",
];

#[test]
fn no_error_shows_what_stands_below_a_store() {
    let keys = [
        "url",
        "cluster",
        "sentinel",
        "tls",
        "username",
        "password",
        "password_file",
        "prefix",
        "timeout",
        "pool",
        "sync_interval",
    ];
    for place in WRONG_PLACES {
        for key in keys {
            let text = place.replace('X', "hunter2").replace("KEY", key);
            let Err(found) = parse_in(Path::new("/etc/tollgate"), &format!("{text}\n")) else {
                continue;
            };
            let ConfigError::Invalid(diagnostics) = &found else {
                panic!("{text}: {found}");
            };
            let json = diagnostics.iter().map(|found| found.to_json().to_string());
            let shown = format!("{found}{found:?}{}", json.collect::<String>());
            assert!(!shown.contains("hunter2"), "{text}: {shown}");
        }
    }
}

/// Texts below `store.redis`, and the expected error.
const REDIS: [(&str, &str); 29] = [
    ("{}", "no server is named"),
    ("redis://hunter2@h", "the URL has a user but no password"),
    ("hunter2", "`redis` does not say where Redis is"),
    ("", "`redis` has no value"),
    ("null", "`redis` has no value"),
    ("{ulr: 'redis://h'}", "did you mean `store.redis.url`?"),
    (
        "{url: 'redis://h', cluster: ['h:1']}",
        "`url` and `cluster` both name servers",
    ),
    (
        "{url: 'redis://:hunter2@h/1'}",
        "continues after the host and port",
    ),
    ("{url: [hunter2]}", "`url` takes text, and this is a list"),
    ("{cluster: []}", "no server is named"),
    (
        "{cluster: ['redis://:hunter2@h']}",
        "address 1 is not a host with a port",
    ),
    ("{cluster: [a, 'b:1']}", "write `cluster: ['host:6379']`"),
    ("{sentinel: {addresses: ['s:1']}}", "the master has no name"),
    (
        "{sentinel: {master: m}}",
        "write `addresses: ['host:6379']`",
    ),
    ("{sentinel: 's:1'}", "this must be a map, and is text"),
    (
        "{url: 'rediss://h', tls: false}",
        "write `redis://`, or leave out `tls`",
    ),
    (
        "{url: 'redis://h', tls: {ca: nowhere.pem}}",
        "the certificates cannot be read: I/O error: No such file",
    ),
    (
        "{url: 'redis://h', tls: maybe}",
        "is neither `true` nor `false`",
    ),
    (
        "{url: 'redis://h', username: me}",
        "a user without a password",
    ),
    (
        "{url: 'redis://me:pw@h', username: me}",
        "`url` and `username` both give a user",
    ),
    (
        "{url: 'redis://:hunter2@h', password: hunter2}",
        "`url` and `password` both give",
    ),
    ("{url: 'redis://h', password: ''}", "the password is empty"),
    (
        "{url: 'redis://h', password: {hunter2: 1}}",
        "takes text, and this is a map",
    ),
    (
        "{url: 'redis://h', password_file: no}",
        "the file with the password cannot be read",
    ),
    (
        "{url: 'redis://h', prefix: '{a}'}",
        "would choose the slot of every key",
    ),
    ("{url: 'redis://h', timeout: 0s}", "is outside 1ms to 10s"),
    (
        "{url: 'redis://h', sync_interval: 1ms}",
        "is outside 10ms to 10s",
    ),
    ("{url: 'redis://h', pool: 17}", "is outside 1 to 16"),
    (
        "{url: 'redis://h', pasword: hunter2}",
        "did you mean `store.redis.password`?",
    ),
];

#[test]
fn errors_below_redis_name_their_place_and_the_remedy_and_no_secret() {
    for (text, expected) in REDIS {
        let text = format!("store:\n  redis: {text}\n");
        let found = parse_in(Path::new("/etc/tollgate"), &text).unwrap_err();
        let shown = found.to_string();
        assert!(shown.contains(expected), "{text}: {shown}");
        assert!(shown.contains("tollgate.yaml:3:"), "{text}: {shown}");
        let debug = format!("{found:?}");
        assert!(
            !shown.contains("hunter2") && !debug.contains("hunter2"),
            "{shown}{debug}"
        );
    }
}

#[test]
fn errors_about_stores_name_their_place_and_the_remedy() {
    let at = "redis: {url: 'redis://h'}";
    let cases = [
        ("store: redis\n".to_owned(), "this is not a store"),
        (
            "store: {redsi: {}}\n".to_owned(),
            "did you mean `store.redis`?",
        ),
        (
            format!("store: {{memory: true, {at}}}\n"),
            "has both `memory` and `redis`",
        ),
        (
            format!("store: {{{at}, mode: lax}}\n"),
            "write `mode: strict` or `leased` or `write_back`",
        ),
        (
            format!("store: {{{at}, on_store_error: fail}}\n"),
            "write `on_store_error: allow`",
        ),
        (
            format!("store: {{{at}, instances: 0}}\n"),
            "is outside 1 to",
        ),
        (
            "stores: {a: {domains: [d]}}\n".to_owned(),
            "neither `redis` nor `memory`",
        ),
        (
            format!("stores: {{a: {{{at}}}}}\n"),
            "this store lists no domain",
        ),
        (
            format!("stores: {{A: {{domains: d, {at}}}}}\n"),
            "a store's name is a label",
        ),
        (
            format!("stores: {{default: {{domains: d, {at}}}}}\n"),
            "and not `default`",
        ),
        (
            format!("stores: {{a: {{domains: [d, d], {at}}}}}\n"),
            "first by this store",
        ),
        (
            format!("stores: {{a: {{domains: d, {at}}}, b: {{domains: d, {at}}}}}\n"),
            "a domain is listed twice, first by the store a",
        ),
        (
            format!("stores: {{a: {{domains: d, {at}, mode: strict}}}}\n"),
            "unknown key",
        ),
    ];
    for (text, expected) in cases {
        let found = parse_in(Path::new("/etc/tollgate"), &text)
            .unwrap_err()
            .to_string();
        assert!(found.contains(expected), "{text}: {found}");
        assert!(found.contains("tollgate.yaml:2:"), "{text}: {found}");
    }
}

#[test]
fn the_number_of_stores_is_bounded() {
    let many: Vec<String> = (0..=STORES_MAX)
        .map(|n| format!("  s{n}: {{domains: d{n}, memory: true}}\n"))
        .collect();
    let found = parse_in(Path::new(""), &format!("stores:\n{}", many.concat()));
    assert!(
        found
            .unwrap_err()
            .to_string()
            .contains("more than 16 stores")
    );
}

#[test]
fn a_password_file_is_text_of_a_password_and_nothing_else() {
    let directory = TempDir::new().unwrap();
    let text = "store: {redis: {url: 'redis://h', password_file: pw}}\n";
    let read = |bytes: &[u8]| {
        fs::write(directory.path().join("pw"), bytes).unwrap();
        let settings = parse_in(directory.path(), text).map_err(|error| error.to_string())?;
        Ok::<_, String>(redis(&settings).password.clone().unwrap())
    };
    assert_eq!(read(b"a b\n\n").unwrap(), Secret::new("a b\n"));
    assert_eq!(read(b"pw").unwrap(), Secret::new("pw"));
    assert!(read(b"\n").unwrap_err().contains("is empty"));
    assert!(read(b"\xff").unwrap_err().contains("it is not UTF-8"));
    let long = read(&[b'a'; 5000]).unwrap_err();
    assert!(long.contains("it has more than 4096 bytes"), "{long}");
    let device = text.replace("file: pw", "file: /dev/null");
    let device = parse_in(directory.path(), &device).unwrap_err().to_string();
    assert!(device.contains("it is not a regular file"), "{device}");
}

#[test]
fn settings_are_shown_without_passwords() {
    let text = "store: {redis: {url: 'redis://me:hunter2@h'}}\n\
        stores: {a: {domains: d, redis: {url: 'redis://h', password: hunter2}}}\n";
    let shown = format!("{:?}", parse(text));
    assert!(
        shown.contains("h:6379") && !shown.contains("hunter2"),
        "{shown}"
    );
}

#[test]
fn certificates_and_the_server_s_name_are_checked() {
    let directory = TempDir::new().unwrap();
    let broken = "-----BEGIN CERTIFICATE-----\nhello\n-----END CERTIFICATE-----\n";
    for (certificates, expected) in [
        (
            "hello\n",
            "the certificates cannot be read: there is none in it",
        ),
        (broken, "the certificates cannot be read: "),
    ] {
        fs::write(directory.path().join("ca.pem"), certificates).unwrap();
        let text = "store: {redis: {url: 'rediss://h', tls: {ca: ca.pem, server_name: 'a b'}}}\n";
        let found = parse_in(directory.path(), text).unwrap_err().to_string();
        assert!(found.contains(expected), "{found}");
        assert!(found.contains("this is not a valid server name"), "{found}");
        assert_eq!(found.matches("error[").count(), 2, "{found}");
    }
}

#[test]
fn a_domain_has_the_store_that_names_it() {
    let settings =
        parse("store: {redis: {url: 'redis://h'}}\nstores: {a: {domains: [x, y], memory: true}}\n");
    assert_eq!(settings.store_of("y"), ("a", &Place::Memory));
    assert_eq!(settings.store_of("z"), ("default", &settings.store));
    let rule = "descriptors: [{key: k, rate_limit: {unit: second, requests_per_unit: 2000000, \
        algorithm: token_bucket}}]\n";
    let rules = Source::new("r.yaml", format!("domain: x\n{rule}---\ndomain: z\n{rule}"));
    let loaded = settings.load(&[rules]);
    assert!(loaded.rules.domains().eq(["x"]));
    assert_eq!(loaded.diagnostics.len(), 1, "{:?}", loaded.diagnostics);
}
