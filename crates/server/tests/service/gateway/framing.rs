//! Requests that servers and proxies could understand in different ways.

use std::sync::atomic::Ordering;

use super::upstream::Echo;
use super::{FREE, gateway};
use crate::http_client::Client;

/// The next request on a connection, if there is one for the gateway.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nhost: h\r\n\r\n";

/// Requests, and the status of the answer.
const AMBIGUOUS: [(&str, u16); 23] = [
    (
        "POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabc",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 3, 4\r\n\r\nabc",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nhost: h\r\ncontent-length: +3\r\n\r\nabc",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nhost: h\r\ncontent-length: -1\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nhost: h\r\ncontent-length : 3\r\n\r\nabc",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding : chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nhost: h\r\n transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        501,
    ),
    (
        "POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.0\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    ("GET / HTTP/1.1\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nhost: a b\r\n\r\n", 400),
    ("GET http://a/ HTTP/1.1\r\nhost: b\r\n\r\n", 400),
    ("GET http://u@h/ HTTP/1.1\r\nhost: h\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nhost: h\r\nx: a\rb\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nhost: h\r\nx: a\0b\r\n\r\n", 400),
    ("GET /a b HTTP/1.1\r\nhost: h\r\n\r\n", 400),
    ("CONNECT h:80 HTTP/1.1\r\nhost: h:80\r\n\r\n", 501),
    ("connect h:80 HTTP/1.1\r\nhost: h:80\r\n\r\n", 501),
    ("GET h:80 HTTP/1.1\r\nhost: h:80\r\n\r\n", 400),
    ("head / HTTP/1.1\r\nhost: h\r\n\r\n", 501),
];

#[tokio::test]
async fn ambiguous_requests_are_rejected_and_their_connections_closed() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, FREE).await;
    for (request, status) in AMBIGUOUS {
        let mut client = Client::to(house.gateway()).await;
        client.send(format!("{request}{HIDDEN}").as_bytes()).await;
        let all = String::from_utf8_lossy(&client.rest().await).into_owned();
        // The version is the client's.
        let expected = format!(" {status} ");
        assert_eq!(all.get(8..13), Some(expected.as_str()), "{request}\n{all}");
    }
    assert_eq!(
        upstream.connections.load(Ordering::Relaxed),
        0,
        "{:?}",
        upstream.requests()
    );
}

#[tokio::test]
async fn bad_chunks_never_become_a_whole_request() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, FREE).await;
    for chunks in [
        "3\r\nabcd\r\n0\r\n\r\n",
        "zz\r\nabc\r\n0\r\n\r\n",
        "-1\r\nabc\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nabc\r\n0\r\n\r\n",
        "3\nabc\n0\n\n",
    ] {
        let head = "POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n";
        let mut client = Client::to(house.gateway()).await;
        client
            .send(format!("{head}{chunks}{HIDDEN}").as_bytes())
            .await;
        let all = String::from_utf8_lossy(&client.rest().await).into_owned();
        assert!(!all.contains("200 OK"), "{chunks:?}\n{all}");
    }
    assert!(upstream.requests().is_empty(), "{:?}", upstream.requests());
}

#[tokio::test]
async fn what_follows_a_request_with_two_lengths_is_no_request() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, FREE).await;
    for lengths in [
        "content-length: 4\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 4",
    ] {
        let head = format!("POST /a HTTP/1.1\r\nhost: h\r\n{lengths}\r\n\r\n0\r\n\r\n");
        let mut client = Client::to(house.gateway()).await;
        client.send(format!("{head}{HIDDEN}").as_bytes()).await;
        let all = String::from_utf8_lossy(&client.rest().await).into_owned();
        assert_eq!(all.matches("HTTP/1.1 ").count(), 1, "{all}");
        assert!(all.contains("connection: close"), "{all}");
    }
    for seen in upstream.requests() {
        assert_eq!(seen.target, "/a");
        let lengths = seen.fields.iter().filter(|field| field.contains("length"));
        assert_eq!(lengths.count(), 0, "{seen:?}");
    }
}

#[tokio::test]
async fn each_request_of_a_pipeline_counts() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, "").await;
    let mut client = Client::to(house.gateway()).await;
    client.send(HIDDEN.repeat(4).as_bytes()).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(client.reply().await.unwrap().status);
    }
    assert_eq!(statuses, [200, 200, 429, 429]);
}

#[tokio::test]
async fn the_target_of_a_proxy_request_becomes_a_path() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, FREE).await;
    let mut client = Client::to(house.gateway()).await;
    client
        .send(b"GET http://h:81/a?b HTTP/1.1\r\nhost: H:81\r\n\r\n")
        .await;
    assert_eq!(client.reply().await.unwrap().status, 200);
    let mut old = Client::to(house.gateway()).await;
    old.send(b"GET /old HTTP/1.0\r\n\r\n").await;
    let all = String::from_utf8_lossy(&old.rest().await).into_owned();
    assert!(all.starts_with("HTTP/1.0 200 OK"), "{all}");
    let seen = upstream.requests();
    assert_eq!(seen[0].target, "/a?b");
    assert!(
        seen[0].fields.contains(&"host: h:81".to_owned()),
        "{seen:?}"
    );
    let address = format!("host: {}", upstream.address);
    assert!(seen[1].fields.contains(&address), "{seen:?}");
}
