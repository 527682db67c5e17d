//! Requests that a leaky bucket holds: in which order they go on, and that one without an upstream
//! costs nothing.

use std::fs;

use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::task::yield_now;
use tollgate_core::Span;
use tollgate_memory::SystemClock;
use tollgate_server::{Config, Place};
use tollgate_testbed::Redis;

use super::limits::count_decisions;
use super::upstream::Echo;
use super::{FREE, RULES, add_gateway, gateway_with, remaining, section};
use crate::eventually::eventually;
use crate::house::House;
use crate::http_client::Client;
use crate::over_redis::at;

/// More turns than the other tasks need to notice what has closed.
const TURNS: usize = 1_000;
const BOTH: &str = "identity: {descriptors: [{entries: [{key: queue, from: {constant: a}}]}, \
    {entries: [{key: anything, from: {constant: a}}]}]}";

/// A connection waited for it when it was decided.
#[tokio::test]
async fn a_request_whose_upstream_goes_away_while_it_is_held_costs_nothing() {
    let upstream = Echo::start().await;
    let house = gateway_with(RULES, section(upstream.address, BOTH), |_| ()).await;
    let address = house.gateway();
    assert_eq!(Client::to(address).await.get("/1").await.status, 200);
    let window = r#""anything": "a""#;
    let before = remaining(&house, window).await;
    let held = tokio::spawn(async move { Client::to(address).await.get("/2").await });
    eventually(async || remaining(&house, window).await != before).await;
    let server = upstream.address;
    drop(upstream);
    eventually(async || TcpStream::connect(server).await.is_err()).await;
    for _ in 0..TURNS {
        yield_now().await;
    }
    house.clock.advance(Span::SECOND);
    assert_eq!(held.await.unwrap().status, 502);
    assert_eq!(remaining(&house, window).await, before);
}

/// A service in real time, whose leaky bucket has turns 200 ms apart.
async fn start_in_real_time(queue: usize, change: impl FnOnce(&mut Config)) -> House<SystemClock> {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("rules.yaml");
    let rules = format!(
        "{{domain: api, descriptors: [{{key: queue, rate_limit: {{requests_per_unit: 5, unit: \
         second, algorithm: leaky_bucket, queue: {queue}}}}}]}}"
    );
    fs::write(&path, rules).unwrap();
    let started = House::start(directory, path, SystemClock::new(), change).await;
    started.unwrap()
}

/// In real time, because that of Redis cannot be stopped.
#[tokio::test]
async fn held_requests_are_forwarded_in_order_of_arrival_whatever_the_store() {
    /// How many requests are allowed at once, and how many come.
    const QUEUE: usize = 5;
    const ALL: u64 = 8;
    let redis = Redis::start();
    for place in [Place::Memory, at(&redis)] {
        let upstream = Echo::start().await;
        let queue = FREE.replace("anything", "queue");
        let settings = section(upstream.address, &queue);
        let house = start_in_real_time(QUEUE, |config| {
            add_gateway(config, settings);
            config.store = place;
        })
        .await;
        let mut clients = Vec::new();
        for number in 1..=ALL {
            let mut client = Client::to(house.gateway()).await;
            let target = format!("/{number}");
            let request = format!("GET {target} HTTP/1.1\r\nhost: h\r\n\r\n");
            client.send(request.as_bytes()).await;
            // The next one comes after it.
            let decided = async || {
                let allowed = count_decisions(house.admin(), "allowed").await;
                allowed + count_decisions(house.admin(), "denied").await >= number
            };
            eventually(decided).await;
            clients.push((client, target));
        }
        let (mut allowed, mut held) = (Vec::new(), 0);
        for (mut client, target) in clients {
            let reply = client.reply().await.unwrap();
            if reply.status != 200 {
                reply.problem(429);
                continue;
            }
            held += usize::from(reply.header("x-tollgate-delay-ms").is_some());
            allowed.push(target);
        }
        // On a slow machine, turns have come meanwhile.
        assert!(allowed.len() >= QUEUE && held > 1, "{held} {allowed:?}");
        let requests = upstream.requests().into_iter();
        let targets: Vec<_> = requests.map(|seen| seen.target).collect();
        assert_eq!(targets, allowed);
    }
}
