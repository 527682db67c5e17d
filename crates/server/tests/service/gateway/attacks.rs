//! Hostile clients, and hostile or broken upstreams.

use std::time::Duration;

use http::{Request, Version};
use http_body_util::Full;
use tokio::time::timeout;

use super::http2::connect;
use super::upstream::{Echo, Stage};
use super::{FREE, gateway};
use crate::http_client::Client;

/// Longer than any test takes.
const TIMEOUT: Duration = Duration::from_secs(20);
const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: h\r\n\r\n";
/// Each account may send two requests an hour, and so may all requests without one together.
const ACCOUNTS: &str = "identity: {descriptors: [{entries: [{key: remote_address, \
    from: {header: x-account}, if_missing: deny}]}]}";

#[tokio::test]
async fn a_client_cannot_hide_a_header_from_the_upstream_that_the_limits_have_seen() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, ACCOUNTS).await;
    let mut client = Client::to(house.gateway()).await;
    client
        .send(b"GET / HTTP/1.1\r\nhost: h\r\nx-account: a\r\nconnection: X-Account\r\n\r\n")
        .await;
    // The limits see what the upstream would: no account.
    client.reply().await.unwrap().problem(403);
    assert!(upstream.requests().is_empty(), "{:?}", upstream.requests());
}

#[tokio::test]
async fn a_body_of_a_get_arrives_whatever_its_framing() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, FREE).await;
    for method in ["GET", "DELETE", "OPTIONS", "REPORT"] {
        let mut client = Client::to(house.gateway()).await;
        let head = format!("{method} / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n");
        client.send(head.as_bytes()).await;
        client.send(b"3\r\nabc\r\n0\r\n\r\n").await;
        let reply = client.reply().await.unwrap();
        assert_eq!(
            (reply.status, reply.body.as_str()),
            (200, "abc"),
            "{method}"
        );
    }
}

#[tokio::test]
async fn trailers_say_nothing_about_the_client() {
    let stage = Stage::open().await;
    let house = gateway(stage.address(), FREE).await;
    let mut client = Client::to(house.gateway()).await;
    client
        .send(
            b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\
            trailer: x-sum, x-real-ip, x-forwarded-for, via, content-length\r\n\r\n",
        )
        .await;
    client
        .send(
            b"1\r\na\r\n0\r\nx-sum: 1\r\nx-real-ip: 192.0.2.1\r\nx-forwarded-for: 192.0.2.1\r\n\
            via: 1.1 a\r\ncontent-length: 9\r\n\r\n",
        )
        .await;
    let mut upstream = stage.accept().await;
    upstream.head().await;
    let body = upstream.read_until("\r\n\r\n").await;
    assert_eq!(body, "1\r\na\r\n0\r\nx-sum: 1\r\n\r\n");
}

#[tokio::test]
async fn an_upstream_that_switches_protocols_unasked_is_a_bad_gateway() {
    let stage = Stage::open().await;
    let house = gateway(stage.address(), FREE).await;
    let mut client = Client::to(house.gateway()).await;
    client.send(GET).await;
    let mut upstream = stage.accept().await;
    upstream.head().await;
    upstream
        .send("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n")
        .await;
    client.reply().await.unwrap().problem(502);
}

#[tokio::test]
async fn a_response_whose_coding_would_be_lost_is_a_bad_gateway() {
    let stage = Stage::open().await;
    let house = gateway(stage.address(), FREE).await;
    for coding in ["gzip, chunked", "gzip", "chunked, gzip"] {
        let mut client = Client::to(house.gateway()).await;
        client.send(GET).await;
        let mut upstream = stage.accept().await;
        upstream.head().await;
        let head = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: {coding}\r\n\r\n");
        upstream.send(&head).await;
        upstream.send("1\r\na\r\n0\r\n\r\n").await;
        drop(upstream);
        client.reply().await.unwrap().problem(502);
    }
}

#[tokio::test]
async fn a_response_with_two_lengths_has_its_chunks() {
    let stage = Stage::open().await;
    let house = gateway(stage.address(), FREE).await;
    for length in [1, 99] {
        let mut client = Client::to(house.gateway()).await;
        client.send(GET).await;
        let mut upstream = stage.accept().await;
        upstream.head().await;
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        upstream.send(&head).await;
        upstream.send("3\r\nabc\r\n0\r\n\r\n").await;
        let all = client.read_until("0\r\n\r\n").await;
        assert!(!all.contains("content-length"), "{all}");
        assert!(all.ends_with("\r\n\r\n3\r\nabc\r\n0\r\n\r\n"), "{all}");
    }
}

#[tokio::test]
async fn a_second_response_is_nobodys() {
    let stage = Stage::open().await;
    let house = gateway(stage.address(), FREE).await;
    let response = |text: &str| format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{text}");
    let mut client = Client::to(house.gateway()).await;
    for _ in 0..3 {
        client.send(GET).await;
        let mut upstream = stage.accept().await;
        upstream.head().await;
        upstream.send(&(response("a") + &response("b"))).await;
        assert_eq!(client.reply().await.unwrap().body, "a");
        // The connection is not used again.
        upstream.wait_for_end().await;
    }
}

#[tokio::test]
async fn informational_responses_are_no_response() {
    let stage = Stage::open().await;
    let house = gateway(stage.address(), FREE).await;
    let mut client = Client::to(house.gateway()).await;
    client.send(GET).await;
    let mut upstream = stage.accept().await;
    upstream.head().await;
    let flood = async {
        use tokio::io::AsyncWriteExt;
        let hints = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(100);
        while upstream.0.write_all(hints.as_bytes()).await.is_ok() {}
    };
    timeout(TIMEOUT, flood).await.unwrap();
    client.reply().await.unwrap().problem(502);
}

#[tokio::test]
async fn what_follows_a_denied_request_that_expects_to_continue_is_its_body() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, "").await;
    for _ in 0..2 {
        assert_eq!(Client::to(house.gateway()).await.get("/").await.status, 200);
    }
    let hidden = "GET /hidden HTTP/1.1\r\nhost: h\r\n\r\n";
    for length in [hidden.len(), 1 << 20] {
        let mut client = Client::to(house.gateway()).await;
        let head = format!(
            "POST / HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
        );
        client.send(head.as_bytes()).await;
        assert_eq!(client.reply().await.unwrap().status, 429);
        client.send(hidden.as_bytes()).await;
        client.end_sending().await;
        assert_eq!(client.rest().await, b"", "{length}");
    }
    assert_eq!(upstream.requests().len(), 2);
}

#[tokio::test]
async fn lengths_and_codings_of_http2_are_those_of_its_frames() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, FREE).await;
    for (name, value, body) in [
        ("content-length", "5", ""),
        ("content-length", "5", "abc"),
        ("content-length", "2", "abc"),
        ("content-length", "+3", "abc"),
        ("content-length", "3, 3", "abc"),
        ("host", "other", ""),
    ] {
        let mut client = connect(&house).await;
        let request = Request::post("http://h/").version(Version::HTTP_2);
        let request = request.header(name, value);
        let request = request.body(Full::from(body)).unwrap();
        let answered = timeout(TIMEOUT, client.send_request(request))
            .await
            .unwrap();
        let status = answered.map(|response| response.status().as_u16());
        assert!(
            matches!(status, Err(_) | Ok(400)),
            "{name}: {value} {body:?}: {status:?}"
        );
    }
    assert!(upstream.requests().is_empty(), "{:?}", upstream.requests());
    // What belongs to the connections of the gateway has not been harmed.
    assert_eq!(Client::to(house.gateway()).await.get("/").await.status, 200);
}
