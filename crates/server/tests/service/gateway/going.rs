//! Clients and upstreams that go away, stop, or talk nonsense; and the end of the gateway itself.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tollgate_testbed::Certificates;

use super::encrypted::connect_to_gateway;
use super::upstream::{Echo, Stage};
use super::{FREE, gateway};
use crate::eventually::eventually;
use crate::http_client::Client;

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: h\r\n\r\n";

#[tokio::test]
async fn the_request_of_a_client_that_goes_away_is_dropped() {
    let stage = Stage::open().await;
    let house = gateway(stage.address(), FREE).await;
    for begun in ["", "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nbegun"] {
        let mut client = Client::to(house.gateway()).await;
        client.send(GET).await;
        let mut upstream = stage.accept().await;
        upstream.head().await;
        upstream.send(begun).await;
        if !begun.is_empty() {
            client.read_until("begun").await;
        }
        drop(client);
        upstream.wait_for_end().await;
    }
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    let canceled = r#"tollgate_gateway_requests_total{route="default",outcome="canceled"} 1"#;
    assert!(metrics.contains(canceled), "{metrics}");
}

/// What the gateway holds of a client hides nothing from it: neither a byte of the next request nor
/// the records of TLS.
#[tokio::test]
async fn a_client_that_goes_away_behind_more_than_its_request_is_noticed() {
    let stage = Stage::open().await;
    let house = gateway(stage.address(), FREE).await;
    go_away_behind_more(Client::to(house.gateway()).await, &stage).await;

    let issued = Certificates::new();
    let settings = super::section(stage.address(), FREE);
    let (_house, stream) = connect_to_gateway(&issued, settings).await;
    go_away_behind_more(Client(stream), &stage).await;
}

/// Sends a request and the first byte of another, goes away, and waits until the upstream sees it.
async fn go_away_behind_more<S: AsyncRead + AsyncWrite + Unpin>(
    mut client: Client<S>,
    stage: &Stage,
) {
    client.send(GET).await;
    client.send(b"G").await;
    let mut upstream = stage.accept().await;
    upstream.head().await;
    drop(client);
    upstream.wait_for_end().await;
}

#[tokio::test]
async fn a_client_that_stops_reading_loses_its_connection_and_stops_its_upstream() {
    let stage = Stage::open().await;
    let settings = super::section(stage.address(), FREE);
    let house = super::gateway_with(super::RULES, settings, |config| {
        config.limits.write_timeout = Duration::from_millis(50);
    })
    .await;
    let mut client = Client::to(house.gateway()).await;
    client.send(GET).await;
    let mut upstream = stage.accept().await;
    upstream.head().await;
    upstream
        .send("HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n")
        .await;
    let piece = vec![b'x'; 1 << 20];
    let mut taken = 0_usize;
    // Ends when the gateway closes the connection.
    let sending = async {
        while upstream.0.write_all(&piece).await.is_ok() {
            taken += piece.len();
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(20), sending).await;
    assert!(ended.is_ok(), "the upstream still sends");
    assert!(
        taken < 50_000_000,
        "{taken} bytes were taken for a client that reads none"
    );
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    let closed = r#"tollgate_connections_closed_total{listener="gateway",reason="slow_reader"} 1"#;
    assert!(metrics.contains(closed), "{metrics}");
}

#[tokio::test]
async fn an_upstream_that_does_not_speak_http_is_a_bad_gateway() {
    let stage = Stage::open().await;
    let house = gateway(stage.address(), FREE).await;
    let closed = "ended the connection without an answer";
    let malformed = "did not answer in HTTP";
    for (answer, expected) in [
        ("", closed),
        ("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n", closed),
        ("SSH-2.0-OpenSSH\r\n\r\n", malformed),
        ("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", malformed),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
            malformed,
        ),
        ("HTTP/1.1 999999 \u{e9}\r\n\r\n", malformed),
    ] {
        let mut client = Client::to(house.gateway()).await;
        client.send(GET).await;
        let mut upstream = stage.accept().await;
        upstream.head().await;
        upstream.send(answer).await;
        drop(upstream);
        let detail = client.reply().await.unwrap().problem(502);
        assert!(detail.contains(expected), "{answer:?}: {detail}");
    }
    // A head without an end.
    let mut client = Client::to(house.gateway()).await;
    client.send(GET).await;
    let mut upstream = stage.accept().await;
    upstream.head().await;
    upstream.send("HTTP/1.1 200 OK\r\n").await;
    let line = format!("x: {}\r\n", "y".repeat(1000));
    for _ in 0..80 {
        upstream.send(&line).await;
    }
    let detail = client.reply().await.unwrap().problem(502);
    assert!(detail.contains(malformed), "{detail}");
}

