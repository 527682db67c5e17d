//! Files that the settings name, and that change while the gateway runs.

use std::fs;
use std::path::Path;

use tollgate_rules::Source;
use tollgate_server::Config;
use tollgate_testbed::Certificates;

use super::reload::{change, get, metric, start, start_with, text, to};
use super::secure_upstreams::Server;
use super::tokens::{ANN, BOB, KEYS};
use super::upstream::Echo;
use crate::house::{House, replace};
use crate::http_client::Client;

/// Another secret than that of [`KEYS`].
const OTHER_KEYS: &str =
    r#"{"keys": [{"kty": "oct", "k": "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE"}]}"#;

/// Replaces a file, and has everything read again.
async fn write(house: &House, name: &str, text: &str) {
    replace(&house.path(name), text);
    house.running.reload().await;
}

/// Whether so many reloads took effect.
async fn reloads(house: &House, count: u32) -> bool {
    let counter = format!("tollgate_gateway_reloads_total{{outcome=\"in_effect\"}} {count}");
    metric(house, &counter).await
}

/// Whether one failed. More may be counted: an error that is found while a file is replaced has
/// another text than the one that is found afterwards.
async fn has_failed(house: &House) -> bool {
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    metrics.contains("tollgate_gateway_reloads_total{outcome=\"failed\"}")
}

#[tokio::test]
async fn authorities_of_an_upstream_are_read_again() {
    let (issued, other) = (Certificates::new(), Certificates::new());
    let server = Server::plain(&issued.identity()).await;
    let authority = |of: &Certificates| fs::read_to_string(of.authority()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let ca = directory.path().join("ca.pem");
    replace(&ca, &authority(&other));
    let echo = Echo::start().await;
    let upstreams = format!(
        "  upstreams:\n    tls: {{addresses: ['{}'], tls: {{ca: '{}'}}}}\n    \
         plain: {{addresses: ['{}']}}\n  routes:\n  \
         - {{match: {{paths: [/plain]}}, upstream: plain}}\n  - {{upstream: tls}}\n",
        server.address,
        ca.display(),
        echo.address
    );
    let house = start(&upstreams).await;
    assert_eq!(
        (get(&house, "/").await, get(&house, "/plain").await),
        (502, 200)
    );

    replace(&ca, &authority(&issued));
    house.running.reload().await;
    assert_eq!(
        (get(&house, "/").await, get(&house, "/plain").await),
        (200, 200)
    );
    assert!(reloads(&house, 1).await);
    // The other upstream kept its connection.
    let connections = echo.connections.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(connections, 1);

    replace(&ca, "no certificate");
    house.running.reload().await;
    assert_eq!(get(&house, "/").await, 200);
    assert!(has_failed(&house).await);
    fs::remove_file(&ca).unwrap();
    house.running.reload().await;
    assert_eq!(get(&house, "/").await, 200);
    replace(&ca, &authority(&other));
    house.running.reload().await;
    assert_eq!(get(&house, "/").await, 502);
    assert!(reloads(&house, 2).await);
}

#[tokio::test]
async fn a_client_certificate_is_read_again_with_its_key() {
    let issued = Certificates::new();
    let server = Server::demanding(&issued).await;
    let (cert, key) = issued.issue("client");
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    // That of another authority, at first.
    let other = Certificates::new();
    let (wrong_cert, wrong_key) = other.issue("client");
    let put = |cert: &str, key: &str| {
        replace(&path("cert.pem"), &fs::read_to_string(cert).unwrap());
        replace(&path("key.pem"), &fs::read_to_string(key).unwrap());
    };
    put(&wrong_cert, &wrong_key);
    let house = start(&format!(
        "  upstreams: {{tls: {{addresses: ['{}'], tls: {{ca: '{}', cert: '{}', key: '{}'}}}}}}\n",
        server.address,
        issued.authority(),
        path("cert.pem").display(),
        path("key.pem").display()
    ))
    .await;
    assert_eq!(get(&house, "/").await, 502);
    // A certificate without its key, as between the two steps of a replacement.
    replace(&path("cert.pem"), &fs::read_to_string(&cert).unwrap());
    house.running.reload().await;
    assert!(has_failed(&house).await);
    put(&cert, &key);
    house.running.reload().await;
    assert_eq!(get(&house, "/").await, 200);
}

#[tokio::test]
async fn a_wrong_certificate_of_a_listener_keeps_no_settings_from_taking_effect() {
    let (issued, echo) = (Certificates::new(), Echo::start().await);
    let (cert, key) = issued.issue("http");
    let settings = |cert: &str, section: &str| {
        let tls = format!("tls: {{cert: '{cert}', key: '{key}'}}");
        let http = format!("http: {{address: '127.0.0.1:0', {tls}}}");
        text(&to(&echo, section)).replace("http: null", &http)
    };
    let house = start_with(super::RULES, &settings(&cert, "")).await;
    // Of another key, as between the writes of the two files.
    replace(
        Path::new(&cert),
        &fs::read_to_string(issued.authority()).unwrap(),
    );
    let only = "  routes: [{match: {paths: [/a]}}]\n";
    write(&house, "tollgate.yaml", &settings(&cert, only)).await;
    assert_eq!(
        (get(&house, "/").await, get(&house, "/a").await),
        (404, 200)
    );
    assert!(!has_failed(&house).await);
    assert!(metric(&house, "tollgate_settings_rejected 0").await);
    let rejected = r#"tollgate_certificate_rejected{listener="http"} 1"#;
    assert!(metric(&house, rejected).await);
    // No listener has this one, which a restart would read.
    write(&house, "tollgate.yaml", &settings("/nowhere.pem", only)).await;
    assert!(has_failed(&house).await);
    assert!(metric(&house, "tollgate_settings_rejected 1").await);
}

/// The status of a request with this token.
async fn status(house: &House, token: &str) -> u16 {
    let mut client = Client::to(house.gateway()).await;
    let head = format!("GET / HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {token}\r\n\r\n");
    client.send(head.as_bytes()).await;
    client.reply().await.unwrap().status
}

#[tokio::test]
async fn keys_of_tokens_are_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let keys = directory.path().join("keys.json");
    fs::write(&keys, OTHER_KEYS).unwrap();
    let echo = Echo::start().await;
    let identity = format!(
        "  routes: [{{identity: {{token: {{verify: {{keys_file: '{}'}}}}, descriptors: \
         [{{entries: [{{key: user, from: {{claim: sub}}, if_missing: deny}}]}}]}}}}]\n",
        keys.display()
    );
    let house = start(&to(&echo, &identity)).await;
    let denied = status(&house, ANN).await;
    assert_ne!(denied, 200);
    replace(&keys, KEYS);
    house.running.reload().await;
    assert_eq!(
        (status(&house, ANN).await, status(&house, BOB).await),
        (200, 200)
    );
    replace(&keys, "{\"keys\": []}");
    house.running.reload().await;
    assert_eq!(status(&house, ANN).await, 200);
    assert!(has_failed(&house).await);
    replace(&keys, OTHER_KEYS);
    house.running.reload().await;
    assert_eq!(status(&house, ANN).await, denied);
    // An error in the settings keeps no keys from taking effect, nor others from going.
    change(&house, "  upstreams: {}\n").await;
    replace(&keys, KEYS);
    house.running.reload().await;
    assert_eq!(status(&house, ANN).await, 200);
}

