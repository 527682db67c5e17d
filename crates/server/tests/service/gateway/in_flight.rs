//! Concurrency limits: who is denied, and when a request is no longer in flight.

mod kept_bodies;
mod streams;

use std::time::Duration;

use http::{Request, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use tokio::task::yield_now;
use tokio::time::timeout;
use tollgate_core::Span;

use super::upstream::{Actor, Echo, Stage};
use super::{FREE, gateway};
use crate::house::House;
use crate::http_client::Client;

/// Longer than any test takes.
const TIMEOUT: Duration = Duration::from_secs(20);
const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: h\r\n\r\n";
const ONE: &str = "in_flight: [{per: [anything], requests: 1}]";

/// The value of a metric; 0 if it has none.
async fn metric(house: &House, name: &str) -> u64 {
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    let name = format!("tollgate_{name} ");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&name));
    value.map_or(0, |value| value.parse().unwrap())
}

/// Waits until so many requests are in flight.
async fn wait_for(house: &House, count: u64) {
    let reached = async {
        while metric(house, r#"gateway_in_flight{limit="anything"}"#).await != count {
            yield_now().await;
        }
    };
    let waited = timeout(TIMEOUT, reached).await;
    assert!(waited.is_ok(), "there are never {count} requests in flight");
}

/// A gateway with a concurrency limit of 1, and its upstream.
async fn start(more: &str) -> (Stage, House) {
    let stage = Stage::open().await;
    let house = gateway(stage.address(), &format!("{FREE}, {ONE}{more}")).await;
    (stage, house)
}

async fn send(house: &House, stage: &Stage) -> (Client, Actor) {
    let mut client = Client::to(house.gateway()).await;
    client.send(GET).await;
    let mut upstream = stage.accept().await;
    upstream.head().await;
    (client, upstream)
}

