//! Settings of the gateway that change while it runs.

use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tempfile::TempDir;
use tokio::task::yield_now;
use tokio::time::timeout;
use tollgate_server::{Config, Outcome};

use super::RULES;
use super::upstream::{Echo, Stage};
use crate::house::{House, replace};
use crate::http_client::Client;

/// Longer than any test takes.
const TIMEOUT: Duration = Duration::from_secs(20);
const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: h\r\n\r\n";

/// A file of settings, with these keys of the gateway.
pub(super) fn text(section: &str) -> String {
    let free = "identity: {descriptors: [{entries: [{key: anything, from: {constant: a}}]}]}";
    format!(
        "rules: [rules.yaml]\n\
         listen: {{gateway: '127.0.0.1:0', admin: '127.0.0.1:0', grpc: null, http: null}}\n\
         gateway:\n  domain: api\n  {free}\n{section}"
    )
}

/// A service that reads its settings from a file.
pub(super) async fn start(section: &str) -> House {
    start_with(RULES, &text(section)).await
}

/// The same with whole files.
pub(super) async fn start_with(rules_text: &str, text: &str) -> House {
    let directory = TempDir::new().unwrap();
    let rules = directory.path().join("rules.yaml");
    fs::write(&rules, rules_text).unwrap();
    let settings = directory.path().join("tollgate.yaml");
    fs::write(&settings, text).unwrap();
    let read = Config::read(&settings).unwrap();
    House::at(directory, rules, |config| *config = read)
        .await
        .unwrap()
}

/// Changes the file, and has it read.
pub(super) async fn change(house: &House, section: &str) {
    replace(&house.path("tollgate.yaml"), &text(section));
    assert_eq!(house.running.reload().await, Outcome::InEffect);
}

pub(super) fn to(upstream: &Echo, more: &str) -> String {
    let address = upstream.address;
    format!("  upstreams: {{api: {{addresses: ['{address}']}}}}\n{more}")
}

pub(super) async fn get(house: &House, path: &str) -> u16 {
    Client::to(house.gateway()).await.get(path).await.status
}

pub(super) async fn metric(house: &House, line: &str) -> bool {
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    metrics.lines().any(|found| found == line)
}

#[tokio::test]
async fn routes_change_while_connections_to_upstreams_stay() {
    let (one, other) = (Echo::start().await, Echo::start().await);
    let only = "  routes: [{match: {paths: [/a]}}]\n";
    let house = start(&to(&one, only)).await;
    // A client's connection from before sees the new routes as well.
    let mut client = Client::to(house.gateway()).await;
    assert_eq!(client.get("/a").await.status, 200);
    assert_eq!(client.get("/b").await.status, 404);
    let upstreams = format!(
        "  upstreams:\n    api: {{addresses: ['{}']}}\n    b: {{addresses: ['{}']}}\n",
        one.address, other.address
    );
    let routes = "  routes:\n  - {match: {paths: [/a]}, upstream: api}\n  \
                  - {match: {paths: [/b]}, upstream: b}\n";
    change(&house, &format!("{upstreams}{routes}")).await;
    assert_eq!(client.get("/a").await.status, 200);
    assert_eq!(client.get("/b").await.status, 200);
    assert_eq!(other.requests().len(), 1);
    assert_eq!(one.connections.load(Ordering::Relaxed), 1);
    let applied = "tollgate_gateway_reloads_total{outcome=\"in_effect\"} 1";
    assert!(metric(&house, applied).await);
}

#[tokio::test]
async fn what_is_removed_has_no_series_any_more() {
    let upstream = Echo::start().await;
    let check = "health_check: {path: /, interval: 1h}";
    let upstreams = |name: &str, port: u16| {
        let address = upstream.address;
        format!(
            "  upstreams:\n    api: {{addresses: ['{address}', '127.0.0.1:{port}'], {check}}}\n    \
             {name}: {{addresses: ['{address}']}}\n  \
             routes: [{{name: {name}, upstream: {name}, \
             in_flight: [{{name: {name}, per: [anything], requests: 9}}]}}]\n"
        )
    };
    let house = start(&upstreams("former", 1)).await;
    assert_eq!(get(&house, "/").await, 200);
    let names = async || {
        let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
        let found = ["\"former\"", "\"latter\"", "127.0.0.1:1\"", "127.0.0.1:2\""];
        found.map(|name| metrics.contains(name))
    };
    assert_eq!(names().await, [true, false, true, false]);
    change(&house, &upstreams("latter", 2)).await;
    assert_eq!(names().await, [false, true, false, true]);
}

#[tokio::test]
async fn settings_that_cannot_be_used_change_nothing_and_are_counted_once() {
    let upstream = Echo::start().await;
    let house = start(&to(&upstream, "")).await;
    let failed = "tollgate_gateway_reloads_total{outcome=\"failed\"} ";
    for (count, wrong) in [
        to(&upstream, "  routes: [{upstream: nowhere}]\n"),
        "  upstreams: {}\n".to_owned(),
        "  upstreams: [\n".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        change(&house, wrong).await;
        assert_eq!(get(&house, "/").await, 200, "{wrong}");
        assert!(metric(&house, &format!("{failed}{}", count + 1)).await);
    }
    // Whole again, it is in effect as it was.
    change(&house, &to(&upstream, "")).await;
    assert!(metric(&house, &format!("{failed}3")).await);
    assert!(
        !metric(
            &house,
            "tollgate_gateway_reloads_total{outcome=\"in_effect\"} 1"
        )
        .await
    );
}

#[tokio::test]
async fn a_changed_file_is_noticed_without_an_order() {
    let upstream = Echo::start().await;
    let house = start(&to(&upstream, "")).await;
    let only = "  routes: [{match: {paths: [/a]}}]\n";
    replace(&house.path("tollgate.yaml"), &text(&to(&upstream, only)));
    let noticed = async {
        while get(&house, "/").await != 404 {
            yield_now().await;
        }
    };
    timeout(TIMEOUT, noticed).await.unwrap();
    assert_eq!(get(&house, "/a").await, 200);
}

/// The request keeps the upstream and the timeouts under which it came, and counts for a limit of
/// concurrency that stays, also if there is another limit before it.
#[tokio::test]
async fn a_request_in_flight_ends_under_the_former_settings_and_still_counts() {
    let stage = Stage::open().await;
    let other = Echo::start().await;
    let before = format!(
        "  upstreams: {{api: {{addresses: ['{}']}}}}\n",
        stage.address()
    );
    let house = start(&format!(
        "{before}  in_flight: [{{per: [anything], requests: 1, name: one}}]\n"
    ))
    .await;
    let mut waiting = Client::to(house.gateway()).await;
    waiting.send(GET).await;
    let mut actor = stage.accept().await;
    actor.head().await;
    let limits = "  in_flight:\n  - {per: [anything], requests: 9, name: new}\n  \
                  - {per: [anything], requests: 1, name: one}\n";
    change(&house, &to(&other, limits)).await;
    assert_eq!(get(&house, "/").await, 429);
    // A limit of another name counts from now on.
    let renamed = "  in_flight: [{per: [anything], requests: 1, name: other}]\n";
    change(&house, &to(&other, renamed)).await;
    assert_eq!(get(&house, "/").await, 200);
    change(&house, &to(&other, limits)).await;
    actor
        .send("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
        .await;
    assert_eq!(waiting.reply().await.unwrap().status, 202);
    let freed = async {
        while get(&house, "/").await != 200 {
            yield_now().await;
        }
    };
    timeout(TIMEOUT, freed).await.unwrap();
}
