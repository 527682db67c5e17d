//! Requests that a leaky bucket holds, and that reach no upstream.

use tokio::net::TcpStream;
use tokio::task::yield_now;
use tollgate_core::Span;

use super::upstream::Echo;
use super::{RULES, gateway_with, remaining, section};
use crate::eventually::eventually;
use crate::http_client::Client;

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