#[tokio::test]
async fn a_request_beyond_the_limit_is_denied_until_one_has_ended() {
    let stage = Stage::open().await;
    let more = "in_flight: [{per: [remote_address], requests: 2, name: per_client}]";
    let rules = super::RULES.replace("2/hour", "3/hour");
    let settings = super::section(stage.address(), more);
    let house = super::gateway_with(&rules, settings, |_| ()).await;
    let (mut first, mut upstream) = send(&house, &stage).await;
    let (_second, _other) = send(&house, &stage).await;
    let mut client = Client::to(house.gateway()).await;
    for _ in 0..3 {
        let denied = client.get("/").await;
        let detail = denied.problem(429);
        let expected = "concurrency limit \"per_client\" is reached: 2 requests are in flight";
        assert!(detail.starts_with(expected), "{detail}");
        assert_eq!(denied.json()["violated-policies"][0], "per_client");
        assert_eq!(
            denied.json()["type"],
            "https://iana.org/assignments/http-problem-types#quota-exceeded"
        );
        for header in ["retry-after", "ratelimit", "ratelimit-policy"] {
            assert_eq!(denied.header(header), None, "{denied:?}");
        }
    }
    upstream
        .send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone")
        .await;
    assert_eq!(first.reply().await.unwrap().body, "done");
    // The denials cost nothing of the three an hour, so this is the third.
    client.send(GET).await;
    upstream.head().await;
    upstream
        .send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        .await;
    let third = client.reply().await.unwrap();
    assert_eq!(
        (third.status, third.header("ratelimit")),
        (200, Some("\"remote_address\";r=0;t=3600"))
    );
    // Denied by the rules, which takes no permit.
    assert!(client.get("/").await.problem(429).starts_with("limit "));
    assert_eq!(
        metric(&house, r#"gateway_in_flight{limit="per_client"}"#).await,
        1
    );
    let denied = r#"gateway_in_flight_denied_total{limit="per_client"}"#;
    assert_eq!(metric(&house, denied).await, 3);
    let outcome = r#"gateway_requests_total{route="default",outcome="in_flight"}"#;
    assert_eq!(metric(&house, outcome).await, 3);
}

#[tokio::test]
async fn the_permit_is_held_until_the_last_part_of_the_response() {
    let (stage, house) = start("").await;
    for (framing, part, end) in [
        ("content-length: 2", "a", "b"),
        ("transfer-encoding: chunked", "1\r\na\r\n", "0\r\n\r\n"),
    ] {
        let (mut client, mut upstream) = send(&house, &stage).await;
        upstream
            .send(&format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n{part}"))
            .await;
        client.read_until(part).await;
        let mut other = Client::to(house.gateway()).await;
        other.get("/").await.problem(429);
        upstream.send(end).await;
        client.read_until(end).await;
        // At once: who has seen the end is no longer in flight.
        other.send(GET).await;
        upstream.head().await;
        upstream
            .send("HTTP/1.1 204 No Content\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .await;
        other.read_until("\r\n\r\n").await;
        wait_for(&house, 0).await;
    }
}

#[tokio::test]
async fn the_permit_of_a_client_that_goes_away_is_free_again() {
    let (stage, house) = start("").await;
    for begun in ["", "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nbegun"] {
        let (mut client, mut upstream) = send(&house, &stage).await;
        upstream.send(begun).await;
        if !begun.is_empty() {
            client.read_until("begun").await;
        }
        wait_for(&house, 1).await;
        drop(client);
        upstream.wait_for_end().await;
        wait_for(&house, 0).await;
    }
    // In the middle of its own body.
    let mut client = Client::to(house.gateway()).await;
    client
        .send(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 9\r\n\r\nabc")
        .await;
    let mut upstream = stage.accept().await;
    upstream.read_until("abc").await;
    wait_for(&house, 1).await;
    drop(client);
    upstream.wait_for_end().await;
    wait_for(&house, 0).await;
}

#[tokio::test]
async fn the_permit_of_a_request_without_an_answer_is_free_again() {
    let (stage, house) = start(", timeouts: {head: 50ms, body: 50ms}").await;
    let mut client = Client::to(house.gateway()).await;
    // No head in time.
    client.send(GET).await;
    let _silent = stage.accept().await;
    client.reply().await.unwrap().problem(504);
    // The connection ends without one.
    client.send(GET).await;
    let mut upstream = stage.accept().await;
    upstream.head().await;
    drop(upstream);
    client.reply().await.unwrap().problem(502);
    // Nothing more of the body in time.
    client.send(GET).await;
    let mut upstream = stage.accept().await;
    upstream.head().await;
    upstream
        .send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc")
        .await;
    client.rest().await;
    // Nobody accepts.
    let mut client = Client::to(house.gateway()).await;
    drop(stage);
    for _ in 0..3 {
        client.get("/").await.problem(502);
    }
    wait_for(&house, 0).await;
}

#[tokio::test]
async fn a_request_that_waits_for_its_turn_is_in_flight() {
    let upstream = Echo::start().await;
    let queue = FREE.replace("anything", "queue");
    let limit = "in_flight: [{per: [queue], requests: 1, name: anything}]";
    let house = gateway(upstream.address, &format!("{queue}, {limit}")).await;
    let mut client = Client::to(house.gateway()).await;
    assert_eq!(client.get("/1").await.status, 200);
    let mut held = Client::to(house.gateway()).await;
    held.send(GET).await;
    wait_for(&house, 1).await;
    client.get("/").await.problem(429);
    drop(held);
    wait_for(&house, 0).await;
    let mut held = Client::to(house.gateway()).await;
    held.send(GET).await;
    wait_for(&house, 1).await;
    house.clock.advance(Span::from_secs(1));
    assert_eq!(held.reply().await.unwrap().status, 200);
    wait_for(&house, 0).await;
}

#[tokio::test]
async fn streams_of_one_connection_are_counted_and_reset_ones_are_not() {
    let (stage, house) = start("").await;
    let mut client = super::http2::connect(&house).await;
    let request = || {
        let request = Request::get("http://h/").version(Version::HTTP_2);
        request.body(Full::<Bytes>::default()).unwrap()
    };
    let first = tokio::spawn(client.send_request(request()));
    let mut upstream = stage.accept().await;
    upstream.head().await;
    for _ in 0..20 {
        client.ready().await.unwrap();
        let denied = client.send_request(request()).await.unwrap();
        assert_eq!(denied.status(), 429);
    }
    // Its stream is reset.
    first.abort();
    upstream.wait_for_end().await;
    wait_for(&house, 0).await;
    let second = tokio::spawn(client.send_request(request()));
    let mut upstream = stage.accept().await;
    upstream.head().await;
    upstream
        .send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone")
        .await;
    let response = second.await.unwrap().unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(&body[..], b"done");
    wait_for(&house, 0).await;
}

#[tokio::test]
async fn a_request_of_grpc_is_denied_with_a_status_of_grpc() {
    let (stage, house) = start("").await;
    let (_client, _upstream) = send(&house, &stage).await;
    let mut client = super::http2::connect(&house).await;
    let request = Request::post("http://h/a.B/C")
        .version(Version::HTTP_2)
        .header("content-type", "application/grpc")
        .body(Full::<Bytes>::default());
    let denied = client.send_request(request.unwrap()).await.unwrap();
    assert_eq!(denied.headers()["grpc-status"], "8");
    assert_eq!(denied.headers().get("grpc-retry-pushback-ms"), None);
}

#[tokio::test]
async fn a_tunnel_is_in_flight_until_it_ends() {
    let (stage, house) = start(", upgrades: [websocket]").await;
    for ends_at_client in [true, false] {
        let mut client = Client::to(house.gateway()).await;
        client
            .send(b"GET / HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
            .await;
        let mut upstream = stage.accept().await;
        upstream.head().await;
        upstream
            .send(
                "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: \
                 websocket\r\n\r\nhello",
            )
            .await;
        client.read_until("hello").await;
        let mut other = Client::to(house.gateway()).await;
        other.get("/").await.problem(429);
        wait_for(&house, 1).await;
        match ends_at_client {
            true => drop((client, upstream)),
            false => drop((upstream, client)),
        }
        wait_for(&house, 0).await;
    }
}
