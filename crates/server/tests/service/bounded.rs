//! What clients can use is bounded, and a client that tries to use more does not harm the others.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use prost::Message;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tollgate_server::Config;
use tollgate_testbed::{Journal, Redis};
use tonic::Code;

use crate::grpc_client;
use crate::house::House;
use crate::http_client::Client;
use crate::over_redis;
use crate::redis_client::with_redis;

const RULES: &str = "domain: d\ndescriptors: [{key: k, rate_limit: 1000/day}]\n";
const GOOD: &str = r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}"#;
/// Requests of one connection that are sent at once.
const PIPELINE: usize = 12;
/// Longer than any test takes.
const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) const HEADERS: u8 = 1;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;

pub(crate) async fn metric(house: &House, line: &str) -> bool {
    let text = Client::to(house.admin()).await.get("/metrics").await.body;
    text.lines().any(|found| found == line)
}

#[tokio::test]
async fn a_full_listener_answers_health_checks_and_nothing_else() {
    let house = House::with(RULES, |config| config.limits.connections = 2).await;
    let mut kept = Client::to(house.http()).await;
    assert_eq!(kept.post("/json", GOOD).await.status, 200);
    let _silent = Client::to(house.http()).await;
    for path in ["/healthz", "/readyz", "/healthcheck"] {
        let mut third = Client::to(house.http()).await;
        let reply = third.get(path).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.header("connection"), Some("close"));
        assert!(third.is_closed().await);
    }
    let reply = Client::to(house.http()).await.post("/json", GOOD).await;
    assert!(reply.problem(503).contains("connection limit is reached"));
    // Open connections go on, and the admin listener answers.
    assert_eq!(kept.post("/json", GOOD).await.status, 200);
    let line = r#"tollgate_request_errors_total{listener="http",kind="overloaded"} 1"#;
    assert!(metric(&house, line).await);
}

#[tokio::test]
async fn a_full_listener_is_logged_once_with_the_peer() {
    let (journal, _guard) = Journal::begin();
    let house = House::with(RULES, |config| config.limits.connections = 2).await;
    let mut kept = Vec::new();
    for number in 0..32 {
        let mut client = Client::to(house.http()).await;
        assert_eq!(client.get("/healthz").await.status, 200, "{number}");
        kept.push(client);
        assert_eq!(journal.count("is reached"), usize::from(number >= 2));
    }
    let text = journal.text();
    let line = text.lines().find(|line| line.contains("is reached"));
    let line = line.unwrap();
    for words in ["WARN", "listener=\"http\"", "peer=127.0.0.1", "withheld=0"] {
        assert!(line.contains(words), "{words}: {line}");
    }
}

#[tokio::test]
async fn one_address_does_not_take_all_connections_of_grpc() {
    let house = House::with(RULES, |config| config.limits.connections_per_address = 1).await;
    let first = grpc_client::Client::to(house.grpc()).await;
    first.ask(GOOD).await.unwrap();
    let second = grpc_client::Client::to(house.grpc()).await;
    let status = second.ask(GOOD).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    let third = grpc_client::Client::to(house.grpc()).await;
    assert_eq!(crate::stopping::health(&third, "ratelimit").await, 1);
    first.ask(GOOD).await.unwrap();
}

#[tokio::test]
async fn unfinished_requests_are_held_up_to_a_bound() {
    let house = House::with(RULES, |config| config.limits.buffer = 50_000).await;
    let mut client = Client::to(house.http()).await;
    client
        .send(b"POST /json HTTP/1.1\r\nhost: h\r\ncontent-length: 200000\r\n\r\n")
        .await;
    client.send(&[b' '; 100_000]).await;
    let detail = client.reply().await.unwrap().problem(503);
    assert!(detail.contains("unfinished requests"), "{detail}");
    let grpc = grpc_client::Client::to(house.grpc()).await;
    let mut message: tollgate_rls::RateLimitRequest = serde_json::from_str(GOOD).unwrap();
    let entry = message.descriptors[0].entries[0].clone();
    message.descriptors[0].entries = vec![entry; 20_000];
    let status = grpc.send(message).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    // The bytes are free again.
    assert!(metric(&house, "tollgate_request_bytes_held 0").await);
    assert_eq!(
        Client::to(house.http())
            .await
            .post("/json", GOOD)
            .await
            .status,
        200
    );
    grpc.ask(GOOD).await.unwrap();
}

