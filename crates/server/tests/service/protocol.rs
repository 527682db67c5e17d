//! Requests that violate HTTP or gRPC are answered as the standards require.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use prost::Message;
use tollgate_backends::SharedConfig;
use tollgate_core::Span;
use tollgate_redis::Config as RedisConfig;
use tollgate_rls::RateLimitRequest;
use tollgate_server::Place;
use tollgate_testbed::Redis;
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::house::House;
use crate::http_client::Client;

const RULES: &str = "domain: d\ndescriptors: [{key: k, rate_limit: 1000/day}]\n";
const GOOD: &str = r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}"#;
const DECIDE_PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const CHECK_HEALTH_PATH: &str = "/grpc.health.v1.Health/Check";

async fn errors(house: &House, listener: &str, kind: &str) -> Option<u32> {
    let text = Client::to(house.admin()).await.get("/metrics").await.body;
    let name = format!("tollgate_request_errors_total{{listener=\"{listener}\",kind=\"{kind}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name));
    line.map(|count| count.parse().unwrap())
}

/// A message as gRPC frames it.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap();
    [&[0][..], &length.to_be_bytes(), message].concat()
}

fn good() -> Vec<u8> {
    let message: RateLimitRequest = serde_json::from_str(GOOD).unwrap();
    framed(&message.encode_to_vec())
}

async fn connect(address: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    endpoint.connect().await.unwrap()
}

async fn send(
    channel: &mut Channel,
    method: Method,
    path: &str,
    content_type: Option<&str>,
    body: Vec<u8>,
) -> Response<Body> {
    let mut request = Request::builder().method(method).uri(path);
    request = request.header("te", "trailers");
    if let Some(content_type) = content_type {
        request = request.header("content-type", content_type);
    }
    let body = Body::new(Full::new(Bytes::from(body)));
    std::future::poll_fn(|cx| GrpcService::<Body>::poll_ready(channel, cx))
        .await
        .unwrap();
    GrpcService::call(channel, request.body(body).unwrap())
        .await
        .unwrap()
}

/// The code of a response, in its headers or its trailers.
async fn code(response: Response<Body>) -> Code {
    if let Some(status) = Status::from_header_map(response.headers()) {
        return status.code();
    }
    let trailers = response.into_body().collect().await.unwrap();
    let trailers = trailers.trailers().cloned().unwrap_or_default();
    Status::from_header_map(&trailers).unwrap().code()
}

#[tokio::test]
async fn grpc_takes_its_own_content_types_only() {
    let house = House::on(RULES).await;
    let mut channel = connect(house.grpc()).await;
    let taken = [
        "application/grpc",
        "application/grpc+proto",
        "Application/gRPC;charset=utf-8",
    ];
    for content_type in taken {
        let kind = Some(content_type);
        let response = send(&mut channel, Method::POST, DECIDE_PATH, kind, good()).await;
        assert_eq!(response.status(), 200, "{content_type}");
        assert_eq!(code(response).await, Code::Ok, "{content_type}");
    }
    let rejected = [
        None,
        Some("application/json"),
        Some("text/plain"),
        Some("application/grpc+json"),
        Some("application/grpc-web"),
    ];
    for content_type in rejected {
        for path in [DECIDE_PATH, CHECK_HEALTH_PATH] {
            let response = send(&mut channel, Method::POST, path, content_type, good()).await;
            assert_eq!(response.status(), 415, "{content_type:?} {path}");
        }
    }
    assert_eq!(errors(&house, "grpc", "media_type").await, Some(10));
}

#[tokio::test]
async fn grpc_takes_posts_only() {
    let house = House::on(RULES).await;
    let mut channel = connect(house.grpc()).await;
    for method in [Method::GET, Method::PUT, Method::DELETE] {
        let kind = Some("application/grpc");
        let response = send(&mut channel, method, DECIDE_PATH, kind, good()).await;
        assert_eq!(response.status(), 405);
        assert_eq!(response.headers()["allow"], "POST");
    }
    assert_eq!(errors(&house, "grpc", "method_not_allowed").await, Some(3));
}

#[tokio::test]
async fn a_call_has_exactly_one_message() {
    let house = House::on(RULES).await;
    let mut channel = connect(house.grpc()).await;
    let kind = Some("application/grpc");
    let two = [good(), good()].concat();
    let and_more = [good(), vec![0]].concat();
    for body in [two, and_more, Vec::new()] {
        let length = body.len();
        let response = send(&mut channel, Method::POST, DECIDE_PATH, kind, body).await;
        assert_eq!(code(response).await, Code::Unimplemented, "{length} bytes");
    }
    let two = [framed(b""), framed(b"")].concat();
    let response = send(&mut channel, Method::POST, CHECK_HEALTH_PATH, kind, two).await;
    assert_eq!(code(response).await, Code::Unimplemented);
    assert_eq!(errors(&house, "grpc", "bad_request").await, Some(4));
    let response = send(&mut channel, Method::POST, DECIDE_PATH, kind, good()).await;
    assert_eq!(code(response).await, Code::Ok);
}

/// The response to one request, sent verbatim on a connection of its own.
async fn ask(house: &House, request: &str) -> crate::http_client::Reply {
    let mut client = Client::to(house.http()).await;
    client.send(request.as_bytes()).await;
    client.reply().await.unwrap()
}

