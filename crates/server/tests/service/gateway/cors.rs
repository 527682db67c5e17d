//! Preflights of scripts from other origins.

use super::upstream::Echo;
use super::{gateway, gateway_with, section};
use crate::http_client::Client;

const PREFLIGHT: &[u8] = b"OPTIONS /a HTTP/1.1\r\nhost: h\r\norigin: https://shop.example\r\n\
    access-control-request-method: PUT\r\n\r\n";

async fn preflight(client: &mut Client) -> u16 {
    client.send(PREFLIGHT).await;
    client.reply().await.unwrap().status
}

#[tokio::test]
async fn preflights_count_like_any_request() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, "").await;
    let mut client = Client::to(house.gateway()).await;
    assert_eq!(preflight(&mut client).await, 200);
    assert_eq!(client.get("/a").await.status, 200);
    assert_eq!(preflight(&mut client).await, 429);
    assert_eq!(client.get("/a").await.status, 429);
    assert_eq!(upstream.requests().len(), 2);
}

#[tokio::test]
async fn a_route_of_their_own_exempts_preflights() {
    let upstream = Echo::start().await;
    // As in `docs/gateway.md`: no rule has this key.
    let routes = "routes: [{name: preflights, match: {methods: [OPTIONS], headers: \
        {access-control-request-method: '*'}}, identity: {descriptors: [{entries: \
        [{key: preflight, from: {constant: any}}]}]}}, {}]";
    let settings = section(upstream.address, routes);
    let house = gateway_with(super::RULES, settings, |_| ()).await;
    let mut client = Client::to(house.gateway()).await;
    for _ in 0..5 {
        assert_eq!(preflight(&mut client).await, 200);
    }
    for status in [200, 200, 429] {
        assert_eq!(client.get("/a").await.status, status);
    }
    assert_eq!(preflight(&mut client).await, 200);
}
