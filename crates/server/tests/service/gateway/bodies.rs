//! Bodies: streamed both ways, and bounded.

use std::time::Duration;

use tokio::io::AsyncReadExt;

use super::upstream::{Echo, Stage};
use super::{FREE, gateway};
use crate::http_client::Client;

const CHUNKED: &[u8] = b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n";

#[tokio::test]
async fn both_bodies_stream_without_waiting_for_their_ends() {
    let stage = Stage::open().await;
    let house = gateway(stage.address(), FREE).await;
    let mut client = Client::to(house.gateway()).await;
    client.send(CHUNKED).await;
    client.send(b"3\r\none\r\n").await;
    let mut upstream = stage.accept().await;
    let head = upstream.head().await;
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    assert_eq!(upstream.read_until("one\r\n").await, "3\r\none\r\n");
    // The response begins while the request goes on.
    upstream
        .send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n")
        .await;
    assert!(
        client
            .read_until("1\r\na\r\n")
            .await
            .starts_with("HTTP/1.1 200 OK")
    );
    client.send(b"3\r\ntwo\r\n0\r\n\r\n").await;
    let rest = upstream.read_until("0\r\n\r\n").await;
    assert_eq!(rest, "3\r\ntwo\r\n0\r\n\r\n");
    upstream.send("1\r\nb\r\n0\r\n\r\n").await;
    assert_eq!(client.read_until("0\r\n\r\n").await, "1\r\nb\r\n0\r\n\r\n");
}

#[tokio::test]
async fn a_response_that_its_own_request_breaks_off_is_no_failure_of_the_upstream() {
    let stage = Stage::open().await;
    let house = gateway(stage.address(), &format!("{FREE}, body_bytes: 4")).await;
    let mut client = Client::to(house.gateway()).await;
    client.send(CHUNKED).await;
    let mut upstream = stage.accept().await;
    upstream.head().await;
    upstream
        .send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n")
        .await;
    client.read_until("1\r\na\r\n").await;
    client.send(b"5\r\nabcde\r\n").await;
    client.rest().await;
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    assert!(!metrics.contains("kind=\"body\"} 1"), "{metrics}");
}

#[tokio::test]
async fn a_body_that_is_announced_as_too_large_is_rejected_before_anything_is_asked() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, "body_bytes: 1KiB").await;
    for _ in 0..3 {
        let mut client = Client::to(house.gateway()).await;
        let reply = client.post("/", &"x".repeat(1025)).await;
        let detail = reply.problem(413);
        assert_eq!(detail, "the body is larger than 1024 bytes; send less");
    }
    let mut client = Client::to(house.gateway()).await;
    let largest = "x".repeat(1024);
    assert_eq!(client.post("/", &largest).await.body, largest);
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_body_without_a_length_is_cut_off_where_it_becomes_too_large() {
    let stage = Stage::open().await;
    let house = gateway(stage.address(), &format!("{FREE}, body_bytes: 4")).await;
    let mut client = Client::to(house.gateway()).await;
    client.send(CHUNKED).await;
    client.send(b"3\r\nabc\r\n").await;
    let mut upstream = stage.accept().await;
    upstream.head().await;
    assert_eq!(upstream.read_until("abc\r\n").await, "3\r\nabc\r\n");
    client.send(b"2\r\nde\r\n").await;
    let reply = client.reply().await.unwrap();
    assert_eq!(
        reply.problem(413),
        "the body is larger than 4 bytes; send less"
    );
    assert!(client.is_closed().await);
    // The upstream sees no end of the body, so it cannot take the part for the whole.
    let mut rest = Vec::new();
    let _ = upstream.0.read_to_end(&mut rest).await;
    assert!(!rest.ends_with(b"0\r\n\r\n"), "{rest:?}");
}

