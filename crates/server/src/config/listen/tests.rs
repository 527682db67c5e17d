#![allow(clippy::unwrap_used)]

use tollgate_listen::{SOCKET_PATH_BYTES_MAX, SocketPath};
use tollgate_rules::Source;

use super::*;
use crate::config::{Config, ConfigError};

/// The settings below `listen`, from line 3 on, in `/etc/tollgate/tollgate.yaml`.
fn parse(listen: &str) -> Result<Vec<Listen>, ConfigError> {
    let text = format!("rules: r\nlisten:\n{listen}");
    let source = Source::new("tollgate.yaml", text);
    Config::parse(&source, Path::new("/etc/tollgate")).map(|config| config.listen)
}

#[test]
fn a_unix_socket_has_a_path_and_a_mode() {
    let text = "  http: unix:/run/tollgate/http.sock\n  \
        grpc: {address: unix:grpc.sock, mode: 0600}\n  \
        admin: {address: 'unix:/run/admin.sock', mode: 666}\n  redis: unix:/r\n";
    let found = parse(text).unwrap();
    let of = |kind| found.iter().find(|one| one.kind == kind).unwrap();
    for (kind, path, mode) in [
        (ListenerKind::Http, "/run/tollgate/http.sock", 0o660),
        (ListenerKind::Grpc, "/etc/tollgate/grpc.sock", 0o600),
        (ListenerKind::Admin, "/run/admin.sock", 0o666),
        (ListenerKind::Redis, "/r", 0o660),
    ] {
        let path = path.into();
        assert_eq!(of(kind).address, Address::Unix(SocketPath { path, mode }));
    }
}

#[test]
fn errors_name_their_place_and_the_remedy() {
    let long = "x".repeat(SOCKET_PATH_BYTES_MAX - "/etc/tollgate/".len() + 1);
    let long_line = format!("  http: unix:{long}\n");
    let map = |rest: &str| format!("  http: {{address: {rest}}}\n");
    for (listen, place, expected) in [
        ("  http: 'unix:'\n", "3:9", "`unix:` has no path"),
        (
            "  http: unix:@tollgate\n",
            "3:9",
            "is an abstract Unix socket",
        ),
        (
            &long_line,
            "3:9",
            "is a path of 108 bytes with its directory, and a Unix socket can have 107",
        ),
        (
            "  http: /run/http.sock\n",
            "3:9",
            "write `http: 127.0.0.1:8080` or `unix:/run/tollgate/http.sock`",
        ),
        (
            &map("unix:/a, mode: 668"),
            "3:34",
            "`668` is not permissions in octal digits",
        ),
        (
            &map("unix:/a, mode: 07777"),
            "3:34",
            "is not permissions in octal digits",
        ),
        (
            &map("unix:/a, mode: 555"),
            "3:34",
            "lets nobody connect, which needs permission to write",
        ),
        (
            &map("127.0.0.1:1, mode: 660"),
            "3:",
            "`mode` is for Unix sockets",
        ),
        (
            "  http: unix:/a\n  admin: {address: unix:/a}\n",
            "4:",
            "has the same Unix socket as `http`",
        ),
        (
            "  http: 127.0.0.1:6070\n",
            "3:9",
            "`admin` has the same port as `http`",
        ),
        (
            "  grpc: 127.0.0.1:7000\n  http: 0.0.0.0:7000\n",
            "4:9",
            "`http` has the same port as `grpc`: 0.0.0.0:7000 and 127.0.0.1:7000",
        ),
    ] {
        let error = parse(listen).unwrap_err().to_string();
        let place = format!("tollgate.yaml:{place}");
        assert!(
            error.contains(expected) && error.contains(&place),
            "{error}"
        );
    }
}

#[test]
fn several_listeners_may_have_one_port_on_addresses_of_their_own() {
    for listen in [
        "  grpc: 127.0.0.1:7000\n  http: 127.0.0.2:7000\n",
        "  grpc: 127.0.0.1:0\n  http: 127.0.0.1:0\n",
        "  grpc: 0.0.0.0:7000\n  http: '[::1]:7000'\n",
    ] {
        assert!(parse(listen).is_ok(), "{listen}");
    }
}

#[test]
fn the_remedy_fits_the_listener_and_what_was_written() {
    for (listen, expected) in [
        ("admin: off", "write `admin: null` to turn it off"),
        ("grpc: false", "write `grpc: null` to turn it off"),
        (
            "admin: {address: None}",
            "write `admin: null` to turn it off",
        ),
        ("admin: localhost:6071", "write `admin: 127.0.0.1:6071`"),
        (
            "grpc: {address: localhost:1}",
            "write `address: 127.0.0.1:1`",
        ),
        ("http: 80", "write `http: 127.0.0.1:80`"),
        (
            "http: ':80'",
            "write `http: 0.0.0.0:80` for all addresses, or `127.0.0.1:80`",
        ),
        (
            "http: 127.0.0.1:80800",
            "a port is at most 65535; write one as in `http: 127.0.0.1:8080`",
        ),
        (
            "admin: {address: 99999}",
            "a port is at most 65535; write one as in `address: 127.0.0.1:6070`",
        ),
        (
            "admin: here",
            "write `admin: 127.0.0.1:6070` or `unix:/run/tollgate/admin.sock`",
        ),
        (
            "redis: localhost",
            "write `redis: 127.0.0.1:6380` or `unix:/run/tollgate/redis.sock`",
        ),
    ] {
        let found = parse(&format!("  {listen}\n")).unwrap_err().to_string();
        assert!(
            found.contains(&format!("= help: {expected}\n")),
            "{listen}: {found}"
        );
        assert!(found.contains("tollgate.yaml:3:"), "{listen}: {found}");
    }
}
