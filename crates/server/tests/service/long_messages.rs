//! Messages that are longer than what a connection may buffer of many of them: however large the
//! headers are that a client sends through Envoy, its limit holds.

use std::time::Duration;

use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tollgate_rls::RateLimitRequest;
use tollgate_rls::rate_limit_response::Code;

use crate::grpc_client;
use crate::house::House;
use crate::http_client::Client;

const RULES: &str = "domain: d\ndescriptors: [{key: k, rate_limit: 3/day}]\n";
const GOOD: &str = r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}"#;
/// The largest header that Envoy accepts, nearly.
const HEADER_BYTES: usize = 60_000;
/// How many calls are sent at once: nearly as many as a connection may have.
const CALLS: usize = 250;

/// Longer than any of this takes.
const SOON: Duration = Duration::from_secs(120);

/// A request with one header in many descriptors, of which the first has a limit: about a MiB.
fn wide() -> RateLimitRequest {
    let mut message: RateLimitRequest = serde_json::from_str(GOOD).unwrap();
    message.descriptors[0].entries[0].value = b"h".repeat(HEADER_BYTES).into();
    let mut other = message.descriptors[0].clone();
    other.entries[0].key = b"x"[..].into();
    message.descriptors.resize(17, other);
    message
}

/// A message as gRPC frames it: uncompressed if `kind` is 0, with the length that it says it has.
fn framed(kind: u8, length: usize, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(length).unwrap().to_be_bytes();
    [&[kind], &length[..], message].concat()
}

/// The status of a call with this body.
async fn status(house: &House, body: Vec<u8>) -> (String, String) {
    let stream = TcpStream::connect(house.grpc()).await.unwrap();
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::post(format!(
        "http://{}/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
        house.grpc()
    ))
    .header("content-type", "application/grpc")
    .header("te", "trailers")
    .body(Full::new(bytes::Bytes::from(body)))
    .unwrap();
    let response = client.send_request(request).await.unwrap();
    let mut headers = response.headers().clone();
    // The service resets a stream whose body it has not read to its end.
    if let Ok(body) = response.into_body().collect().await
        && let Some(trailers) = body.trailers()
    {
        headers.extend(trailers.clone());
    }
    connection.abort();
    let text = |name: &str, headers: &HeaderMap| {
        let value = headers.get(name).map(|value| value.to_str().unwrap());
        value.unwrap_or_default().replace("%20", " ")
    };
    (
        text("grpc-status", &headers),
        text("grpc-message", &headers),
    )
}

async fn is_nothing_held(house: &House) -> bool {
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    metrics.contains("\ntollgate_request_bytes_held 0\n")
}

#[tokio::test]
async fn many_calls_with_a_header_in_many_descriptors_are_limited_like_any_others() {
    // Longer than a busy machine takes to send them all.
    let house = House::with(RULES, |config| config.limits.body_timeout = SOON).await;
    let client = grpc_client::Client::to(house.grpc()).await;
    let mut calls = JoinSet::new();
    for _ in 0..CALLS {
        let client = client.clone();
        calls.spawn(async move { client.send(wide()).await });
    }
    let mut allowed = 0;
    while let Some(answer) = calls.join_next().await {
        let answer = answer.unwrap().unwrap();
        allowed += usize::from(answer.overall_code() == Code::Ok);
    }
    assert_eq!(allowed, 3);
    assert!(is_nothing_held(&house).await);
}

#[tokio::test]
async fn a_long_message_that_cannot_be_read_is_the_clients_error() {
    let house = House::on(RULES).await;
    let message = wide().encode_to_vec();
    let bytes = message.len();
    let wrong = [b"\x0a\x01d\x08\x01", &message[..]].concat();
    let cases = [
        (framed(0, bytes, &message), "0", ""),
        (framed(0, bytes, &message[..bytes - 1]), "3", "ends after"),
        (
            framed(0, bytes, &[&message[..], b"x"].concat()),
            "12",
            "exactly one message",
        ),
        (
            framed(0, bytes + 2, &[&message[..], b"\x12\x7f"].concat()),
            "3",
            "cannot be read",
        ),
        (framed(0, wrong.len(), &wrong), "3", "cannot be read"),
        // Compressed, which the service does not read.
        (framed(1, bytes, &message), "13", "compressed"),
    ];
    for (number, (body, code, text)) in cases.into_iter().enumerate() {
        let (status, message) = status(&house, body).await;
        assert_eq!(status, code, "{number}: {message}");
        assert!(message.contains(text), "{number}: {message}");
    }
    assert!(is_nothing_held(&house).await);
}
