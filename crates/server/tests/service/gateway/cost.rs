//! Requests whose cost is a number or bytes, known before or after them.

use std::net::SocketAddr;

use serde_json::json;
use tollgate_server::Place;
use tollgate_testbed::Redis;

use super::upstream::{Actor, Echo, Stage};
use super::{gateway_with, remaining, section, section_of};
use crate::eventually::eventually;
use crate::grpc_client;
use crate::house::House;
use crate::http_client::Client;
use crate::over_redis::at;

const RULES: &str = "domain: api\ndescriptors: [{key: k, rate_limit: 100000/hour}]\n";
const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: h\r\naccept-encoding: br\r\nrange: bytes=0-1\r\n\r\n";

/// A gateway whose requests have this cost.
async fn gateway_on(upstream: SocketAddr, cost: &str, place: Place) -> House {
    let descriptor = format!("{{entries: [{{key: k, from: {{constant: v}}}}], cost: {cost}}}");
    let identity = format!("identity: {{descriptors: [{descriptor}]}}");
    let settings = section(upstream, &identity);
    gateway_with(RULES, settings, |config| config.store = place).await
}

/// The units that were charged.
async fn used(house: &House) -> u64 {
    100_000 - remaining(house, r#""k": "v""#).await
}

async fn unsettled(house: &House, reason: &str) -> u64 {
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    let name = format!(r#"tollgate_gateway_unsettled_total{{route="default",reason="{reason}"}} "#);
    let count = metrics.lines().find_map(|line| line.strip_prefix(&*name));
    count.map_or(0, |count| count.parse().unwrap())
}

/// What the answers of upstreams begin with.
const OK: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\n";

/// A request that has reached the upstream, whose answer goes on with these bytes.
async fn begin(house: &House, stage: &Stage, answer: &str) -> (Client, Actor) {
    let mut client = Client::to(house.gateway()).await;
    client.send(GET).await;
    let mut upstream = stage.accept().await;
    upstream.head().await;
    upstream.send(&format!("{OK}{answer}")).await;
    (client, upstream)
}

#[tokio::test]
async fn a_cost_that_the_request_has_is_charged_at_once_and_refunded_as_a_whole_in_memory() {
    let redis = Redis::start();
    // Over Redis, a request that cannot be sent stays charged.
    for (place, lost) in [(Place::Memory, 0), (at(&redis), 250)] {
        let upstream = Echo::start().await;
        costs_of_requests(&upstream, &place).await;
        let cost = "{from: {header: x-cost}}";
        let house = gateway_on(upstream.address, cost, place.clone()).await;
        let before = used(&house).await;
        let huge = "GET / HTTP/1.1\r\nhost: h\r\nx-cost: 99999999999999999999999\r\n\r\n";
        let mut client = Client::to(house.gateway()).await;
        client.send(huge.as_bytes()).await;
        client.reply().await.unwrap().problem(429);
        assert_eq!(used(&house).await, before);
        let gone = Stage::open().await.address();
        let house = gateway_on(gone, "{from: {constant: 250}}", place).await;
        let before = used(&house).await;
        Client::to(house.gateway())
            .await
            .get("/")
            .await
            .problem(502);
        assert_eq!(used(&house).await, before + lost);
    }
}

/// Requests with costs of their own, each to a new gateway over the same store.
async fn costs_of_requests(upstream: &Echo, place: &Place) {
    let mut charged = 0;
    for (cost, headers, units) in [
        ("{from: {constant: 250}}", "", 250),
        (
            "{from: {header: x-cost}, estimate: 7}",
            "x-cost: 40\r\n",
            40,
        ),
        ("{from: {header: x-cost}, estimate: 7}", "", 7),
        (
            "{from: {header: x-cost}, estimate: 7}",
            "x-cost: -40\r\n",
            7,
        ),
        (
            "{from: {header: x-cost}, estimate: 7}",
            "x-cost: 1\r\nx-cost: 1\r\n",
            7,
        ),
    ] {
        let house = gateway_on(upstream.address, cost, place.clone()).await;
        let mut client = Client::to(house.gateway()).await;
        let request = format!("GET / HTTP/1.1\r\nhost: h\r\n{headers}\r\n");
        client.send(request.as_bytes()).await;
        assert_eq!(client.reply().await.unwrap().status, 200);
        // In Redis, what the gateways before have charged stays.
        charged = match place {
            Place::Memory => units,
            Place::Shared(_) => charged + units,
        };
        assert_eq!(used(&house).await, charged, "{cost} {headers}");
    }
}

#[tokio::test]
async fn bytes_of_requests_are_counted_whatever_their_length_is_said_to_be() {
    let redis = Redis::start();
    for place in [Place::Memory, at(&redis)] {
        let upstream = Echo::start().await;
        let cost = "{from: request_bytes, estimate: 500}";
        let house = gateway_on(upstream.address, cost, place).await;
        let mut client = Client::to(house.gateway()).await;
        assert_eq!(client.post("/", &"x".repeat(3_000)).await.status, 200);
        eventually(async || used(&house).await == 3_000).await;
        assert_eq!(client.get("/").await.status, 200);
        // Without a body and a length, the estimate is reserved, and nothing is charged.
        eventually(async || used(&house).await == 3_000).await;
        let chunked = "POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n7;x=y\r\n\
                       1234567\r\n3\r\n890\r\n0\r\n\r\n";
        client.send(chunked.as_bytes()).await;
        assert_eq!(client.reply().await.unwrap().body, "1234567890");
        eventually(async || used(&house).await == 3_010).await;
        // More than what is left, by its length.
        let reply = Client::to(house.gateway())
            .await
            .post("/", &"x".repeat(97_000))
            .await;
        reply.problem(429);
    }
}

#[tokio::test]
async fn bytes_of_responses_are_counted_as_far_as_they_come() {
    let redis = Redis::start();
    for place in [Place::Memory, at(&redis)] {
        let stage = Stage::open().await;
        let cost = "{from: response_bytes, estimate: 1000}";
        let house = gateway_on(stage.address(), cost, place).await;
        let head = "content-length: 5\r\n\r\n";
        let (mut client, mut upstream) = begin(&house, &stage, head).await;
        assert_eq!(used(&house).await, 1_000);
        upstream.send("hello").await;
        assert_eq!(client.reply().await.unwrap().body, "hello");
        eventually(async || used(&house).await == 5).await;
        // Cut off by the upstream, and by the client.
        let head = "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n";
        let (mut client, upstream) = begin(&house, &stage, head).await;
        client.read_until("abc").await;
        drop(upstream);
        client.rest().await;
        eventually(async || used(&house).await == 8).await;
        let (mut client, mut upstream) = begin(&house, &stage, head).await;
        client.read_until("abc").await;
        drop(client);
        upstream.wait_for_end().await;
        eventually(async || used(&house).await == 11).await;
        // More than the estimate is charged until the limit is exhausted.
        let large = "x".repeat(120_000);
        let head = "content-length: 120000\r\n\r\n";
        let (mut client, mut upstream) = begin(&house, &stage, head).await;
        let sending = upstream.send(&large);
        let (reply, ()) = tokio::join!(client.reply(), sending);
        assert_eq!(reply.unwrap().body.len(), 120_000);
        eventually(async || used(&house).await == 100_000).await;
        Client::to(house.gateway())
            .await
            .get("/")
            .await
            .problem(429);
    }
}

#[tokio::test]
async fn a_number_in_the_body_is_charged_when_the_response_has_ended() {
    let redis = Redis::start();
    for place in [Place::Memory, at(&redis)] {
        let upstream = Echo::start().await;
        let cost = "{from: {json: /usage/total_tokens}, estimate: 400}";
        let house = gateway_on(upstream.address, cost, place).await;
        let mut client = Client::to(house.gateway()).await;
        let mut charged = 0;
        for (tokens, units) in [
            (json!(120), 120),
            (json!(0), 0),
            (json!(900), 900),
            (json!(-5), 400),
            (json!(1.5), 400),
            (json!("12"), 400),
            (json!(null), 400),
        ] {
            let body = json!({"usage": {"total_tokens": tokens}}).to_string();
            assert_eq!(client.post("/", &body).await.body, body);
            charged += units;
            eventually(async || used(&house).await == charged).await;
        }
        assert_eq!(client.post("/", "no json").await.status, 200);
        eventually(async || used(&house).await == charged + 400).await;
        assert_eq!(unsettled(&house, "malformed").await, 4);
        assert_eq!(unsettled(&house, "missing").await, 1);
        // Larger than what is looked into.
        let large = json!({"usage": {"total_tokens": 1}, "x": "y".repeat(1 << 20)}).to_string();
        assert_eq!(client.post("/", &large).await.body.len(), large.len());
        eventually(async || used(&house).await == charged + 800).await;
        assert_eq!(unsettled(&house, "too_large").await, 1);
        // Huge: until the limit is exhausted.
        let huge = json!({"usage": {"total_tokens": u64::MAX}}).to_string();
        assert_eq!(client.post("/", &huge).await.status, 200);
        eventually(async || used(&house).await == 100_000).await;
    }
}

#[tokio::test]
async fn a_body_that_is_looked_into_is_not_held_back() {
    let redis = Redis::start();
    for place in [Place::Memory, at(&redis)] {
        let is_in_memory = matches!(place, Place::Memory);
        let stage = Stage::open().await;
        let cost = "{from: {json: /usage/total_tokens}, estimate: 400}";
        let house = gateway_on(stage.address(), cost, place).await;
        let mut client = Client::to(house.gateway()).await;
        client.send(GET).await;
        let mut upstream = stage.accept().await;
        let head = upstream.head().await;
        // Nobody gets round the count by asking for a part of the body, or for a compressed one.
        assert!(head.contains("accept-encoding: identity\r\n"), "{head}");
        assert!(
            !head.contains("br\r\n") && !head.contains("range"),
            "{head}"
        );
        upstream.send(&format!("{OK}{EVENTS}")).await;
        for tokens in [3, 8] {
            let event = event(tokens);
            upstream
                .send(&format!("{:x}\r\n{event}\r\n", event.len()))
                .await;
            client.read_until(&event).await;
            assert_eq!(used(&house).await, 400);
        }
        upstream.send("e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n").await;
        client.read_until("0\r\n\r\n").await;
        // In memory, it is settled before the client sees the end.
        assert!(!is_in_memory || used(&house).await == 8);
        eventually(async || used(&house).await == 8).await;
        bodies_that_are_cut_off_or_compressed(&house, &stage).await;
    }
}

/// The head of a stream of events.
const EVENTS: &str = "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn event(tokens: u32) -> String {
    format!("data: {{\"usage\": {{\"total_tokens\": {tokens}}}}}\n\n")
}

/// Continues where 8 units are charged.
async fn bodies_that_are_cut_off_or_compressed(house: &House, stage: &Stage) {
    // Of a stream that is cut off, the larger of the estimate and the last number.
    for (tokens, charged) in [(5, 408), (500, 908)] {
        let event = event(tokens);
        let begun = format!("{EVENTS}{:x}\r\n{event}\r\n", event.len());
        let (mut client, mut upstream) = begin(house, stage, &begun).await;
        client.read_until(&event).await;
        drop(client);
        upstream.wait_for_end().await;
        eventually(async || used(house).await == charged).await;
    }
    assert_eq!(unsettled(house, "cut_off").await, 0);
    let begun = "content-length: 99\r\n\r\n{\"usage\": {\"total_tokens\": 1}";
    let (mut client, upstream) = begin(house, stage, begun).await;
    client.read_until("1}").await;
    drop(upstream);
    client.rest().await;
    eventually(async || used(house).await == 1_308).await;
    assert_eq!(unsettled(house, "cut_off").await, 1);
    let encoded = "content-encoding: gzip\r\ncontent-length: 2\r\n\r\nhi";
    let (mut client, _upstream) = begin(house, stage, encoded).await;
    assert_eq!(client.reply().await.unwrap().body, "hi");
    assert_eq!(used(house).await, 1_708);
    eventually(async || unsettled(house, "compressed").await == 1).await;
}

#[tokio::test]
async fn headers_and_trailers_of_responses_have_numbers_too() {
    let redis = Redis::start();
    for place in [Place::Memory, at(&redis)] {
        let is_in_memory = matches!(place, Place::Memory);
        let stage = Stage::open().await;
        let cost = "{from: {response_header: x-cost}, estimate: 30}";
        let house = gateway_on(stage.address(), cost, place.clone()).await;
        let mut charged = 0;
        for (field, units) in [("x-cost: 12\r\n", 12), ("", 30), ("x-cost: many\r\n", 30)] {
            let answer = format!("{field}content-length: 0\r\n\r\n");
            let (mut client, _upstream) = begin(&house, &stage, &answer).await;
            assert_eq!(client.reply().await.unwrap().status, 200);
            charged += units;
            // In memory, it is settled before the client sees the response.
            assert!(!is_in_memory || used(&house).await == charged, "{field}");
            eventually(async || used(&house).await == charged).await;
        }
        let cost = "{from: {trailer: x-tokens}, estimate: 30}";
        let house = gateway_on(stage.address(), cost, place).await;
        let head = "transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n";
        // In Redis, what the gateway before has charged stays.
        let mut charged = used(&house).await;
        for (trailer, units) in [
            ("x-tokens: 9\r\n", 9),
            ("", 30),
            ("x-tokens: 1\r\nx-tokens: 2\r\n", 30),
        ] {
            let answer = format!("{head}{trailer}\r\n");
            let (mut client, _upstream) = begin(&house, &stage, &answer).await;
            client.read_until("\r\n0\r\n").await;
            charged += units;
            eventually(async || used(&house).await == charged).await;
        }
    }
}

/// Many servers send trailers only if they are asked for; the client, which did not, gets none.
#[tokio::test]
async fn a_trailer_that_has_the_cost_is_requested() {
    let stage = Stage::open().await;
    let cost = "{from: {trailer: x-tokens}, estimate: 30}";
    let house = gateway_on(stage.address(), cost, Place::Memory).await;
    let mut client = Client::to(house.gateway()).await;
    client.send(GET).await;
    let mut upstream = stage.accept().await;
    let head = upstream.head().await;
    assert!(head.contains("te: trailers\r\n"), "{head}");
    assert!(head.contains("connection: te\r\n"), "{head}");
    let answer = "transfer-encoding: chunked\r\ntrailer: x-tokens\r\n\r\n";
    let body = "2\r\nhi\r\n0\r\nx-tokens: 9\r\n\r\n";
    upstream.send(&format!("{OK}{answer}{body}")).await;
    let response = client.read_until("\r\n0\r\n\r\n").await;
    assert!(!response.contains("x-tokens: 9"), "{response}");
    assert_eq!(used(&house).await, 9);
}

#[tokio::test]
async fn trailers_of_grpc_have_numbers_also_without_a_body() {
    let redis = Redis::start();
    for place in [Place::Memory, at(&redis)] {
        trailers_of_grpc(place).await;
    }
}

/// Calls whose trailers end a body, and are the only headers.
async fn trailers_of_grpc(place: Place) {
    let service = House::on("domain: d\ndescriptors: [{key: k, rate_limit: 1000/day}]\n").await;
    let upstream = format!("{{addresses: ['{}'], protocol: h2c}}", service.grpc());
    let identity = "identity: {descriptors: [{entries: [{key: k, from: {constant: v}}], cost: \
        {from: {trailer: grpc-status}, estimate: 30}}]}";
    let settings = section_of(&upstream, identity);
    let house = gateway_with(RULES, settings, |config| config.store = place).await;
    let client = grpc_client::Client::to(house.gateway()).await;
    let good = r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}"#;
    client.ask(good).await.unwrap();
    eventually(async || used(&house).await == 0).await;
    // INVALID_ARGUMENT is 3, and its trailers are the only headers.
    let error = client
        .ask(r#"{"domain":"","descriptors":[]}"#)
        .await
        .unwrap_err();
    assert_eq!(error.code(), tonic::Code::InvalidArgument, "{error:?}");
    eventually(async || used(&house).await == 3).await;
    assert_eq!(unsettled(&house, "missing").await, 0);
}

/// What one descriptor learns at the head, and another one at the end, is settled at the end.
#[tokio::test]
async fn descriptors_of_one_request_have_costs_of_their_own() {
    let stage = Stage::open().await;
    let rules = "domain: api\ndescriptors: [{key: k, rate_limit: 100000/hour}, {key: failed, \
        rate_limit: 3/hour}, {key: all, rate_limit: 10/hour}]\n";
    let identity = "identity: {descriptors: [{entries: [{key: k, from: {constant: v}}], cost: \
        {from: response_bytes, estimate: 9}}, {entries: [{key: failed, from: {constant: v}}], \
        count_when: {status: [401]}}, {entries: [{key: all, from: {constant: v}}]}]}";
    let house = gateway_with(rules, section(stage.address(), identity), |_| ()).await;
    let head = "content-length: 5\r\n\r\n";
    let (mut client, mut upstream) = begin(&house, &stage, head).await;
    client.read_until("\r\n\r\n").await;
    assert_eq!(remaining(&house, r#""failed": "v""#).await, 2);
    upstream.send("hello").await;
    client.read_until("hello").await;
    assert_eq!(remaining(&house, r#""failed": "v""#).await, 3);
    assert_eq!(remaining(&house, r#""all": "v""#).await, 9);
    assert_eq!(used(&house).await, 5);
}

/// The upstream answers before it has the whole body, which goes on.
#[tokio::test]
async fn a_request_whose_body_still_comes_is_charged_its_estimate_at_least() {
    let stage = Stage::open().await;
    let cost = "{from: request_bytes, estimate: 500}";
    let house = gateway_on(stage.address(), cost, Place::Memory).await;
    let mut client = Client::to(house.gateway()).await;
    let head = "POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n";
    client.send(head.as_bytes()).await;
    let mut upstream = stage.accept().await;
    upstream.read_until("x\r\n").await;
    let answer = format!("{OK}content-length: 5\r\n\r\nhello");
    upstream.send(&answer).await;
    assert_eq!(client.reply().await.unwrap().body, "hello");
    eventually(async || unsettled(&house, "cut_off").await != 0).await;
    assert_eq!(used(&house).await, 500);
}

/// The client goes away in the middle of its body, before there is a response.
#[tokio::test]
async fn a_body_that_is_broken_off_costs_what_has_passed_of_it() {
    let stage = Stage::open().await;
    let cost = "{from: request_bytes, estimate: 5}";
    let house = gateway_on(stage.address(), cost, Place::Memory).await;
    let mut client = Client::to(house.gateway()).await;
    let head = "POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n";
    let body = format!("3e8\r\n{}\r\n", "x".repeat(1000));
    client.send(format!("{head}{body}").as_bytes()).await;
    let mut upstream = stage.accept().await;
    upstream.read_until(&"x".repeat(1000)).await;
    drop(client);
    upstream.wait_for_end().await;
    eventually(async || unsettled(&house, "no_response").await != 0).await;
    assert_eq!(used(&house).await, 1000);
}
