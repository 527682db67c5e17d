//! Two gateways over one Redis: under the load of `h2load`, and with clients of gRPC and of
//! WebSockets.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use tokio::net::TcpStream;
use tokio::task::{JoinSet, spawn_blocking};
use tokio_tungstenite::tungstenite::{Error, Message};
use tollgate_server::{Config, GatewaySettings};
use tollgate_testbed::Redis;

use super::upstream::Echo;
use super::{FREE, gateway_with, section, section_of, websocket};
use crate::grpc_client;
use crate::house::House;
use crate::over_redis::at;

const COUNT: usize = 1000;
/// How many requests each of the two gateways gets: fewer than the limit, but more than half of it.
const REQUESTS: usize = 800;

const _: () = assert!(REQUESTS < COUNT && 2 * REQUESTS > COUNT);

/// How many calls or handshakes are allowed, and how many clients begin, half of them at each
/// gateway.
const ALLOWED: usize = 30;
const CLIENTS: usize = 50;

const _: () = assert!(CLIENTS / 2 < ALLOWED && CLIENTS > ALLOWED);

/// The protocol of a load.
#[derive(Clone, Copy, Debug)]
enum Version {
    Http1,
    Http2,
}

/// How many of `REQUESTS` requests `h2load` saw allowed; all others must be denied.
fn count_allowed(gateway: SocketAddr, version: Version) -> usize {
    let mut command = Command::new("h2load");
    command.args(["-t", "1", "-c", "8", "-n", &REQUESTS.to_string()]);
    match version {
        Version::Http1 => command.arg("--h1"),
        Version::Http2 => command.args(["-m", "10"]),
    };
    let command = command.arg(format!("http://{gateway}/"));
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.expect("h2load is installed: apt-get install nghttp2-client");
    let text = String::from_utf8(output.stdout).unwrap();
    let statuses = text
        .lines()
        .find_map(|line| line.strip_prefix("status codes: "))
        .unwrap_or_else(|| panic!("h2load printed no statuses: {text}"));
    let count = |class: &str| -> usize {
        let counts = statuses.split(", ");
        let count = counts
            .filter_map(|count| count.split_once(' '))
            .find(|(_, name)| *name == class);
        count.unwrap().0.parse().unwrap()
    };
    let [allowed, denied] = ["2xx", "4xx"].map(count);
    assert_eq!(allowed + denied, REQUESTS, "{text}");
    allowed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_over_one_redis_allow_exactly_one_limit() {
    let redis = Redis::start();
    let upstream = Echo::start().await;
    // A day that begins with the first request, not at midnight.
    let rules = format!(
        "domain: api\ndescriptors:\n- key: remote_address\n  rate_limit: {{window: 1d, \
         requests_per_unit: {COUNT}, algorithm: fixed_window, anchor: first_request}}\n"
    );
    let change = |config: &mut Config| config.store = at(&redis);
    let one = gateway_with(&rules, section(upstream.address, ""), change).await;
    let other = gateway_with(&rules, section(upstream.address, ""), change).await;
    let [one, other] = [one.gateway(), other.gateway()];
    let (by_http1, by_http2) = tokio::join!(
        spawn_blocking(move || count_allowed(one, Version::Http1)),
        spawn_blocking(move || count_allowed(other, Version::Http2)),
    );
    let allowed = [by_http1.unwrap(), by_http2.unwrap()];
    assert_eq!(allowed.iter().sum::<usize>(), COUNT, "{allowed:?}");
    // What the clients saw is what the upstream got.
    assert_eq!(upstream.requests().len(), COUNT);
}

/// Two gateways over one Redis, which allow so many requests in all.
async fn start(redis: &Redis, count: usize, settings: &GatewaySettings) -> [House; 2] {
    let rules = format!(
        "domain: api\ndescriptors:\n- key: anything\n  rate_limit: {{window: 1d, \
         requests_per_unit: {count}, algorithm: fixed_window, anchor: first_request}}\n"
    );
    let change = |config: &mut Config| config.store = at(redis);
    [
        gateway_with(&rules, settings.clone(), change).await,
        gateway_with(&rules, settings.clone(), change).await,
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_grpc_at_two_gateways_share_one_limit_exactly() {
    let redis = Redis::start();
    // Another Tollgate is the service of gRPC.
    let rules = "domain: d\ndescriptors: [{key: k, rate_limit: 1000000/day}]\n";
    let service = House::on(rules).await;
    let upstream = format!("{{addresses: ['{}'], protocol: h2c}}", service.grpc());
    let houses = start(&redis, ALLOWED, &section_of(&upstream, FREE)).await;
    let mut calls = JoinSet::new();
    for house in &houses {
        let client = grpc_client::Client::to(house.gateway()).await;
        for _ in 0..CLIENTS / 2 {
            let client = client.clone();
            calls.spawn(async move {
                let ask = r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}"#;
                client.ask(ask).await.map(drop)
            });
        }
    }
    let (allowed, denied): (Vec<_>, Vec<_>) =
        calls.join_all().await.into_iter().partition(Result::is_ok);
    assert_eq!(allowed.len(), ALLOWED);
    for denied in denied {
        let status = denied.unwrap_err();
        assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn websockets_at_two_gateways_share_one_limit_exactly() {
    let redis = Redis::start();
    let upstream = websocket::Echo::start().await;
    let settings = section(upstream.address, websocket::SOCKETS);
    let houses = start(&redis, ALLOWED, &settings).await;
    let mut clients = JoinSet::new();
    for house in &houses {
        let address = house.gateway();
        for number in 0..CLIENTS / 2 {
            clients.spawn(async move {
                let stream = TcpStream::connect(address).await.unwrap();
                let (mut socket, _) = websocket::open(stream).await?;
                // What is sent through the tunnel costs nothing more.
                for round in 0..3 {
                    let text = format!("{number} {round}");
                    let echoed = websocket::exchange(&mut socket, &text).await;
                    assert_eq!(echoed, Message::text(text));
                }
                Ok::<_, Error>(socket)
            });
        }
    }
    let (open, denied): (Vec<_>, Vec<_>) = clients
        .join_all()
        .await
        .into_iter()
        .partition(Result::is_ok);
    // All of them are open at once.
    assert_eq!(open.len(), ALLOWED);
    for denied in denied {
        match denied.unwrap_err() {
            Error::Http(response) => assert_eq!(response.status(), 429),
            error => panic!("{error}"),
        }
    }
}
