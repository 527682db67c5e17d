//! Clients that flood the gateway or never finish: how their connections end, and that others are
//! served.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tollgate_listen::Limits;
use tollgate_server::Config;

use super::upstream::Echo;
use super::{FREE, RULES, gateway_with, section};
use crate::bounded::{END_STREAM, GOAWAY, HEADERS, answer_until_the_end, connect_to, frame};
use crate::house::House;
use crate::http_client::Client;

/// Longer than any test takes.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How many frames a flood has: more than any bound.
const FRAMES: u32 = 20_000;
pub(super) const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;
pub(super) const END_HEADERS: u8 = 4;
/// GET, http, `/` and the authority `h`, without compression.
const BLOCK: &[u8] = b"\x82\x86\x84\x01\x01h";
/// The field `x: xxxxxxxx`.
const FIELD: &[u8] = b"\x00\x01x\x08xxxxxxxx";

/// A gateway, with another client that has had a response.
async fn gateway(upstream: &Echo, change: impl FnOnce(&mut Config)) -> (House, Client) {
    let settings = section(upstream.address, FREE);
    let house = gateway_with(RULES, settings, change).await;
    let mut other = Client::to(house.gateway()).await;
    assert_eq!(other.get("/other").await.status, 200);
    (house, other)
}

/// Sends a flood until the connection ends, and returns the kinds of frames that came back.
async fn flood(stream: &mut TcpStream, bytes: &[u8]) -> Vec<u8> {
    // What the gateway has not read when it closes the connection resets it.
    let _cut_off = timeout(TIMEOUT, stream.write_all(bytes)).await.unwrap();
    let end = timeout(TIMEOUT, answer_until_the_end(stream)).await;
    end.expect("the connection ends")
}

/// The reasons for which the gateway has closed connections, and how many.
async fn closed(house: &House) -> Vec<String> {
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    let name = "tollgate_connections_closed_total{listener=\"gateway\",reason=";
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(name));
    lines.map(str::to_owned).collect()
}

/// Another client is served: on its connection from before, and on a new one.
async fn serves_others(house: &House, other: &mut Client) {
    assert_eq!(other.get("/other").await.status, 200);
    let mut new = Client::to(house.gateway()).await;
    assert_eq!(new.get("/other").await.status, 200);
}

#[tokio::test]
async fn streams_that_are_opened_and_reset_end_their_connection() {
    let upstream = Echo::start().await;
    let mut bytes = Vec::new();
    for number in 0..FRAMES {
        let id = 2 * number + 1;
        bytes.extend(frame(HEADERS, END_STREAM | END_HEADERS, id, BLOCK));
        // 8: CANCEL.
        bytes.extend(frame(RST_STREAM, 0, id, &[0, 0, 0, 8]));
    }
    // By default, the bound of HTTP/2 itself comes first, which ends in GOAWAY.
    let default = Limits::default().control_frames;
    for (control_frames, expected, has_goaway) in [
        (default, "\"protocol\"} 1", true),
        (10, "\"flood\"} 1", false),
    ] {
        let change = |config: &mut Config| config.limits.control_frames = control_frames;
        let (house, mut other) = gateway(&upstream, change).await;
        let mut stream = connect_to(house.gateway(), 65_535).await;
        let kinds = flood(&mut stream, &bytes).await;
        serves_others(&house, &mut other).await;
        assert_eq!(closed(&house).await, [expected], "{kinds:?}");
        assert_eq!(kinds.contains(&GOAWAY), has_goaway, "{kinds:?}");
    }
    // Few of the requests got to the upstream before they were reset.
    let seen = upstream.requests();
    let forwarded = seen.iter().filter(|seen| seen.target == "/").count();
    assert!(forwarded < 1_000, "{forwarded}");
}

#[tokio::test]
async fn a_header_block_that_never_ends_ends_its_connection() {
    let upstream = Echo::start().await;
    let (house, mut other) = gateway(&upstream, |_| ()).await;
    let mut stream = connect_to(house.gateway(), 65_535).await;
    let mut bytes = frame(HEADERS, END_STREAM, 1, BLOCK);
    for _ in 0..FRAMES {
        bytes.extend(frame(CONTINUATION, 0, 1, FIELD));
    }
    let kinds = flood(&mut stream, &bytes).await;
    serves_others(&house, &mut other).await;
    assert_eq!(closed(&house).await, ["\"protocol\"} 1"], "{kinds:?}");
    assert!(kinds.contains(&GOAWAY), "{kinds:?}");
    // It never was a request.
    let seen = upstream.requests();
    assert!(seen.iter().all(|seen| seen.target == "/other"), "{seen:?}");
}

#[tokio::test]
async fn heads_that_do_not_end_in_time_are_answered_with_408_or_closed() {
    let upstream = Echo::start().await;
    let (house, other) = gateway(&upstream, |config| {
        config.limits.header_timeout = Duration::from_millis(200);
    })
    .await;
    drop(other);
    for (sent, expected) in [
        ("", ""),
        ("GET / HTTP/1.1\r\n", "HTTP/1.1 408 "),
        ("GET / HTTP/1.1\r\nhost: h\r\nx-slow: ", "HTTP/1.1 408 "),
        ("PRI * HTTP/2.0\r\n", ""),
    ] {
        let mut slow = Client::to(house.gateway()).await;
        slow.send(sent.as_bytes()).await;
        let mut other = Client::to(house.gateway()).await;
        assert_eq!(other.get("/other").await.status, 200);
        let rest = String::from_utf8(slow.rest().await).unwrap();
        assert!(rest.starts_with(expected), "{sent:?}: {rest}");
        assert_eq!(rest.is_empty(), expected.is_empty(), "{sent:?}: {rest}");
    }
    let seen = upstream.requests();
    assert!(seen.iter().all(|seen| seen.target == "/other"), "{seen:?}");
}