/// What is read of a message is bounded, and no answer is another one for that.
#[tokio::test]
async fn hollow_messages_are_decided_as_far_as_they_are_read() {
    let house = House::on(RULES).await;
    let grpc = grpc_client::Client::to(house.grpc()).await;
    let good: tollgate_rls::RateLimitRequest = serde_json::from_str(GOOD).unwrap();
    let mut message = good.clone();
    let one = message.descriptors[0].clone();
    message.descriptors = vec![one.clone(); 128];
    message.descriptors.resize(100_000, Default::default());
    assert_eq!(grpc.send(message).await.unwrap().statuses.len(), 128);
    let line = r#"tollgate_descriptors_left_out_total{listener="grpc"} 99872"#;
    assert!(metric(&house, line).await);
    let mut message = good.clone();
    message.descriptors[0]
        .entries
        .resize(100_000, Default::default());
    let status = grpc.send(message).await.unwrap_err();
    let detail = "descriptors[0].entries[1] has an empty key";
    assert!(status.message().starts_with(detail), "{status:?}");
    let hollow = format!("{}{}]}}", &GOOD[..GOOD.len() - 2], ",{}".repeat(50_000));
    let mut http = Client::to(house.http()).await;
    let detail = http.post("/json", &hollow).await.problem(400);
    assert!(detail.contains("descriptors[1] has no entries"), "{detail}");
    // A limit in the request counts all entries, however many.
    let limit = r#"{"requestsPerUnit":1,"unit":"DAY"}"#;
    let entry = r#"{"key":"k","value":"v"},"#.repeat(500);
    for (last, status) in [("a", 200), ("b", 200), ("a", 429)] {
        let last = format!(r#"{{"key":"k","value":"{last}"}}"#);
        let one = format!(r#"{{"entries":[{entry}{last}],"limit":{limit}}}"#);
        let json = format!(r#"{{"domain":"d","descriptors":[{one}]}}"#);
        assert_eq!(http.post("/json", &json).await.status, status, "{last}");
    }
    // In protobuf they are the same ones.
    let mut message = good;
    message.descriptors[0] = one;
    let entries = &mut message.descriptors[0].entries;
    entries.resize(501, entries[0].clone());
    entries[500].value = b"b"[..].into();
    let limit = r#"{"domain":"d","descriptors":[{"limit":{"requestsPerUnit":1,"unit":"DAY"}}]}"#;
    let limit: tollgate_rls::RateLimitRequest = serde_json::from_str(limit).unwrap();
    message.descriptors[0].limit = limit.descriptors[0].limit;
    assert_eq!(grpc.send(message).await.unwrap().overall_code, 2);
}

/// Both requests are there before the service, on the same thread, looks at either connection.
#[tokio::test]
async fn a_pipeline_does_not_delay_the_request_of_another_connection() {
    for (path, pointer) in [
        ("/json", "/statuses/0/limitRemaining"),
        ("/v1/check", "/limits/0/remaining"),
    ] {
        let house = House::with(RULES, |config| config.limits.turn_bytes = GOOD.len()).await;
        let mut busy = Client::to(house.http()).await;
        let mut other = Client::to(house.http()).await;
        for client in [&mut busy, &mut other] {
            assert_eq!(client.get("/healthz").await.status, 200);
        }
        let length = GOOD.len();
        let head = format!("POST {path} HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n");
        let request = head + GOOD;
        busy.send(request.repeat(PIPELINE).as_bytes()).await;
        other.send(request.as_bytes()).await;
        let json = other.reply().await.unwrap().json();
        let remaining = json.pointer(pointer).unwrap().as_u64().unwrap();
        let before = 999 - remaining;
        assert!(before <= 2, "{path}: {before} of the pipeline came first");
        for _ in 0..PIPELINE {
            assert_eq!(busy.reply().await.unwrap().status, 200);
        }
    }
}

#[tokio::test]
async fn messages_count_until_they_are_answered() {
    const HELD: &str = "tollgate_request_bytes_held";
    let redis = Redis::start();
    let house = House::with(RULES, |config| config.store = over_redis::at(&redis)).await;
    let grpc = grpc_client::Client::to(house.grpc()).await;
    grpc.ask(GOOD).await.unwrap();
    let mut message: tollgate_rls::RateLimitRequest = serde_json::from_str(GOOD).unwrap();
    message.descriptors[0].entries[0].value = b"v".repeat(200_000).into();
    redis.pause();
    let asked = message.clone();
    let waiting = tokio::spawn(async move { grpc.send(asked).await });
    let latest = Instant::now() + TIMEOUT;
    // So much of the message comes from the shared pool, once all of it has arrived.
    let all = u64::try_from(5 + message.encoded_len() - 16 * 1024).unwrap();
    while over_redis::metric(&house, HELD).await < all {
        assert!(Instant::now() < latest, "it is not counted");
        sleep(Duration::from_millis(1)).await;
    }
    redis.go_on();
    waiting.await.unwrap().unwrap();
    while over_redis::metric(&house, HELD).await > 0 {
        assert!(Instant::now() < latest, "it is still counted");
        sleep(Duration::from_millis(1)).await;
    }
}

/// A connection to the listener for gRPC with this flow-control window for responses.
async fn connect(house: &House, window: u32) -> TcpStream {
    connect_to(house.grpc(), window).await
}

/// An HTTP/2 connection with this flow-control window for responses.
pub(crate) async fn connect_to(address: SocketAddr, window: u32) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    // SETTINGS_INITIAL_WINDOW_SIZE is setting 4.
    let settings = [&[0, 4], &window.to_be_bytes()[..]].concat();
    stream
        .write_all(&frame(SETTINGS, 0, 0, &settings))
        .await
        .unwrap();
    stream
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let stream = stream.to_be_bytes();
    [&length[1..], &[kind, flags], &stream[..], payload].concat()
}

/// A request in one stream, its fields without compression.
fn request(stream: u32) -> Vec<u8> {
    let path = b"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let content_type = b"\x00\x0ccontent-type\x10application/grpc\x00\x02te\x08trailers";
    let path = [
        &[0x83, 0x86, 0x04, u8::try_from(path.len()).unwrap()],
        &path[..],
    ]
    .concat();
    let fields = [&path[..], b"\x01\x01h", content_type].concat();
    let message = b"\x00\x00\x00\x00\x0d\x0a\x01d\x12\x08\x0a\x06\x0a\x01k\x12\x01v";
    // END_HEADERS, then END_STREAM.
    let headers = frame(HEADERS, 4, stream, &fields);
    [headers, frame(0, 1, stream, message)].concat()
}

/// Reads frames and answers pings and settings until the connection ends; returns their kinds.
pub(crate) async fn answer_until_the_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut kinds = Vec::new();
    while let Some(head) = answer_frame(stream).await {
        kinds.push(head[3]);
    }
    kinds
}

/// The same until the response of this stream has ended; whether it has.
async fn answer_until_response(stream: &mut TcpStream, id: u32) -> bool {
    while let Some(head) = answer_frame(stream).await {
        if head[3] == HEADERS && head[4] & END_STREAM != 0 && head[5..] == id.to_be_bytes() {
            return true;
        }
    }
    false
}

/// Reads a frame, and answers it if it is a ping or settings; returns its header, or `None` at the
/// end of the connection.
pub(crate) async fn answer_frame(stream: &mut TcpStream) -> Option<[u8; 9]> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut payload).await.ok()?;
    if [SETTINGS, PING].contains(&head[3]) && head[4] & ACK == 0 {
        let payload = if head[3] == PING { &payload[..] } else { &[] };
        let _closed = stream.write_all(&frame(head[3], ACK, 0, payload)).await;
    }
    Some(head)
}

