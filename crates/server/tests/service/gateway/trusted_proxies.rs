//! Proxies whose address stands for all of their clients: how many connections they may have.

use tollgate_server::Outcome;

use super::RULES;
use super::reload::start_with;
use super::upstream::Echo;
use crate::house::{House, replace};
use crate::http_client::Client;

const PEER: &str = "{}";
/// The proxy is on this host.
const TRUSTED: &str = "{client_address: {source: x-real-ip, trusted_proxies: ['127.0.0.1']}}";

/// The settings of a gateway with a connection for each address, and three in all.
fn text(upstream: &Echo, identity: &str, routes: &str) -> String {
    let address = upstream.address;
    format!(
        "rules: [rules.yaml]\n\
         listen: {{gateway: '127.0.0.1:0', admin: '127.0.0.1:0', grpc: null, http: null}}\n\
         limits: {{connections: 3, connections_per_address: 1}}\n\
         gateway:\n  domain: api\n  upstreams: {{api: {{addresses: ['{address}']}}}}\n  \
         identity: {identity}\n  routes: [{routes}]\n"
    )
}

/// A service with so many units that only connections are limited.
async fn start(text: &str) -> House {
    start_with(&RULES.replace("2/hour", "1000/hour"), text).await
}

/// The status of the first request of a new connection, which begins with `header`.
async fn open(house: &House, header: &str) -> (Client, u16) {
    let mut client = Client::to(house.gateway()).await;
    client.send(header.as_bytes()).await;
    let status = client.get("/").await.status;
    (client, status)
}

/// Only if each route says that the address is that of a proxy, every client is known by another.
#[tokio::test]
async fn connections_of_a_trusted_proxy_are_bounded_in_all_only() {
    let with_hops = "{client_address: {source: x-real-ip, trusted_hops: 1}}";
    let elsewhere = "{client_address: {source: x-real-ip, trusted_proxies: [10.0.0.0/8]}}";
    let proxied = "{client_address: {source: proxy-protocol, trusted_proxies: ['127.0.0.1']}}";
    let own = format!("{{match: {{paths: [/a]}}, identity: {TRUSTED}}}, {{}}");
    let both = format!("{{match: {{paths: [/a]}}, identity: {TRUSTED}}}, {{identity: {TRUSTED}}}");
    let header = "PROXY TCP4 192.0.2.1 10.0.0.1 4660 80\r\n";
    for (identity, routes, header, has_share) in [
        (TRUSTED, "", "", false),
        (PEER, both.as_str(), "", false),
        (PEER, own.as_str(), "", true),
        (PEER, "", "", true),
        (with_hops, "", "", true),
        (elsewhere, "", "", true),
        (proxied, "", header, true),
        (proxied, both.as_str(), header, true),
    ] {
        let upstream = Echo::start().await;
        let house = start(&text(&upstream, identity, routes)).await;
        let mut clients = Vec::new();
        let mut statuses = Vec::new();
        for _ in 0..4 {
            let (client, status) = open(&house, header).await;
            clients.push(client);
            statuses.push(status);
        }
        let expected = match has_share {
            true => [200, 503, 503, 503],
            false => [200, 200, 200, 503],
        };
        assert_eq!(statuses, expected, "{identity} {routes}");
    }
}

/// Those that were open before stay counted as they were.
#[tokio::test]
async fn changed_settings_hold_for_connections_that_are_opened_from_then_on() {
    let upstream = Echo::start().await;
    let house = start(&text(&upstream, TRUSTED, "")).await;
    let (_of_proxy, status) = open(&house, "").await;
    assert_eq!(status, 200);
    replace(&house.path("tollgate.yaml"), &text(&upstream, PEER, ""));
    assert_eq!(house.running.reload().await, Outcome::InEffect);
    let (_of_client, status) = open(&house, "").await;
    assert_eq!(status, 200);
    assert_eq!(open(&house, "").await.1, 503);
    replace(&house.path("tollgate.yaml"), &text(&upstream, TRUSTED, ""));
    assert_eq!(house.running.reload().await, Outcome::InEffect);
    assert_eq!(open(&house, "").await.1, 200);
}
