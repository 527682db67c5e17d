//! Addresses whose health the gateway checks.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate_server::GatewaySettings;

use super::upstream::{Stage, answer_all};
use super::{FREE, RULES, gateway_with, section_of};
use crate::eventually::eventually;
use crate::house::House;
use crate::http_client::Client;

/// Longer than any test takes.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A server that answers checks with a status that can be changed, and everything else with 200 and
/// its own address.
struct Server {
    address: SocketAddr,
    status: Arc<AtomicU16>,
    /// The head of the last check.
    checked: Arc<Mutex<Option<(String, HeaderMap)>>>,
    _tasks: JoinSet<()>,
}

// === impl Server ===

impl Server {
    async fn start(is_http2: bool) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let status = Arc::new(AtomicU16::new(200));
        let checked: Arc<Mutex<Option<(String, HeaderMap)>>> = Arc::default();
        let mut tasks = JoinSet::new();
        let (current, last) = (Arc::clone(&status), Arc::clone(&checked));
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (current, last) = (Arc::clone(&current), Arc::clone(&last));
                connections.spawn(answer_all(stream, is_http2, move |request| {
                    answer(address, request, &current, &last)
                }));
            }
        });
        Server {
            address,
            status,
            checked,
            _tasks: tasks,
        }
    }

    fn set(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }
}

fn answer(
    address: SocketAddr,
    request: &Request<Incoming>,
    status: &AtomicU16,
    last: &Mutex<Option<(String, HeaderMap)>>,
) -> Response<Full<Bytes>> {
    if request.uri().path() != "/healthz" {
        return Response::new(Full::new(address.to_string().into()));
    }
    let host = request.uri().authority().map(ToString::to_string);
    let host = host.unwrap_or_default();
    *last.lock().unwrap() = Some((host, request.headers().clone()));
    let mut response = Response::new(Full::default());
    let status = StatusCode::from_u16(status.load(Ordering::Relaxed));
    *response.status_mut() = status.unwrap();
    response
}

/// The section for these servers, whose checks come often.
fn section(addresses: &[SocketAddr], more: &str) -> GatewaySettings {
    let addresses: Vec<String> = addresses.iter().map(|one| format!("'{one}'")).collect();
    let upstream = format!(
        "{{addresses: [{}], {more} health_check: {{path: /healthz, interval: 10ms, healthy: 1, \
         unhealthy: 1}}}}",
        addresses.join(", ")
    );
    section_of(&upstream, FREE)
}

/// The line of metrics that says whether requests go to an address.
fn healthy(address: SocketAddr, value: u8) -> String {
    let labels = format!("{{upstream=\"api\",address=\"{address}\"}}");
    format!("tollgate_gateway_upstream_healthy{labels} {value}\n")
}

/// Asks until an answer is as expected.
async fn ask_until(house: &House, is_expected: impl Fn(u16, &str) -> bool) {
    let asking = async {
        let mut client = Client::to(house.gateway()).await;
        loop {
            let reply = client.get("/").await;
            if is_expected(reply.status, &reply.body) {
                return;
            }
        }
    };
    timeout(TIMEOUT, asking).await.unwrap();
}

/// Waits until the metrics say so.
async fn wait_for(house: &House, line: &str) {
    wait_until(house, |metrics| metrics.contains(line)).await;
}

/// Waits until an address has passed a check.
async fn wait_for_check(house: &House, address: SocketAddr) {
    let labels = format!("{{upstream=\"api\",address=\"{address}\",outcome=\"passed\"}}");
    let none = format!("tollgate_gateway_health_checks_total{labels} 0\n");
    wait_until(house, |metrics| !metrics.contains(&none)).await;
}

async fn wait_until(house: &House, is_expected: impl Fn(&str) -> bool) {
    let mut client = Client::to(house.admin()).await;
    eventually(async || is_expected(&client.get("/metrics").await.body)).await;
}

