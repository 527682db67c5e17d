//! Limits with more while upstreams have headroom, over a real gateway in front of a real server
//! that becomes slow, fails, and recovers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tollgate_core::Span;
use tollgate_memory::ManualClock;
use tollgate_server::{GatewaySettings, HeadroomConfig, LoadSettings};

use super::upstream::answer_all;
use super::{gateway_with, section};
use crate::house::{House, replace};
use crate::http_client::Client;

const RULES: &str = "
domain: api
descriptors:
  - key: user
    value: ann
    rate_limit: {requests_per_unit: 4, unit: day, elastic: {share: 50%, while: [upstream]}}
  - {key: user, rate_limit: 1000000/day}
";
const BY_USER: &str =
    "identity: {descriptors: [{entries: [{key: user, from: {header: x-user}, if_missing: skip}]}]}";

/// How a server answers.
#[derive(Clone, Debug, Default)]
struct Manner {
    /// How long it takes, by the clock of the gateway.
    takes: Span,
    status: StatusCode,
    clock: Option<Arc<ManualClock>>,
}

/// A server that lets time pass before it answers.
struct Server {
    address: SocketAddr,
    manner: Arc<Mutex<Manner>>,
    _task: JoinSet<()>,
}

impl Server {
    async fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let manner: Arc<Mutex<Manner>> = Arc::default();
        let shared = Arc::clone(&manner);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    let answer = |_: &http::Request<_>| {
                        let manner = shared.lock().unwrap().clone();
                        if let Some(clock) = manner.clock {
                            clock.advance(manner.takes);
                        }
                        let mut response = Response::default();
                        *response.status_mut() = manner.status;
                        response
                    };
                    answer_all(stream, false, answer).await;
                });
            }
        });
        Server {
            address,
            manner,
            _task: task,
        }
    }

    fn answer(&self, millis: u64, status: StatusCode) {
        let mut manner = self.manner.lock().unwrap();
        manner.takes = Span::from_millis(millis);
        manner.status = status;
    }
}

async fn start(server: &Server, settings: GatewaySettings) -> House {
    let house = gateway_with(RULES, settings, |config| {
        config.headroom = HeadroomConfig {
            interval: Span::from_millis(1),
            hold: Span::ZERO,
            upstream: LoadSettings {
                window: Span::SECOND,
                samples: 5,
                ..LoadSettings::default()
            },
            ..HeadroomConfig::default()
        };
    })
    .await;
    server.manner.lock().unwrap().clock = Some(Arc::clone(&house.clock));
    house
}

/// The status of a request of a user through the gateway.
async fn ask(client: &mut Client, user: &str) -> u16 {
    let request = format!("GET / HTTP/1.1\r\nhost: h\r\nx-user: {user}\r\n\r\n");
    client.send(request.as_bytes()).await;
    client.reply().await.unwrap().status
}

/// How many of ten requests of the limited user are not denied.
async fn spend(house: &House) -> usize {
    let mut client = Client::to(house.gateway()).await;
    let mut allowed = 0;
    for _ in 0..10 {
        allowed += usize::from(ask(&mut client, "ann").await != 429);
    }
    allowed
}

async fn metrics(house: &House) -> String {
    Client::to(house.admin()).await.get("/metrics").await.body
}

/// Sends requests of another user until the metrics have this line.
async fn pass_until(house: &House, line: &str) {
    let mut client = Client::to(house.gateway()).await;
    while !metrics(house).await.lines().any(|found| found == line) {
        ask(&mut client, "bob").await;
    }
}

async fn pass_until_headroom(house: &House, value: u32) {
    let name = "tollgate_headroom{source=\"upstream\",domain=\"api\"}";
    pass_until(house, &format!("{name} {value}")).await;
}

async fn explain(house: &House) -> Value {
    let path = "/v1/explain?domain=api&descriptor=user%3Dann";
    let reply = Client::to(house.admin()).await.get(path).await.json();
    reply["descriptors"][0]["rule"].clone()
}

#[tokio::test]
async fn more_is_allowed_while_the_upstream_is_as_fast_as_usual() {
    let server = Server::start().await;
    server.answer(10, StatusCode::OK);
    let house = start(&server, section(server.address, BY_USER)).await;
    let usual = "tollgate_gateway_upstream_load_seconds{upstream=\"api\",figure=\"baseline\"}";
    pass_until_headroom(&house, 1).await;
    while !metrics(&house).await.contains(usual) {
        ask(&mut Client::to(house.gateway()).await, "bob").await;
    }

    // Slow.
    server.answer(50, StatusCode::OK);
    pass_until_headroom(&house, 0).await;
    let text = metrics(&house).await;
    assert!(
        text.contains("tollgate_gateway_upstream_headroom{upstream=\"api\"} 0\n"),
        "{text}"
    );
    server.answer(0, StatusCode::OK);
    assert_eq!(spend(&house).await, 4);
    let rule = explain(&house).await;
    assert_eq!(
        rule["headroomSources"],
        json!({"upstream": false}),
        "{rule}"
    );

    // As usual again. What was used stays used, and other listeners see the same headroom.
    server.answer(10, StatusCode::OK);
    pass_until_headroom(&house, 1).await;
    let rule = explain(&house).await;
    assert_eq!(rule["headroomSources"], json!({"upstream": true}), "{rule}");
    let body = json!({"domain": "api", "descriptors": [{"user": "ann"}]}).to_string();
    let mut http = Client::to(house.http()).await;
    assert_eq!(http.post("/v1/check", &body).await.status, 200);
    server.answer(0, StatusCode::OK);
    assert_eq!(spend(&house).await, 1);
    house.running.stop().await;
}

