//! Clients that speak TLS with the gateway.

use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tollgate_server::{GatewaySettings, ListenerKind, TlsFiles};
use tollgate_testbed::Certificates;

use super::upstream::Echo;
use super::{FREE, RULES, gateway_with, section};
use crate::house::House;
use crate::http_client::Client;
use crate::tls_client::{client_config, connect};

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