#[tokio::test]
async fn an_address_that_fails_its_checks_gets_no_requests_until_it_passes_again() {
    let (first, second) = (Server::start(false).await, Server::start(false).await);
    let settings = section(&[first.address, second.address], "");
    let house = gateway_with(RULES, settings, |_| ()).await;
    first.set(503);
    wait_for(&house, &healthy(first.address, 0)).await;
    let mut client = Client::to(house.gateway()).await;
    for _ in 0..20 {
        let reply = client.get("/").await;
        assert_eq!(
            (reply.status, reply.body),
            (200, second.address.to_string())
        );
    }
    // It answers: only the checks say that it is not to be used.
    first.set(204);
    ask_until(&house, |_, body| body == first.address.to_string()).await;
    wait_for(&house, &healthy(first.address, 1)).await;
    second.set(404);
    wait_for(&house, &healthy(second.address, 0)).await;
    for _ in 0..20 {
        assert_eq!(client.get("/").await.body, first.address.to_string());
    }
    let (_, head) = first.checked.lock().unwrap().clone().unwrap();
    assert_eq!(head["host"], first.address.to_string());
    let agent = concat!("tollgate/", env!("CARGO_PKG_VERSION"), " health check");
    assert_eq!(head["user-agent"], agent);
    assert_eq!(head.len(), 2, "{head:?}");
}

#[tokio::test]
async fn without_a_healthy_address_requests_are_answered_with_503_and_cost_nothing() {
    let server = Server::start(false).await;
    let mut settings = section(&[server.address], "");
    // Two requests an hour.
    settings.identity = GatewaySettings::default().identity;
    let house = gateway_with(RULES, settings, |_| ()).await;
    let mut client = Client::to(house.gateway()).await;
    // Its connection waits for the next request from now on.
    assert_eq!(client.get("/").await.status, 200);
    server.set(500);
    wait_for(&house, &healthy(server.address, 0)).await;
    for _ in 0..5 {
        let detail = client.get("/").await.problem(503);
        let expected = "no server behind the gateway passes its health checks; retry later";
        assert_eq!(detail, expected);
    }
    server.set(200);
    wait_for(&house, &healthy(server.address, 1)).await;
    for expected in [200, 429] {
        assert_eq!(client.get("/").await.status, expected);
    }
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    for counted in [
        r#"gateway_requests_total{route="default",outcome="no_healthy_address"} 5"#,
        r#"gateway_upstream_errors_total{upstream="api",kind="no_healthy_address"} 5"#,
    ] {
        assert!(metrics.contains(counted), "{metrics}");
    }
}

#[tokio::test]
async fn servers_that_are_not_there_or_never_answer_are_found_out() {
    let good = Server::start(false).await;
    let (silent, away) = (Stage::open().await, Stage::open().await);
    let addresses = [silent.address(), away.address(), good.address];
    drop(away);
    let mut settings = section(&addresses, "");
    let check = settings
        .upstreams
        .get_mut("api")
        .unwrap()
        .health_check
        .as_mut();
    check.unwrap().timeout = tollgate_core::Span::from_millis(50);
    let house = gateway_with(RULES, settings, |_| ()).await;
    for address in &addresses[..2] {
        let line = healthy(*address, 0);
        wait_for(&house, &line).await;
    }
    let mut client = Client::to(house.gateway()).await;
    for _ in 0..20 {
        assert_eq!(client.get("/").await.body, good.address.to_string());
    }
}

#[tokio::test]
async fn servers_of_http_2_are_checked_in_their_protocol() {
    let server = Server::start(true).await;
    let mut settings = section(&[server.address], "protocol: h2c,");
    let check = settings
        .upstreams
        .get_mut("api")
        .unwrap()
        .health_check
        .as_mut();
    check.unwrap().host = Some("health.example".to_owned());
    let house = gateway_with(RULES, settings, |_| ()).await;
    wait_for_check(&house, server.address).await;
    let (host, _) = server.checked.lock().unwrap().clone().unwrap();
    assert_eq!(host, "health.example");
    server.set(503);
    ask_until(&house, |status, _| status == 503).await;
    server.set(200);
    ask_until(&house, |status, _| status == 200).await;
}

#[tokio::test]
async fn checks_end_with_the_service() {
    let server = Server::start(false).await;
    let settings = section(&[server.address], "");
    let house = gateway_with(RULES, settings, |_| ()).await;
    wait_for_check(&house, server.address).await;
    timeout(TIMEOUT, house.running.stop()).await.unwrap();
    drop(server);
    let tasks = tokio::runtime::Handle::current();
    let ended = async {
        while tasks.metrics().num_alive_tasks() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(TIMEOUT, ended).await.unwrap();
}
