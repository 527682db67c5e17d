//! Clients, or a proxy in front of the gateway, that come over a Unix socket.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;
use tokio::net::UnixStream;
use tollgate_listen::{Address, SocketPath};

use super::upstream::Echo;
use super::{RULES, gateway_with, section};
use crate::http_client::Client;

/// The statuses of requests that name these clients, the last of them in the log, and what the
/// upstream saw of the first one's way.
async fn ask(more: &str, clients: [&str; 4]) -> ([u16; 4], Vec<String>, Vec<String>) {
    let upstream = Echo::start().await;
    let directory = TempDir::new().unwrap();
    let (path, log) = (directory.path().join("s"), directory.path().join("log"));
    let more = format!("access_log: {{path: '{}'}}{more}", log.display());
    let house = gateway_with(RULES, section(upstream.address, &more), |config| {
        let gateway = config.listen.last_mut().unwrap();
        let (path, mode) = (path.clone(), 0o600);
        gateway.address = Address::Unix(SocketPath { path, mode });
    })
    .await;
    let mut statuses = [0; 4];
    for (client, status) in clients.into_iter().zip(&mut statuses) {
        let mut connection = Client(UnixStream::connect(&path).await.unwrap());
        let request = format!("GET / HTTP/1.1\r\nhost: h\r\nx-forwarded-for: {client}\r\n\r\n");
        connection.send(request.as_bytes()).await;
        *status = connection.reply().await.unwrap().status;
    }
    house.running.stop().await;
    let logged = fs::read_to_string(log).unwrap();
    let logged = logged.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["client"].as_str().unwrap().to_owned()
    });
    let seen = upstream.seen.lock().unwrap()[0].fields.clone();
    let is_address = |field: &String| field.contains("-for: ") || field.contains("-ip: ");
    let seen = seen.into_iter().filter(is_address).collect();
    (statuses, logged.collect(), seen)
}

/// They share a limit, because nothing tells them apart, and what they say is not believed.
#[tokio::test]
async fn clients_are_one_client_and_have_no_address() {
    let clients = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"];
    let (statuses, logged, seen) = ask("", clients).await;
    assert_eq!(statuses, [200, 200, 429, 429]);
    assert_eq!(logged, ["unix"; 4]);
    assert_eq!(seen, [""; 0]);
}

#[tokio::test]
async fn a_proxy_is_believed_where_the_settings_say_so() {
    let identity = ", identity: {client_address: {source: x-forwarded-for, \
        trusted_proxies: [unix]}, \
        descriptors: [{entries: [{key: remote_address, from: client_address}]}]}";
    let clients = ["192.0.2.1", "192.0.2.2", "9.9.9.9, 192.0.2.1", "192.0.2.1"];
    let (statuses, logged, seen) = ask(identity, clients).await;
    assert_eq!(statuses, [200, 200, 200, 429]);
    assert_eq!(logged, ["192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.1"]);
    let expected = ["x-forwarded-for: 192.0.2.1", "x-real-ip: 192.0.2.1"];
    assert_eq!(seen, expected);
    // Without `unix`, as from any other peer, it is not.
    let others = identity.replace("[unix]", "[127.0.0.1]");
    let (statuses, logged, seen) = ask(&others, clients).await;
    assert_eq!(statuses, [200, 200, 429, 429]);
    assert_eq!(logged, ["unix"; 4]);
    assert_eq!(seen, [""; 0]);
}