#[tokio::test]
async fn http_needs_one_well_formed_host() {
    let house = House::on(RULES).await;
    let cases = [
        ("", "no `host`"),
        ("host: h\r\nhost: h\r\n", "several `host`"),
        ("host: a b\r\n", "malformed"),
        ("host: u@h\r\n", "malformed"),
        ("host: h:x\r\n", "malformed"),
        ("host: [::1\r\n", "malformed"),
        ("host: \u{fc}\r\n", "malformed"),
    ];
    for (hosts, expected) in cases {
        let length = GOOD.len();
        let head = format!("POST /json HTTP/1.1\r\n{hosts}content-length: {length}\r\n\r\n");
        let mut client = Client::to(house.http()).await;
        client.send((head + GOOD).as_bytes()).await;
        let reply = client.reply().await.unwrap();
        assert!(reply.problem(400).contains(expected), "{reply:?}");
        assert!(client.is_closed().await, "{hosts}");
    }
    assert_eq!(errors(&house, "http", "bad_request").await, Some(7));
    for hosts in ["host:\r\n", "host: [::1]:80\r\n", "host: h:80\r\n"] {
        let reply = ask(&house, &format!("GET /healthz HTTP/1.1\r\n{hosts}\r\n")).await;
        assert_eq!(reply.status, 200, "{hosts}");
    }
    let reply = ask(&house, "GET /healthz HTTP/1.0\r\n\r\n").await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn unsupported_codings_are_rejected() {
    let house = House::on(RULES).await;
    let chunked = |headers: &str, path: &str| {
        let head = format!("POST {path} HTTP/1.1\r\nhost: h\r\n{headers}\r\n");
        format!("{head}{:x}\r\n{GOOD}\r\n0\r\n\r\n", GOOD.len())
    };
    for path in ["/json", "/v1/check"] {
        for codings in ["gzip, chunked", "chunked, chunked", "identity, chunked"] {
            let headers = format!("transfer-encoding: {codings}\r\n");
            let reply = ask(&house, &chunked(&headers, path)).await;
            assert!(reply.problem(501).contains("chunked"), "{reply:?}");
        }
        for codings in ["gzip", "identity, br", "identity\r\ncontent-encoding: gzip"] {
            let headers = format!("transfer-encoding: chunked\r\ncontent-encoding: {codings}\r\n");
            let reply = ask(&house, &chunked(&headers, path)).await;
            assert!(reply.problem(415).contains("content-encoding"), "{reply:?}");
            assert_eq!(reply.header("accept-encoding"), Some("identity"));
        }
        let headers = "transfer-encoding: Chunked\r\ncontent-encoding: identity\r\n";
        assert_eq!(ask(&house, &chunked(headers, path)).await.status, 200);
    }
    assert_eq!(errors(&house, "http", "transfer_coding").await, Some(6));
    assert_eq!(errors(&house, "http", "content_coding").await, Some(6));
}

#[tokio::test]
async fn pipelined_requests_are_answered_although_nothing_more_is_sent() {
    let redis = Redis::start();
    let rules = "domain: d\non_store_error: allow\ndescriptors: [{key: k, rate_limit: 9/day}]\n";
    let house = House::with(rules, |config| {
        config.store = Place::Shared(SharedConfig::new(RedisConfig {
            timeout: Span::from_millis(200),
            ..RedisConfig::single(redis.address())
        }));
    })
    .await;
    // The end of the requests arrives before any of them is answered.
    redis.pause();
    let length = GOOD.len();
    let head = format!("POST /json HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n");
    let mut client = Client::to(house.http()).await;
    client.send((head + GOOD).repeat(3).as_bytes()).await;
    client.end_sending().await;
    for answered in 0..3 {
        let reply = client.reply().await;
        let reply = reply.unwrap_or_else(|| panic!("{answered} answers of 3"));
        assert_eq!(reply.status, 200);
    }
    assert!(client.is_closed().await);
}

/// They never reach the routes, which answer with problem documents.
#[tokio::test]
async fn requests_that_cannot_be_parsed_are_answered_with_the_reason_and_counted() {
    let house = House::on(RULES).await;
    let long = "x".repeat(100_000);
    let cases = [
        ("\x16\x03\x01 hello\r\n\r\n".to_owned(), 400, "malformed"),
        (
            "GET / HTTP/1.1\r\nno colon\r\n\r\n".to_owned(),
            400,
            "header",
        ),
        (
            format!("GET / HTTP/1.1\r\nx: {long}\r\n\r\n"),
            431,
            "16384 bytes",
        ),
    ];
    for (request, status, reason) in cases {
        let reply = ask(&house, &request).await;
        assert_eq!(reply.status, status);
        assert!(reply.body.contains(reason), "{}", reply.body);
        let length = reply.body.len().to_string();
        assert_eq!(reply.header("content-length"), Some(&*length));
    }
    assert_eq!(errors(&house, "http", "bad_request").await, Some(2));
    assert_eq!(errors(&house, "http", "head_too_large").await, Some(1));
}

#[tokio::test]
async fn http2_at_the_admin_port_is_answered_with_http_1_1_required() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.admin()).await;
    client
        .send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
        .await;
    let answer = client.rest().await;
    // Empty SETTINGS, then GOAWAY: no stream was processed, HTTP_1_1_REQUIRED.
    assert_eq!(answer[..9], [0, 0, 0, 4, 0, 0, 0, 0, 0]);
    let (head, text) = answer[9..].split_at(17);
    let length = u8::try_from(8 + text.len()).unwrap();
    assert_eq!(
        head,
        [0, 0, length, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 13]
    );
    assert!(String::from_utf8_lossy(text).contains("HTTP/1.1"));
    assert_eq!(errors(&house, "admin", "http2").await, Some(1));
}