#[tokio::test]
async fn responses_that_a_peer_does_not_read_are_not_kept_for_ever() {
    let house = House::with(RULES, |config| {
        config.limits.write_timeout = Duration::from_millis(200);
        config.limits.ping_interval = Duration::from_millis(20);
    })
    .await;
    // A peer that reads is not disconnected.
    let mut reader = connect(&house, 65_535).await;
    reader.write_all(&request(1)).await.unwrap();
    let mut stream = connect(&house, 0).await;
    for number in 0..100 {
        stream.write_all(&request(2 * number + 1)).await.unwrap();
    }
    let end = timeout(TIMEOUT, answer_until_the_end(&mut stream)).await;
    let kinds = end.expect("the connection is cut off");
    assert!(
        kinds.contains(&PING),
        "it was cut off before it answered pings"
    );
    let answers = kinds.iter().filter(|kind| **kind == HEADERS).count();
    assert_eq!(answers, 100, "every request was answered");
    let line = r#"tollgate_connections_closed_total{listener="grpc",reason="unread_answers"} 1"#;
    assert!(metric(&house, line).await);
    reader.write_all(&request(3)).await.unwrap();
    let answered = timeout(TIMEOUT, answer_until_response(&mut reader, 3)).await;
    assert_eq!(answered, Ok(true), "the peer that reads was cut off");
}

