//! Peers that do not finish a handshake, or speak something else than TLS.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tollgate_server::ListenerKind;

use crate::http_client::Client;
use crate::tls_client::{GOOD, Secured, client_config, connect};

/// Longer than any test takes.
const NEVER: Duration = Duration::from_secs(3600);
/// The beginning of a record with a ClientHello of 512 bytes.
const HALF_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

fn closed(reason: &str, count: usize) -> String {
    format!("tollgate_connections_closed_total{{listener=\"http\",reason=\"{reason}\"}} {count}")
}

#[tokio::test]
async fn plain_http_gets_an_alert_or_the_end() {
    let secured = Secured::new().await;
    for (address, count) in [(secured.house.http(), 1), (secured.house.http(), 2)] {
        let mut client = Client::to(address).await;
        client
            .send(b"GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n")
            .await;
        let rest = client.rest().await;
        // An alert (21), or nothing.
        assert!(rest.is_empty() || rest[0] == 21, "{rest:?}");
        secured.until_metric(&closed("not_tls", count)).await;
    }
    let mut preface = Client::to(secured.house.grpc()).await;
    preface.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    let rest = preface.rest().await;
    assert!(rest.is_empty() || rest[0] == 21, "{rest:?}");
}

#[tokio::test]
async fn tls_on_a_plain_listener_is_answered_and_ends() {
    let secured = Secured::with(|config, _| {
        for listen in &mut config.listen[..2] {
            listen.tls = None;
        }
    })
    .await;
    let config = client_config(&secured.issued, None);
    for address in [secured.house.http(), secured.house.grpc()] {
        assert!(connect(address, &config).await.is_err());
    }
}

#[tokio::test]
async fn a_handshake_that_does_not_end_in_time_is_closed() {
    let secured = Secured::with(|config, _| {
        config.limits.header_timeout = Duration::from_millis(200);
        // Both permits are free again after the timeout.
        config.limits.connections = 2;
    })
    .await;
    for sent in [&b""[..], HALF_HELLO] {
        let mut client = Client::to(secured.house.http()).await;
        client.send(sent).await;
        assert!(client.is_closed().await);
    }
    secured.until_metric(&closed("handshake_timeout", 2)).await;
    secured
        .until_metric(r#"tollgate_connections{listener="http"} 0"#)
        .await;
    let mut http = secured.client(ListenerKind::Http).await;
    assert_eq!(http.post("/v1/check", GOOD).await.status, 200);
}

/// A handshake counts for `connections_per_address`, and makes room like a connection without a
/// request.
#[tokio::test]
async fn a_thousand_half_handshakes_leave_room_for_a_good_client() {
    let secured = Secured::with(|config, _| {
        config.limits.header_timeout = NEVER;
        config.limits.connections = 64;
        config.limits.connections_per_address = 32;
    })
    .await;
    let address = secured.house.http();
    let config = client_config(&secured.issued, None);
    let mut hoard = Vec::new();
    for number in 0..1000 {
        hoard.push(half_handshake(address).await);
        if number % 100 == 0 {
            // An address of its own, so there is a permit for it.
            let stream = connect(address, &config).await.unwrap();
            let reply = Client(stream).get("/healthz").await;
            assert_eq!(reply.status, 200);
        }
    }
    let stream = connect(address, &config).await.unwrap();
    assert_eq!(Client(stream).post("/v1/check", GOOD).await.status, 200);
    // The attacker keeps its 32 permits, and those for health checks end in time.
    let open = r#"tollgate_connections{listener="http"} 32"#;
    secured.until_metric(open).await;
    drop(hoard);
}

/// A connection from 127.0.0.2 that begins a handshake.
async fn half_handshake(address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    // It may have been closed for the next one already.
    let _ = stream.write_all(HALF_HELLO).await;
    stream
}

#[tokio::test]
async fn garbage_after_the_handshake_ends_the_connection() {
    let secured = Secured::new().await;
    let mut stream = secured.connect(ListenerKind::Http, None).await.unwrap();
    // Below the session: a record that nothing encrypted.
    let socket = stream.get_mut().0;
    socket
        .write_all(b"\x17\x03\x03\x00\x20not encrypted by this session...")
        .await
        .unwrap();
    let mut rest = Vec::new();
    let _ended = stream.read_to_end(&mut rest).await;
    assert_eq!(rest, b"");
    secured
        .until_metric(r#"tollgate_connections{listener="http"} 0"#)
        .await;
}
