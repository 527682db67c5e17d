//! The gateway as its clients and upstreams see it.

mod access_log;
mod attacks;
mod bodies;
mod cancelled;
mod changed_files;
mod cors;
mod cost;
mod count_when;
mod dashboard;
mod encrypted;
mod floods;
mod framing;
mod going;
mod headroom;
mod health_checks;
mod held;
mod http2;
mod in_flight;
mod least_loaded;
mod limits;
mod lists;
mod priority;
mod proxy_protocol;
mod reload;
mod resets;
mod retries;
mod secure_upstreams;
mod settings;
mod shared_connection;
mod spellings;
mod structured_fields;
mod tokens;
mod tracing;
mod trusted_proxies;
mod tunnels;
mod two_instances;
mod unix_clients;
mod upgrades;
mod upstream;
mod websocket;

use std::net::SocketAddr;
use std::path::Path;

use tollgate_rules::Source;
use tollgate_server::{Config, GatewaySettings, Listen, ListenerKind};

use crate::house::House;
use crate::http_client::Client;

/// Each address may send two requests an hour; everything else may go on.
pub(crate) const RULES: &str = "
domain: api
descriptors:
  - {key: remote_address, rate_limit: 2/hour}
  - {key: anything, rate_limit: 1000000/hour}
  - key: queue
    rate_limit: {requests_per_unit: 10, unit: second, algorithm: leaky_bucket, queue: 3}
";

/// A gateway whose requests nothing limits.
pub(crate) const FREE: &str =
    "identity: {descriptors: [{entries: [{key: anything, from: {constant: a}}]}]}";

/// The section `gateway` in front of one upstream, with more keys.
pub(crate) fn section(upstream: SocketAddr, more: &str) -> GatewaySettings {
    section_of(&format!("{{addresses: ['{upstream}']}}"), more)
}

/// The same with the settings of the upstream.
fn section_of(upstream: &str, more: &str) -> GatewaySettings {
    let text =
        format!("rules: r\ngateway: {{domain: api, upstreams: {{api: {upstream}}}, {more}}}\n");
    let config = Config::parse(&Source::new("tollgate.yaml", text), Path::new("."));
    config
        .unwrap_or_else(|error| panic!("{error}"))
        .gateway
        .unwrap()
}

/// The units that the first limit of a descriptor with these members has left.
async fn remaining(house: &House, descriptor: &str) -> u64 {
    let body = format!(r#"{{"domain": "api", "descriptors": [{{{descriptor}}}], "peek": true}}"#);
    let mut client = Client::to(house.http()).await;
    let reply = client.post("/v1/check", &body).await;
    reply.json()["limits"][0]["remaining"].as_u64().unwrap()
}

/// A service with a gateway in front of an upstream, with more keys of the section.
async fn gateway(upstream: SocketAddr, more: &str) -> House {
    gateway_with(RULES, section(upstream, more), |_| ()).await
}

pub(crate) async fn gateway_with(
    rules: &str,
    settings: GatewaySettings,
    change: impl FnOnce(&mut Config),
) -> House {
    House::with(rules, |config| {
        add_gateway(config, settings);
        change(config);
    })
    .await
}

/// Adds a gateway to a service.
pub(crate) fn add_gateway(config: &mut Config, settings: GatewaySettings) {
    config.gateway = Some(settings);
    config.listen.push(Listen {
        kind: ListenerKind::Gateway,
        address: "127.0.0.1:0".parse().unwrap(),
        tls: None,
    });
}