#[tokio::test]
async fn floods_are_disconnected() {
    let house = House::with(RULES, |config| config.limits.control_frames = 100).await;
    for (kind, flags, payload) in [
        (PING, 0, &[7; 8][..]),
        (PING, ACK, &[7; 8]),
        (SETTINGS, 0, &[0, 4, 0, 0, 255, 255]),
    ] {
        let mut stream = connect(&house, 65_535).await;
        let flood = frame(kind, flags, 0, payload).repeat(1000);
        let _cut_off = stream.write_all(&flood).await;
        let end = timeout(TIMEOUT, answer_until_the_end(&mut stream)).await;
        assert!(end.is_ok(), "{kind} {flags}");
    }
    let line = r#"tollgate_connections_closed_total{listener="grpc",reason="flood"} 3"#;
    assert!(metric(&house, line).await);
    grpc_client::Client::to(house.grpc())
        .await
        .ask(GOOD)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_connection_ends_when_it_is_old_and_between_two_answers() {
    let house = House::with(RULES, |config| {
        config.limits.connection_age = Duration::ZERO;
        config.limits.write_timeout = Duration::from_millis(20);
    })
    .await;
    let mut client = Client::to(house.http()).await;
    loop {
        let reply = client.post("/json", GOOD).await;
        assert_eq!(reply.status, 200);
        if reply.header("connection") == Some("close") {
            break;
        }
    }
    assert!(client.is_closed().await);
    // GOAWAY tells a gRPC client which of its calls are still answered.
    let mut stream = connect(&house, 65_535).await;
    stream.write_all(&request(1)).await.unwrap();
    let end = timeout(TIMEOUT, answer_until_the_end(&mut stream)).await;
    let kinds = end.expect("the connection ends");
    assert!(
        kinds.contains(&GOAWAY) && kinds.contains(&HEADERS),
        "{kinds:?}"
    );
}

/// The process would be aborted if it were found while the store is built.
#[tokio::test]
async fn more_memory_than_there_is_is_an_error_that_names_the_setting() {
    let start = async |change: fn(&mut Config)| {
        let directory = TempDir::new().unwrap();
        let rules = directory.path().join("rules.yaml");
        fs::write(
            &rules,
            "domain: d\ndescriptors: [{key: k, rate_limit: 1/day}]\n",
        )
        .unwrap();
        let started = House::at(directory, rules, change).await;
        started.err().unwrap().to_string()
    };
    let keys = start(|config| config.memory.max_keys = Some(1 << 42)).await;
    assert!(
        keys.contains("`memory.max_keys` asks for; reduce it"),
        "{keys}"
    );
    let bytes = start(|config| config.memory.max_bytes = Some(1 << 46)).await;
    assert!(
        bytes.contains("`memory.max_bytes` asks for; reduce it"),
        "{bytes}"
    );
    let throttles = start(|config| {
        with_redis(config);
        config.redis_protocol.throttle_keys = 1 << 42;
    });
    let throttles = throttles.await;
    assert!(
        throttles.contains("`redis_protocol.throttle_keys` asks for"),
        "{throttles}"
    );
}