#[tokio::test]
async fn a_response_that_breaks_off_does_not_look_complete() {
    let stage = Stage::open().await;
    let house = gateway(stage.address(), FREE).await;
    for (framing, part) in [
        ("content-length: 9", "abc"),
        ("transfer-encoding: chunked", "3\r\nabc\r\n"),
    ] {
        let mut client = Client::to(house.gateway()).await;
        client.send(GET).await;
        let mut upstream = stage.accept().await;
        upstream.head().await;
        upstream
            .send(&format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n{part}"))
            .await;
        drop(upstream);
        let all = String::from_utf8_lossy(&client.rest().await).into_owned();
        assert!(all.starts_with("HTTP/1.1 200 OK"), "{all}");
        assert!(!all.ends_with("0\r\n\r\n"), "{all}");
    }
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    let counted = r#"tollgate_gateway_upstream_errors_total{upstream="api",kind="body"} 2"#;
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test]
async fn an_upstream_that_is_too_slow_is_given_up() {
    let stage = Stage::open().await;
    let more = format!("{FREE}, timeouts: {{head: 50ms, body: 50ms}}");
    let house = gateway(stage.address(), &more).await;
    let mut client = Client::to(house.gateway()).await;
    client.send(GET).await;
    let mut upstream = stage.accept().await;
    let detail = client.reply().await.unwrap().problem(504);
    assert!(detail.contains("did not answer within 50ms"), "{detail}");
    upstream.wait_for_end().await;
    // The head comes, and then nothing.
    client.send(GET).await;
    let mut upstream = stage.accept().await;
    upstream.head().await;
    upstream
        .send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc")
        .await;
    let all = String::from_utf8_lossy(&client.rest().await).into_owned();
    assert!(all.ends_with("abc"), "{all}");
    upstream.wait_for_end().await;
}

#[tokio::test]
async fn a_connection_that_the_upstream_closed_meanwhile_is_replaced() {
    let stage = Stage::open().await;
    let house = gateway(stage.address(), FREE).await;
    let mut client = Client::to(house.gateway()).await;
    for _ in 0..3 {
        client
            .send(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 1\r\n\r\na")
            .await;
        let mut upstream = stage.accept().await;
        upstream.read_until("\r\n\r\na").await;
        upstream
            .send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .await;
        assert_eq!(client.reply().await.unwrap().status, 200);
        drop(upstream);
    }
}

#[tokio::test]
async fn other_upstream_addresses_are_tried_when_one_accepts_nothing() {
    let (away, echo) = (Stage::open().await, Echo::start().await);
    let addresses = format!("['{}', '{}']", away.address(), echo.address);
    drop(away);
    let mut settings = super::section(echo.address, FREE);
    let addresses = addresses.trim_matches(['[', ']']).replace('\'', "");
    let addresses = addresses.split(", ").map(str::to_owned).collect();
    settings.upstreams.get_mut("api").unwrap().addresses = addresses;
    let house = super::gateway_with(super::RULES, settings, |_| ()).await;
    let mut client = Client::to(house.gateway()).await;
    // Every other one tries the address first that accepts nothing, until three have failed.
    // Few follow, because a machine with other work may take ten seconds for many: then it is tried
    // again.
    for _ in 0..8 {
        assert_eq!(client.get("/").await.status, 200);
    }
    assert_eq!(echo.requests().len(), 8);
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    let counted = r#"tollgate_gateway_upstream_errors_total{upstream="api",kind="unreachable"} 3"#;
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test]
async fn what_is_in_flight_is_finished_before_the_gateway_stops() {
    let stage = Stage::open().await;
    let house = gateway(stage.address(), FREE).await;
    let address = house.gateway();
    let mut client = Client::to(address).await;
    client.send(GET).await;
    let mut upstream = stage.accept().await;
    upstream.head().await;
    let stopping = tokio::spawn(house.running.stop());
    eventually(async || tokio::net::TcpStream::connect(address).await.is_err()).await;
    upstream
        .send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone")
        .await;
    let reply = client.reply().await.unwrap();
    assert_eq!((reply.status, reply.body.as_str()), (200, "done"));
    assert!(client.is_closed().await);
    tokio::time::timeout(Duration::from_secs(20), stopping)
        .await
        .unwrap()
        .unwrap();
}
