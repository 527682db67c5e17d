//! Clients that speak TLS with the gateway.

use std::sync::Arc;

use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tollgate_server::{GatewaySettings, Listen, ListenerKind, Outcome, TlsFiles};
use tollgate_testbed::Certificates;

use super::upstream::Echo;
use super::{FREE, RULES, gateway_with, section};
use crate::eventually::eventually;
use crate::house::House;
use crate::http_client::Client;
use crate::tls_client::{Secured, client_config, connect, put};
use crate::tls_reload::{replace, shown_at};

const GET: &[u8] = b"GET /a HTTP/1.1\r\nhost: h\r\n\r\n";

/// A service whose gateway has TLS like its other listeners, with certificates of clients or
/// without.
async fn secured_gateway(upstream: &Echo, is_mutual: bool) -> Secured {
    Secured::with(|config, issued| {
        let tls = config.listen[0].tls.clone().unwrap();
        config.listen.push(Listen {
            kind: ListenerKind::Gateway,
            address: "127.0.0.1:0".parse().unwrap(),
            tls: Some(TlsFiles {
                client_ca: is_mutual.then(|| issued.authority().into()),
                ..tls
            }),
        });
        config.gateway = Some(section(upstream.address, FREE));
    })
    .await
}

/// A gateway with TLS, and a connection to it.
pub(super) async fn connect_to_gateway(
    issued: &Certificates,
    settings: GatewaySettings,
) -> (House, TlsStream<TcpStream>) {
    let (cert, key) = issued.identity();
    let house = gateway_with(RULES, settings, |config| {
        let listen = config.listen.iter_mut();
        let mut gateways = listen.filter(|listen| listen.kind == ListenerKind::Gateway);
        gateways.next().unwrap().tls = Some(TlsFiles {
            cert: cert.into(),
            key: key.into(),
            client_ca: None,
        });
    })
    .await;
    let mut config = (*client_config(issued, None)).clone();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let stream = connect(house.gateway(), &Arc::new(config)).await;
    (house, stream.unwrap())
}

#[tokio::test]
async fn the_upstream_learns_that_the_client_uses_tls() {
    let (echo, issued) = (Echo::start().await, Certificates::new());
    let (_house, stream) = connect_to_gateway(&issued, section(echo.address, FREE)).await;
    let reply = Client(stream).post("/a", "body").await;
    assert_eq!((reply.status, &*reply.body), (200, "body"));
    let seen = echo.seen.lock().unwrap().clone();
    let proto = "x-forwarded-proto: https".to_owned();
    assert!(seen[0].fields.contains(&proto), "{seen:?}");
}

#[tokio::test]
async fn clients_that_offer_http2_speak_it_over_tls() {
    let echo = Echo::start().await;
    let secured = secured_gateway(&echo, false).await;
    let stream = secured.connect(ListenerKind::Gateway, None).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let shaken = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.unwrap();
    tokio::spawn(connection);
    for body in ["one", "two"] {
        let request = Request::post("https://localhost/a");
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(bytes, body);
    }
    let seen = echo.requests();
    let proto = "x-forwarded-proto: https".to_owned();
    assert_eq!(seen.len(), 2);
    assert!(
        seen.iter().all(|seen| seen.fields.contains(&proto)),
        "{seen:?}"
    );
}

#[tokio::test]
async fn clients_without_a_certificate_are_rejected_where_the_gateway_needs_one() {
    let echo = Echo::start().await;
    let secured = secured_gateway(&echo, true).await;
    let config = |identity| {
        let mut config = (*client_config(&secured.issued, identity)).clone();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    };
    let address = secured.house.gateway();
    let certified = config(Some(secured.issued.identity()));
    let mut client = Client(connect(address, &certified).await.unwrap());
    assert_eq!(client.post("/a", "body").await.body, "body");
    let foreign = config(Some(Certificates::new().identity()));
    for (config, reason) in [
        (config(None), "no_client_certificate"),
        (foreign, "client_certificate_untrusted"),
    ] {
        // In TLS 1.3, a client learns that it was rejected when it reads.
        if let Ok(mut stream) = connect(address, &config).await {
            let _may_be_closed = stream.write_all(GET).await;
            assert!(stream.read_u8().await.is_err(), "{reason}");
        }
        let labels = format!("listener=\"gateway\",reason=\"{reason}\"");
        let line = format!("tollgate_connections_closed_total{{{labels}}} 1");
        secured.until_metric(&line).await;
    }
    assert_eq!(echo.requests().len(), 1);
}

#[tokio::test]
async fn the_gateway_shows_certificates_that_have_changed() {
    let echo = Echo::start().await;
    let secured = secured_gateway(&echo, false).await;
    let shown = || shown_at(&secured, ListenerKind::Gateway);
    let first = shown().await;
    let mut http1 = (*client_config(&secured.issued, None)).clone();
    http1.alpn_protocols = vec![b"http/1.1".to_vec()];
    let open = connect(secured.house.gateway(), &Arc::new(http1)).await;
    let mut open = Client(open.unwrap());
    assert_eq!(open.get("/a").await.status, 200);
    put(secured.house.directory.path(), secured.issued.issue("next"));
    assert_eq!(secured.house.running.reload().await, Outcome::InEffect);
    let second = shown().await;
    assert_ne!(second, first);
    // Without an order, the change of a file is noticed.
    replace(secured.house.directory.path(), secured.issued.issue("last"));
    eventually(async || shown().await != second).await;
    // A connection from before goes on.
    assert_eq!(open.get("/a").await.status, 200);
}
