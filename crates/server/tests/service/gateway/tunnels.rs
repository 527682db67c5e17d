//! Connections that have switched protocols: what bounds them.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tollgate_server::Config;

use super::upstream::{Actor, Stage};
use super::{FREE, RULES, gateway_with, remaining, section};
use crate::house::House;
use crate::http_client::Client;

/// Longer than any test takes.
const TIMEOUT: Duration = Duration::from_secs(20);
/// More than the buffers of all sockets take.
const MANY_BYTES: usize = 50_000_000;

async fn start(stage: &Stage, more: &str, change: impl FnOnce(&mut Config)) -> House {
    let more = format!("{FREE}, upgrades: [websocket]{more}");
    gateway_with(RULES, section(stage.address(), &more), change).await
}

/// A tunnel: the client's end and the server's.
async fn open(house: &House, stage: &Stage) -> (Client, Actor) {
    let (_head, client, server) = open_at(house.gateway(), stage).await;
    (client, server)
}

/// The same, and the head of the response.
async fn open_at(address: SocketAddr, stage: &Stage) -> (String, Client, Actor) {
    let mut client = Client::to(address).await;
    let request = b"GET / HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    client.send(request).await;
    let mut server = stage.accept().await;
    server.head().await;
    let switching =
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    server.send(switching).await;
    let head = client.read_until("\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    (head, client, server)
}

/// How many bytes a stream takes until it fails.
async fn fill(stream: &mut TcpStream) -> usize {
    let piece = vec![b'x'; 1 << 20];
    let mut taken = 0;
    let filling = async {
        while let Ok(written @ 1..) = stream.write(&piece).await {
            taken += written;
        }
    };
    let ended = timeout(TIMEOUT, filling).await;
    assert!(ended.is_ok(), "{taken} bytes, and more are awaited");
    taken
}

#[tokio::test]
async fn a_client_that_reads_nothing_stops_its_server_and_loses_its_connection() {
    let stage = Stage::open().await;
    let house = start(&stage, "", |config| {
        config.limits.write_timeout = Duration::from_millis(50);
    })
    .await;
    let (_client, mut server) = open(&house, &stage).await;
    let taken = fill(&mut server.0).await;
    assert!(taken < MANY_BYTES, "{taken}");
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    let closed = r#"tollgate_connections_closed_total{listener="gateway",reason="slow_reader"} 1"#;
    assert!(metrics.contains(closed), "{metrics}");
}

#[tokio::test]
async fn a_server_that_reads_nothing_stops_its_client_until_nothing_has_moved_for_too_long() {
    let stage = Stage::open().await;
    let house = start(&stage, ", timeouts: {tunnel: 50ms}", |_| ()).await;
    let (mut client, _server) = open(&house, &stage).await;
    let taken = fill(&mut client.0).await;
    assert!(taken < MANY_BYTES, "{taken}");
}

#[tokio::test]
async fn a_tunnel_in_which_nothing_moves_ends() {
    let stage = Stage::open().await;
    let house = start(&stage, ", timeouts: {tunnel: 50ms}", |_| ()).await;
    let (mut client, mut server) = open(&house, &stage).await;
    assert!(client.is_closed().await);
    server.wait_for_end().await;
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    assert!(
        metrics.contains(r#"tollgate_gateway_tunnels{route="default"} 0"#),
        "{metrics}"
    );
}

#[tokio::test]
async fn a_tunnel_counts_as_a_connection_of_its_client() {
    let stage = Stage::open().await;
    let house = start(&stage, "", |config| {
        config.limits.connections_per_address = 1;
    })
    .await;
    let (mut client, mut server) = open(&house, &stage).await;
    let reply = Client::to(house.gateway()).await.get("/").await;
    assert_eq!(reply.status, 503);
    client.send(b"ping").await;
    assert_eq!(server.read_until("ping").await, "ping");
    server.send("pong").await;
    assert_eq!(client.read_until("pong").await, "pong");
    drop(server);
    assert!(client.is_closed().await);
    drop(client);
    // Its permit is free again, as soon as the gateway has noticed.
    let asking = async {
        loop {
            let mut next = Client::to(house.gateway()).await;
            next.send(b"GET /next HTTP/1.1\r\nhost: h\r\n\r\n").await;
            next.reply().await;
        }
    };
    tokio::select! {
        () = asking => {}
        mut server = stage.accept() => assert!(server.head().await.contains("/next")),
    }
}

#[tokio::test]
async fn a_tunnel_outlasts_the_age_of_connections() {
    let stage = Stage::open().await;
    let house = start(&stage, ", routes: [{match: {paths: [/]}}]", |config| {
        config.limits.connection_age = Duration::ZERO;
        // Their age is looked at this often.
        config.limits.write_timeout = Duration::from_millis(20);
    })
    .await;
    let (mut client, mut server) = open(&house, &stage).await;
    // An old connection has to end, so the tunnel has been looked at as well.
    let mut other = Client::to(house.gateway()).await;
    let mut has_to_end = false;
    while !has_to_end {
        let reply = other.post("/none", "").await;
        has_to_end = reply.header("connection") == Some("close");
    }
    client.send(b"ping").await;
    assert_eq!(server.read_until("ping").await, "ping");
}

#[tokio::test]
async fn one_side_may_end_before_the_other() {
    let stage = Stage::open().await;
    let house = start(&stage, "", |_| ()).await;
    let (mut client, mut server) = open(&house, &stage).await;
    client.end_sending().await;
    server.wait_for_end().await;
    server.send("the rest").await;
    drop(server);
    assert_eq!(client.rest().await, b"the rest");
}

#[tokio::test]
async fn a_tunnel_is_charged_what_its_head_says_and_the_estimate_of_the_rest() {
    const RULES: &str = "
domain: api
descriptors:
  - {key: failed, rate_limit: 3/hour}
  - {key: bytes, rate_limit: 1000/hour}
";
    const IDENTITY: &str = "identity: {descriptors: [
        {entries: [{key: failed, from: {constant: v}}], count_when: {status: [401]}},
        {entries: [{key: bytes, from: {constant: v}}],
         cost: {from: response_bytes, estimate: 100}}]}";
    let stage = Stage::open().await;
    let more = format!("{IDENTITY}, upgrades: [websocket]");
    let house = gateway_with(RULES, section(stage.address(), &more), |_| ()).await;
    let (client, mut server) = open(&house, &stage).await;
    drop(client);
    server.wait_for_end().await;
    assert_eq!(remaining(&house, r#""failed": "v""#).await, 3);
    assert_eq!(remaining(&house, r#""bytes": "v""#).await, 900);
}

#[tokio::test]
async fn a_tunnel_counts_as_a_request_to_its_server() {
    let stage = Stage::open().await;
    let upstream = format!("{{addresses: ['{}'], requests: 1}}", stage.address());
    let more = format!("{FREE}, upgrades: [websocket]");
    let settings = super::section_of(&upstream, &more);
    let house = gateway_with(RULES, settings, |_| ()).await;
    let (client, mut server) = open(&house, &stage).await;
    let reply = Client::to(house.gateway()).await.get("/").await;
    let expected = "at its limit of concurrent requests";
    assert!(reply.problem(503).contains(expected));
    drop(client);
    server.wait_for_end().await;
}

/// Responses announce the end of their connections then, but one that switches protocols must not.
#[tokio::test]
async fn a_tunnel_may_begin_while_readiness_checks_fail() {
    let stage = Stage::open().await;
    let house = start(&stage, ", routes: [{match: {paths: [/]}}]", |config| {
        config.limits.stop_delay = TIMEOUT;
    })
    .await;
    let address = house.gateway();
    let _stopping = tokio::spawn(house.running.stop());
    let mut is_stopping = false;
    while !is_stopping {
        let reply = Client::to(address).await.get("/none").await;
        is_stopping = reply.header("connection") == Some("close");
    }
    let (head, mut client, mut server) = open_at(address, &stage).await;
    assert!(head.contains("\r\nconnection: Upgrade\r\n"), "{head}");
    client.send(b"ping").await;
    assert_eq!(server.read_until("ping").await, "ping");
}
