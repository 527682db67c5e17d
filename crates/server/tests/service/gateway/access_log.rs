//! The access log: what its lines say, and that it never stands in the way of a request.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use tollgate_server::{Config, Listen, ListenerKind};

use super::upstream::{Echo, Stage};
use super::{FREE, RULES, gateway_with, section};
use crate::eventually::eventually;
use crate::house::House;
use crate::http_client::Client;

/// A service that logs to a file, and everything of the section but the log.
async fn start_with_log(
    upstream: std::net::SocketAddr,
    more: &str,
    path: &Path,
    format: &str,
) -> House {
    let path = path.display();
    let log = format!("access_log: {{path: '{path}', format: {format}}}");
    let more = [more, &log].join(", ");
    gateway_with(
        RULES,
        section(upstream, more.trim_start_matches(", ")),
        |_| (),
    )
    .await
}

/// Stops the service, which writes what is left, and reads the file.
async fn stop(house: House, path: &Path) -> Vec<String> {
    house.running.stop().await;
    let text = fs::read_to_string(path).unwrap();
    assert!(text.ends_with('\n'), "{text}");
    text.lines().map(str::to_owned).collect()
}

fn members(line: &str) -> Value {
    let mut members: Value = serde_json::from_str(line).unwrap();
    let took = members.as_object_mut().unwrap().remove("duration_us");
    assert!(took.unwrap().is_number());
    members
}

#[tokio::test]
async fn a_request_has_a_line_with_the_rule_that_denied_it() {
    let upstream = Echo::start().await;
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("access.log");
    let routes = "routes: [{name: all, match: {hosts: [localhost]}}]";
    let house = start_with_log(upstream.address, routes, &path, "json").await;
    let mut client = Client::to(house.gateway()).await;
    assert_eq!(client.post("/a?b=c", "hello").await.status, 200);
    let mut last = Client::to(house.gateway()).await;
    last.send(
        b"HEAD /h HTTP/1.1\r\nhost: localhost\r\nuser-agent: me/1\r\nreferer: http://h/\r\n\
          connection: close\r\n\r\n",
    )
    .await;
    last.rest().await;
    let denied = client.get("/b").await;
    assert_eq!(denied.status, 429);
    client
        .send(b"GET /n HTTP/1.1\r\nhost: other\r\nx-request-id: its own\r\n\r\n")
        .await;
    assert_eq!(client.reply().await.unwrap().status, 404);
    drop(client);
    let lines = stop(house, &path).await;
    let to = upstream.address.to_string();
    // Noon of the test's clock.
    let time = "2024-10-04T12:00:00.000Z";
    let expected = [
        json!({"time": time, "client": "127.0.0.1", "method": "POST", "target": "/a?b=c",
            "protocol": "HTTP/1.1", "host": "localhost", "status": 200,
            "bytes": 5, "complete": true,
            "outcome": "forwarded", "route": "all", "upstream": to}),
        json!({"time": time, "client": "127.0.0.1", "method": "HEAD", "target": "/h",
            "protocol": "HTTP/1.1", "host": "localhost", "status": 200,
            "bytes": 0, "complete": true,
            "outcome": "forwarded", "route": "all", "upstream": to, "user_agent": "me/1",
            "referer": "http://h/"}),
        json!({"time": time, "client": "127.0.0.1", "method": "GET", "target": "/b",
            "protocol": "HTTP/1.1", "host": "localhost", "status": 429, "bytes": denied.body.len(),
            "complete": true, "outcome": "denied", "route": "all", "retry_after": 3600,
            "request_id": denied.header("x-request-id"),
            "rule": {"domain": "api", "path": "remote_address"}}),
    ];
    let read: Vec<Value> = lines.iter().map(|line| members(line)).collect();
    assert_eq!(read[..3], expected);
    assert_eq!(
        (
            &read[3]["outcome"],
            &read[3]["status"],
            &read[3]["request_id"]
        ),
        (&json!("no_route"), &json!(404), &json!("its own"))
    );
    assert_eq!(read.len(), 4);
}

#[tokio::test]
async fn the_client_of_a_line_is_the_one_that_a_trusted_proxy_names() {
    let upstream = Echo::start().await;
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("access.log");
    let identity = "identity: {client_address: {source: x-forwarded-for, trusted_proxies: \
        ['127.0.0.1']}}";
    let house = start_with_log(upstream.address, identity, &path, "combined").await;
    let mut client = Client::to(house.gateway()).await;
    for _ in 0..3 {
        client
            .send(b"GET / HTTP/1.1\r\nhost: h\r\nx-forwarded-for: 192.0.2.1\r\n\r\n")
            .await;
        client.reply().await.unwrap();
    }
    drop(client);
    let lines = stop(house, &path).await;
    let start = "192.0.2.1 - - [04/Oct/2024:12:00:00 +0000] \"GET / HTTP/1.1\" ";
    assert_eq!(lines[0], format!("{start}200 0 \"-\" \"-\" \"-\""));
    assert!(lines[2].starts_with(&format!("{start}429 ")), "{lines:?}");
    assert!(
        lines[2].ends_with("\"-\" \"-\" \"api remote_address\""),
        "{lines:?}"
    );
}

