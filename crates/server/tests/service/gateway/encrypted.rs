//! Clients that speak TLS with the gateway.

use std::sync::Arc;

use tollgate_server::{ListenerKind, TlsFiles};
use tollgate_testbed::Certificates;

use super::upstream::Echo;
use super::{FREE, RULES, gateway_with, section};
use crate::http_client::Client;
use crate::tls_client::{client_config, connect};

#[tokio::test]
async fn the_upstream_learns_that_the_client_uses_tls() {
    let (echo, issued) = (Echo::start().await, Certificates::new());
    let (cert, key) = issued.identity();
    let house = gateway_with(RULES, section(echo.address, FREE), |config| {
        let listen = config.listen.iter_mut();
        let mut gateways = listen.filter(|listen| listen.kind == ListenerKind::Gateway);
        gateways.next().unwrap().tls = Some(TlsFiles {
            cert: cert.into(),
            key: key.into(),
            client_ca: None,
        });
    })
    .await;
    let address = house.running.address(ListenerKind::Gateway).unwrap();
    let mut config = (*client_config(&issued, None)).clone();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let stream = connect(address, &Arc::new(config)).await;
    let reply = Client(stream.unwrap()).post("/a", "body").await;
    assert_eq!((reply.status, &*reply.body), (200, "body"));
    let seen = echo.seen.lock().unwrap().clone();
    let proto = "x-forwarded-proto: https".to_owned();
    assert!(seen[0].fields.contains(&proto), "{seen:?}");
}