/// The status of a proxy's question about a request with this token.
async fn forward_auth_status(house: &House, token: &str) -> u16 {
    let mut client = Client::to(house.http()).await;
    let head = format!(
        "GET /v1/auth HTTP/1.1\r\nhost: h\r\nx-original-method: GET\r\nx-original-uri: /\r\n\
         x-real-ip: 192.0.2.1\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    client.send(head.as_bytes()).await;
    client.reply().await.unwrap().status
}

#[tokio::test]
async fn keys_of_tokens_for_forward_auth_are_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let keys = directory.path().join("keys.json");
    fs::write(&keys, OTHER_KEYS).unwrap();
    let text = format!(
        "rules: r\nauth: {{domain: api, source: x-original-uri, identity: {{client_address: \
         {{source: x-real-ip}}, token: {{verify: {{keys_file: '{}'}}}}, descriptors: [{{entries: \
         [{{key: user, from: {{claim: sub}}, if_missing: deny}}]}}]}}}}\n",
        keys.display()
    );
    let config = Config::parse(&Source::new("tollgate.yaml", text), Path::new("."));
    let house = House::with(super::RULES, |changed| changed.auth = config.unwrap().auth).await;
    assert_eq!(forward_auth_status(&house, ANN).await, 403);
    replace(&keys, KEYS);
    house.running.reload().await;
    assert_eq!(forward_auth_status(&house, ANN).await, 200);
    assert_eq!(forward_auth_status(&house, BOB).await, 200);
    // What cannot be used changes nothing.
    for invalid in ["{\"keys\": []}", "", "{"] {
        replace(&keys, invalid);
        house.running.reload().await;
        assert_eq!(forward_auth_status(&house, ANN).await, 200, "{invalid}");
    }
    fs::remove_file(&keys).unwrap();
    house.running.reload().await;
    assert_eq!(forward_auth_status(&house, ANN).await, 200);
    replace(&keys, OTHER_KEYS);
    house.running.reload().await;
    assert_eq!(forward_auth_status(&house, ANN).await, 403);
    // Without an order: the file is watched.
    replace(&keys, KEYS);
    while forward_auth_status(&house, ANN).await != 200 {
        tokio::task::yield_now().await;
    }
    house.running.stop().await;
}

#[tokio::test]
async fn an_invalid_list_keeps_nothing_else_from_taking_effect() {
    let echo = Echo::start().await;
    let directory = tempfile::tempdir().unwrap();
    let deny = directory.path().join("deny");
    fs::write(&deny, "192.0.2.1\n").unwrap();
    let lists = format!("  lists: {{deny: ['{}']}}\n", deny.display());
    let house = start(&to(&echo, &lists)).await;
    assert_eq!(get(&house, "/").await, 200);
    fs::write(&deny, "127.0.0.1\nexample.com\n").unwrap();
    let only = "  routes: [{match: {paths: [/a]}}]\n";
    change(&house, &to(&echo, &format!("{lists}{only}"))).await;
    assert_eq!(
        (get(&house, "/").await, get(&house, "/a").await),
        (404, 200)
    );
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    let failed = "tollgate_gateway_list_loads_total{outcome=\"failed\"}";
    assert!(metrics.contains(failed), "{metrics}");
    // A restart would fail, so the check of the settings still says so.
    let path = house.path("tollgate.yaml");
    let error = Config::read(&path).unwrap_err().to_string();
    assert!(error.contains("example.com"), "{error}");
    write(&house, "tollgate.yaml", &text(&to(&echo, &lists))).await;
    assert_eq!(get(&house, "/").await, 200);
}