#[tokio::test]
async fn a_client_that_goes_away_has_a_line_that_says_how_far_it_came() {
    let stage = Stage::open().await;
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("access.log");
    let house = start_with_log(stage.address(), FREE, &path, "json").await;
    for begun in ["", "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nbegun"] {
        let mut client = Client::to(house.gateway()).await;
        client.send(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").await;
        let mut upstream = stage.accept().await;
        upstream.head().await;
        upstream.send(begun).await;
        if !begun.is_empty() {
            client.read_until("begun").await;
        }
        drop(client);
        upstream.wait_for_end().await;
    }
    let lines = stop(house, &path).await;
    let read: Vec<Value> = lines.iter().map(|line| members(line)).collect();
    let parts = read.iter().map(|line| {
        let part = |name: &str| line[name].clone();
        [
            part("status"),
            part("bytes"),
            part("complete"),
            part("outcome"),
        ]
    });
    let expected = [
        [json!(499), json!(0), json!(false), json!("canceled")],
        [json!(200), json!(5), json!(false), json!("forwarded")],
    ];
    assert_eq!(parts.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn what_a_client_sends_ends_no_line_and_no_field() {
    for (format, target, agent) in [
        (
            "combined",
            r"/\x22,\x5C?q=\x5C",
            r"a\x22 \x22b\x5C\x09\xE9\xFF",
        ),
        ("json", r#"/\",\\?q=\\"#, r#"a\" \"b\\\\t\\xe9\\xff"#),
    ] {
        let upstream = Echo::start().await;
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("access.log");
        let house = start_with_log(upstream.address, FREE, &path, format).await;
        let mut client = Client::to(house.gateway()).await;
        let agent_sent = b"a\" \"b\\\t\xe9\xff";
        let head = [
            b"CONNECT h:1 HTTP/1.1\r\nhost: h:1\r\nuser-agent: ".as_slice(),
            agent_sent,
            b"\r\n\r\n",
        ];
        client.send(&head.concat()).await;
        client.rest().await;
        let mut client = Client::to(house.gateway()).await;
        client
            .send(b"GET /\",\\?q=\\ HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")
            .await;
        client.rest().await;
        let lines = stop(house, &path).await;
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains(agent), "{}", lines[0]);
        assert!(lines[1].contains(target), "{}", lines[1]);
        assert!(
            lines
                .iter()
                .all(|line| line.bytes().all(|byte| (0x20..0x7f).contains(&byte)))
        );
    }
}

#[tokio::test]
async fn a_writer_that_blocks_delays_no_request_and_what_is_dropped_is_counted() {
    let upstream = Echo::start().await;
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    // The reader of the pipe reads nothing.
    let reader = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let house = start_with_log(upstream.address, FREE, &path, "combined").await;
    let mut client = Client::to(house.gateway()).await;
    // Each quote is four bytes in the log.
    let agent = "\"".repeat(4000);
    let request = format!("GET / HTTP/1.1\r\nhost: h\r\nuser-agent: {agent}\r\n\r\n");
    for _ in 0..700 {
        client.send(request.as_bytes()).await;
        assert_eq!(client.reply().await.unwrap().status, 200);
    }
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    let name = r#"tollgate_gateway_access_log_dropped_total{reason="queue_full"} "#;
    let dropped = metrics.lines().find_map(|line| line.strip_prefix(name));
    let dropped: u64 = dropped.unwrap().parse().unwrap();
    assert!((1..700).contains(&dropped), "{dropped} of 700");
    drop((house, reader));
}

#[tokio::test]
async fn a_full_disk_loses_lines_and_no_request() {
    let upstream = Echo::start().await;
    let house = start_with_log(upstream.address, FREE, Path::new("/dev/full"), "json").await;
    let mut client = Client::to(house.gateway()).await;
    let mut admin = Client::to(house.admin()).await;
    let counted = r#"tollgate_gateway_access_log_dropped_total{reason="write_error"} 3"#;
    for _ in 0..3 {
        assert_eq!(client.get("/").await.status, 200);
    }
    eventually(async || admin.get("/metrics").await.body.contains(counted)).await;
    assert_eq!(client.get("/").await.status, 200);
}

#[tokio::test]
async fn the_file_is_opened_again_at_a_reload_as_log_rotation_needs() {
    let upstream = Echo::start().await;
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("access.log");
    let house = start_with_log(upstream.address, FREE, &path, "combined").await;
    let mut client = Client::to(house.gateway()).await;
    client.get("/before").await;
    eventually(async || fs::read_to_string(&path).unwrap().contains("/before")).await;
    let old = directory.path().join("access.log.1");
    fs::rename(&path, &old).unwrap();
    client.get("/between").await;
    eventually(async || fs::read_to_string(&old).unwrap().contains("/between")).await;
    house.running.reload().await;
    eventually(async || path.exists()).await;
    client.get("/after").await;
    drop(client);
    let lines = stop(house, &path).await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("\"GET /after HTTP/1.1\""), "{lines:?}");
    assert_eq!(fs::read_to_string(&old).unwrap().lines().count(), 2);
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_an_error_at_the_start() {
    let directory = TempDir::new().unwrap();
    let rules = directory.path().join("rules.yaml");
    fs::write(&rules, RULES).unwrap();
    let change = |config: &mut Config| {
        let upstream = "127.0.0.1:1".parse().unwrap();
        let log = "access_log: {path: /proc/nowhere/access.log}";
        config.gateway = Some(section(upstream, log));
        config.listen.push(Listen {
            kind: ListenerKind::Gateway,
            address: "127.0.0.1:0".parse().unwrap(),
            tls: None,
        });
    };
    let started = House::at(directory, rules, change).await;
    let error = started.err().unwrap().to_string();
    let expected = "gateway.access_log.path: /proc/nowhere/access.log cannot be opened: No such \
        file or directory (os error 2); name a file in a directory that exists";
    assert!(error.starts_with(expected), "{error}");
}