#[tokio::test]
async fn errors_of_the_upstream_end_headroom_and_those_of_clients_do_not() {
    let server = Server::start().await;
    server.answer(5, StatusCode::NOT_FOUND);
    let house = start(&server, section(server.address, BY_USER)).await;
    let errors = |figure: &str, share: &str| {
        let name = "tollgate_gateway_upstream_load_errors";
        format!("{name}{{upstream=\"api\",figure=\"{figure}\"}} {share}")
    };
    pass_until(&house, &errors("recent", "0.0")).await;
    pass_until_headroom(&house, 1).await;
    server.answer(5, StatusCode::SERVICE_UNAVAILABLE);
    pass_until_headroom(&house, 0).await;
    server.answer(0, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(spend(&house).await, 4);
    house.running.stop().await;
}

#[tokio::test]
async fn a_server_that_is_gone_ends_headroom() {
    let server = Server::start().await;
    let house = start(&server, section(server.address, BY_USER)).await;
    pass_until_headroom(&house, 1).await;
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let gone = start(&server, section(address, BY_USER)).await;
    let mut client = Client::to(gone.gateway()).await;
    let line = "tollgate_gateway_upstream_headroom{upstream=\"api\"} 0";
    loop {
        gone.clock.advance(Span::from_millis(5));
        for _ in 0..6 {
            assert_eq!(ask(&mut client, "bob").await, 502);
        }
        gone.clock.advance(Span::from_millis(5));
        if metrics(&gone).await.lines().any(|found| found == line) {
            break;
        }
    }
}

#[tokio::test]
async fn nothing_is_measured_while_no_limit_depends_on_it() {
    let server = Server::start().await;
    let house = start(&server, section(server.address, BY_USER)).await;
    pass_until_headroom(&house, 1).await;
    let rules = RULES.replace("[upstream]", "[reported]");
    replace(&house.path("rules.yaml"), &rules);
    house.running.reload().await;
    while metrics(&house).await.contains("gateway_upstream_headroom{") {
        tokio::task::yield_now().await;
    }
    replace(&house.path("rules.yaml"), RULES);
    house.running.reload().await;
    pass_until_headroom(&house, 1).await;
    house.running.stop().await;
}

#[tokio::test]
async fn all_upstreams_of_a_domain_need_headroom_and_those_of_others_do_not_count() {
    let (good, bad) = (Server::start().await, Server::start().await);
    good.answer(1, StatusCode::OK);
    bad.answer(1, StatusCode::BAD_GATEWAY);
    let both = |domain: &str| {
        let text = format!(
            "rules: r\ngateway:\n  domain: api\n  upstreams: {{good: {{addresses: ['{}']}}, \
             bad: {{addresses: ['{}']}}}}\n  {BY_USER}\n  routes:\n  - {{match: {{paths: \
             [/bad]}}, upstream: bad, domain: {domain}}}\n  - {{upstream: good}}\n",
            good.address, bad.address
        );
        let source = tollgate_rules::Source::new("tollgate.yaml", text);
        let config = tollgate_server::Config::parse(&source, std::path::Path::new("."));
        config.unwrap().gateway.unwrap()
    };
    for (domain, has_headroom) in [("api", 0), ("other", 1)] {
        let house = start(&good, both(domain)).await;
        bad.manner.lock().unwrap().clock = Some(Arc::clone(&house.clock));
        pass_until_headroom(&house, 1).await;
        let mut client = Client::to(house.gateway()).await;
        for _ in 0..100 {
            let request = "GET /bad HTTP/1.1\r\nhost: h\r\nx-user: bob\r\n\r\n";
            client.send(request.as_bytes()).await;
            assert_eq!(client.reply().await.unwrap().status, 502);
        }
        pass_until_headroom(&house, has_headroom).await;
        // What no limit depends on is not measured.
        let bad = "tollgate_gateway_upstream_headroom{upstream=\"bad\"}";
        assert_eq!(metrics(&house).await.contains(bad), domain == "api");
        house.running.stop().await;
    }
}
