//! Requests that are sent again because their connection ended without an answer.

use serde_json::Value;
use tempfile::TempDir;

use super::upstream::{Actor, Stage};
use super::{FREE, RULES, gateway_with, section_of};
use crate::house::House;
use crate::http_client::Client;

const GET: &[u8] = b"GET /a?b HTTP/1.1\r\nhost: h\r\nx-mine: 1\r\n\r\n";
const DONE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone";

/// A gateway in front of these servers.
async fn start(stages: &[&Stage], retries: &str, more: &str) -> House {
    let addresses = stages.iter().map(|stage| format!("'{}'", stage.address()));
    let addresses = addresses.collect::<Vec<_>>().join(", ");
    let upstream = format!("{{addresses: [{addresses}], retries: {retries}}}");
    gateway_with(RULES, section_of(&upstream, more), |_| ()).await
}

/// The next connection to a server that reads a request and answers nothing.
async fn fail(stage: &Stage) -> String {
    let mut server = stage.accept().await;
    server.head().await
}

async fn count(house: &House, outcome: &str) -> bool {
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    let labels = format!("{{upstream=\"api\",outcome=\"{outcome}\"}}");
    metrics.contains(&format!(
        "tollgate_gateway_upstream_retries_total{labels} 1\n"
    ))
}

#[tokio::test]
async fn a_safe_request_is_sent_to_another_address_and_charged_once() {
    let (first, second) = (Stage::open().await, Stage::open().await);
    let directory = TempDir::new().unwrap();
    let log = directory.path().join("access.log");
    let more = format!("access_log: {{path: '{}'}}", log.display());
    let house = start(&[&first, &second], "{}", &more).await;
    let mut client = Client::to(house.gateway()).await;
    client.send(GET).await;
    let asked = fail(&first).await;
    let mut server = second.accept().await;
    assert_eq!(server.head().await, asked);
    assert!(asked.starts_with("GET /a?b HTTP/1.1\r\n") && asked.contains("x-mine: 1\r\n"));
    server.send(DONE).await;
    let reply = client.reply().await.unwrap();
    assert_eq!((reply.status, &*reply.body), (200, "done"));
    // Two requests an hour are allowed: this was one of them.
    assert_eq!(
        reply.header("ratelimit"),
        Some(r#""remote_address";r=1;t=3600"#)
    );
    assert!(count(&house, "sent").await);
    drop(client);
    house.running.stop().await;
    let lines = std::fs::read_to_string(log).unwrap();
    let line: Value = serde_json::from_str(&lines).unwrap();
    assert_eq!(line["upstream"], second.address().to_string());
}

#[tokio::test]
async fn a_request_that_is_not_safe_or_has_a_body_is_sent_once() {
    let stage = Stage::open().await;
    let house = start(&[&stage], "{}", FREE).await;
    for request in [
        "POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n",
        "DELETE / HTTP/1.1\r\nhost: h\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: h\r\ncontent-length: 1\r\n\r\na",
        "GET / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ] {
        let mut client = Client::to(house.gateway()).await;
        client.send(request.as_bytes()).await;
        fail(&stage).await;
        let detail = client.reply().await.unwrap().problem(502);
        assert!(detail.contains("without an answer"), "{detail}");
    }
    assert!(!count(&house, "sent").await);
}

#[tokio::test]
async fn a_request_is_not_sent_again_without_the_setting_or_after_a_timeout() {
    let stage = Stage::open().await;
    let house = super::gateway(stage.address(), FREE).await;
    let mut client = Client::to(house.gateway()).await;
    client.send(GET).await;
    fail(&stage).await;
    client.reply().await.unwrap().problem(502);

    let more = format!("{FREE}, timeouts: {{head: 50ms}}");
    let house = start(&[&stage], "{}", &more).await;
    let mut client = Client::to(house.gateway()).await;
    client.send(GET).await;
    let mut server = stage.accept().await;
    client.reply().await.unwrap().problem(504);
    server.wait_for_end().await;
    assert!(!count(&house, "sent").await);
}

#[tokio::test]
async fn a_request_is_sent_again_as_often_as_it_may_and_not_once_more() {
    let stage = Stage::open().await;
    let house = start(&[&stage], "{attempts: 2}", FREE).await;
    let mut client = Client::to(house.gateway()).await;
    client.send(GET).await;
    for _ in 0..3 {
        fail(&stage).await;
    }
    client.reply().await.unwrap().problem(502);
    // Also if connections are reset; the third one answers.
    client.send(GET).await;
    for _ in 0..2 {
        let Actor(mut server) = stage.accept().await;
        tokio::io::AsyncReadExt::read_u8(&mut server).await.unwrap();
        server.set_zero_linger().unwrap();
    }
    let mut server = stage.accept().await;
    server.head().await;
    server.send(DONE).await;
    assert_eq!(client.reply().await.unwrap().status, 200);
}

#[tokio::test]
async fn retries_beyond_the_budget_are_not_made() {
    let stage = Stage::open().await;
    let house = start(&[&stage], "{percent: 50, per_second: 0}", FREE).await;
    let mut client = Client::to(house.gateway()).await;
    client.send(GET).await;
    fail(&stage).await;
    client.reply().await.unwrap().problem(502);
    assert!(count(&house, "over_budget").await);
    // The second request has earned the other half.
    client.send(GET).await;
    fail(&stage).await;
    let mut server = stage.accept().await;
    server.head().await;
    server.send(DONE).await;
    assert_eq!(client.reply().await.unwrap().status, 200);
    assert!(count(&house, "sent").await);
}