#[tokio::test]
async fn a_client_that_stops_sending_its_body_gets_408() {
    let stage = Stage::open().await;
    let more = format!("{FREE}, timeouts: {{body: 50ms}}");
    let house = gateway(stage.address(), &more).await;
    let mut client = Client::to(house.gateway()).await;
    client
        .send(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 9\r\n\r\nabc")
        .await;
    let mut upstream = stage.accept().await;
    let detail = client.reply().await.unwrap().problem(408);
    assert!(
        detail.starts_with("nothing of the body arrived for 50ms"),
        "{detail}"
    );
    upstream.wait_for_end().await;
}

#[tokio::test]
async fn a_client_that_sends_its_body_byte_by_byte_gets_408() {
    for more in [
        "body_rate: 1GiB",
        "body_rate: 0, routes: [{name: default, body_rate: 1GiB}]",
    ] {
        let stage = Stage::open().await;
        let more = format!("{FREE}, timeouts: {{body: 500ms}}, {more}");
        let house = gateway(stage.address(), &more).await;
        let mut client = Client::to(house.gateway()).await;
        client.send(CHUNKED).await;
        client.send(b"1\r\na\r\n").await;
        let mut upstream = stage.accept().await;
        upstream.head().await;
        // Never a pause that would be too long by itself: the next byte follows as soon as the
        // last one has arrived. It ends with the connection to the upstream.
        let mut part = [0; 64];
        while let Ok(1..) = upstream.0.read(&mut part).await {
            let _ = client.try_send(b"1\r\na\r\n").await;
        }
        let detail = client.reply().await.unwrap().problem(408);
        let expected = "the body comes slower than 1073741824 bytes a second; send it faster";
        assert_eq!(detail, expected);
        let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
        let counted = "{route=\"default\",outcome=\"slow_body\"} 1\n";
        assert!(metrics.contains(counted), "{metrics}");
    }
}

#[tokio::test]
async fn a_slow_client_does_not_make_its_upstream_late() {
    let stage = Stage::open().await;
    let more = format!("{FREE}, timeouts: {{head: 1ms, body: 10s}}");
    let house = gateway(stage.address(), &more).await;
    let mut client = Client::to(house.gateway()).await;
    client
        .send(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\na")
        .await;
    let mut upstream = stage.accept().await;
    assert!(upstream.read_until("\r\n\r\na").await.ends_with('a'));
    // The time for a head begins with the end of the body, which the client holds back.
    let early = tokio::time::timeout(Duration::from_millis(100), client.reply()).await;
    assert!(early.is_err(), "{early:?}");
    client.send(b"b").await;
    let detail = client.reply().await.unwrap().problem(504);
    assert!(detail.contains("did not answer within 1ms"), "{detail}");
}

#[tokio::test]
async fn an_upstream_that_reads_nothing_ends_in_504_and_little_memory() {
    let stage = Stage::open().await;
    let more = format!("{FREE}, timeouts: {{head: 200ms, body: 200ms}}, body_bytes: 1GiB");
    let house = gateway(stage.address(), &more).await;
    let mut client = Client::to(house.gateway()).await;
    client
        .send(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 100000000\r\n\r\n")
        .await;
    let upstream = stage.accept().await;
    let mut sent = 0_usize;
    let piece = vec![b'x'; 1 << 20];
    let sending = async {
        // Ends when the gateway has answered and closes.
        while client.try_send(&piece).await.is_ok() {
            sent += piece.len();
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), sending).await;
    assert!(sent < 50_000_000, "{sent} bytes were taken");
    let head = client.rest().await;
    let head = String::from_utf8_lossy(&head).into_owned();
    assert!(head.starts_with("HTTP/1.1 504"), "{head:?}");
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    let counted = r#"tollgate_gateway_upstream_errors_total{upstream="api",kind="head_timeout"} 1"#;
    assert!(metrics.contains(counted), "{metrics}");
    drop(upstream);
}

/// A client must not send its next request on a connection that is about to be closed.
#[tokio::test]
async fn a_response_to_a_body_that_is_not_read_says_that_the_connection_ends() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, "body_bytes: 1KiB").await;
    let long = "POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 200000\r\n\r\n";
    let expecting = "POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 2000\r\n\
                     expect: 100-continue\r\n\r\n";
    for head in [long, expecting] {
        let mut client = Client::to(house.gateway()).await;
        client.send(head.as_bytes()).await;
        let reply = client.reply().await.unwrap();
        assert_eq!(
            (reply.status, reply.header("connection")),
            (413, Some("close"))
        );
        assert!(client.is_closed().await);
    }
    let mut client = Client::to(house.gateway()).await;
    let reply = client.post("/", &"x".repeat(1025)).await;
    assert_eq!((reply.status, reply.header("connection")), (413, None));
    assert_eq!(client.get("/").await.status, 200);
}
