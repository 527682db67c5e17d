//! The `http` listener: HTTP/1.1, HTTP/2 and gRPC on one port.

use std::convert::Infallible;
use std::path::Path;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, StatusCode, request};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Body as _, Bytes, Frame};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_stream::StreamExt;
use tollgate_rls::decisions::CheckResponse;
use tollgate_rls::rate_limit_response::Code;
use tollgate_rules::Source;
use tollgate_server::{Config, ListenerKind};

use crate::eventually::eventually;
use crate::house::House;
use crate::http_client::Client;
use crate::stopping::health;
use crate::tls_client::Secured;
use crate::{decisions, grpc_client};

const RULES: &str = "domain: d\ndescriptors: [{key: k, rate_limit: 4/day}]\n";
const GOOD: &str = r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}"#;
const CHECK: &str = r#"{"domain":"d","descriptors":[{"k":"v"}]}"#;

/// A client of HTTP/2.
struct Http2(http2::SendRequest<Full<Bytes>>);

// === impl Http2 ===

impl Http2 {
    async fn to(house: &House) -> Http2 {
        Http2::over(TcpStream::connect(house.http()).await.unwrap()).await
    }

    async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Http2 {
        let shaken = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = shaken.unwrap();
        tokio::spawn(connection);
        Http2(sender)
    }

    async fn send(&mut self, request: Request<String>) -> (StatusCode, HeaderMap, String) {
        let request = request.map(|body| Full::from(Bytes::from(body)));
        let (head, body) = self.0.send_request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        (head.status, head.headers, body)
    }

    async fn get(&mut self, path: &str) -> (StatusCode, HeaderMap, String) {
        let request = Request::get(format!("http://h{path}"));
        self.send(request.body(String::new()).unwrap()).await
    }

    async fn post(&mut self, path: &str, body: &str) -> (StatusCode, HeaderMap, String) {
        let request =
            Request::post(format!("http://h{path}")).header(CONTENT_TYPE, "application/json");
        self.send(request.body(body.to_owned()).unwrap()).await
    }
}

async fn metrics(house: &House) -> String {
    Client::to(house.admin()).await.get("/metrics").await.body
}

#[tokio::test]
async fn each_protocol_is_answered_and_counts_the_same() {
    let house = House::on(RULES).await;
    let mut one = Client::to(house.http()).await;
    let mut two = Http2::to(&house).await;
    let grpc = grpc_client::Client::to(house.http()).await;
    assert_eq!(
        one.post("/v1/check", CHECK).await.json()["limits"][0]["remaining"],
        3
    );
    let (status, headers, body) = two.post("/v1/check", CHECK).await;
    assert_eq!(
        (status, headers["content-type"].as_bytes()),
        (StatusCode::OK, &b"application/json"[..])
    );
    assert!(body.contains("\"remaining\":2"), "{body}");
    let (status, _, body) = two.post("/json", GOOD).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(grpc.ask(GOOD).await.unwrap().overall_code(), Code::Ok);
    assert_eq!(one.post("/json", GOOD).await.status, 429);
    assert_eq!(two.post("/v1/check", CHECK).await.0, 429);
    assert_eq!(
        grpc.ask(GOOD).await.unwrap().overall_code(),
        Code::OverLimit
    );
    // Over HTTP/1.1 nothing is a call.
    let call = "POST /envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit HTTP/1.1\r\n\
        host: h\r\ncontent-type: application/grpc\r\ncontent-length: 0\r\n\r\n";
    one.send(call.as_bytes()).await;
    assert_eq!(one.reply().await.unwrap().status, 404);
    let metrics = metrics(&house).await;
    for line in [
        "tollgate_connections{listener=\"http\"} 3",
        "tollgate_request_errors_total{listener=\"http\",kind=\"not_found\"} 1",
    ] {
        assert!(
            metrics.lines().any(|found| found == line),
            "{line}: {metrics}"
        );
    }
}

#[tokio::test]
async fn errors_are_those_of_the_protocol() {
    let house = House::on(RULES).await;
    let mut two = Http2::to(&house).await;
    let (status, _, body) = two.post("/v1/check", "{}").await;
    assert_eq!(status, 400, "{body}");
    assert!(body.contains("domain"), "{body}");
    let (status, _, body) = two.post("/v1/check?peek=true", CHECK).await;
    assert_eq!(status, 400, "{body}");
    assert!(
        body.contains("`?peek=true`, but /v1/check takes no"),
        "{body}"
    );
    let (status, _, body) = two.get("/nothing").await;
    assert_eq!(status, 404);
    assert!(
        body.contains("the `http` listener has no /nothing"),
        "{body}"
    );
    let request = Request::post("http://h/v1/check").header("content-encoding", "gzip");
    let (status, headers, _) = two.send(request.body(CHECK.to_owned()).unwrap()).await;
    assert_eq!(
        (status, &headers["accept-encoding"]),
        (
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            &HeaderValue::from_static("identity")
        )
    );
    let (status, _, body) = two.post("/v1/check", &"x".repeat(300_000)).await;
    assert_eq!(status, 413, "{body}");
    let grpc = grpc_client::Client::to(house.http()).await;
    let invalid = grpc
        .ask(r#"{"domain":"","descriptors":[]}"#)
        .await
        .unwrap_err();
    assert_eq!(invalid.code(), tonic::Code::InvalidArgument);
    let metrics = metrics(&house).await;
    let line = "tollgate_request_errors_total{listener=\"http\",kind=\"bad_request\"} 3";
    assert!(metrics.lines().any(|found| found == line), "{metrics}");
}

/// The response to a HEAD of a new client, whose head ends its stream.
async fn head(to: std::net::SocketAddr, path: &str, coding: Option<&str>) -> u16 {
    let mut client = Http2::over(TcpStream::connect(to).await.unwrap()).await;
    let mut request = Request::head(format!("http://h{path}"));
    if let Some(coding) = coding {
        request = request.header("content-encoding", coding);
    }
    let request = request.body(Full::default()).unwrap();
    let response = client.0.send_request(request).await.unwrap();
    assert!(response.body().is_end_stream(), "{path}: {response:?}");
    response.status().as_u16()
}

/// In HTTP/1.1, the HTTP library does not send it; in HTTP/2 it does.
#[tokio::test]
async fn a_response_to_head_has_no_body() {
    let house = House::on(RULES).await;
    for (path, status) in [
        ("/healthz", 200),
        ("/nothing", 404),
        ("/v1/check", 405),
        ("/v1/auth", 404),
    ] {
        assert_eq!(head(house.http(), path, None).await, status, "{path}");
    }
    assert_eq!(head(house.http(), "/v1/check", Some("gzip")).await, 415);
    assert_eq!(head(house.grpc(), "/", None).await, 405);
}

#[tokio::test]
async fn a_head_beyond_the_connection_limit_has_no_body() {
    let house = House::with(RULES, |config| config.limits.connections = 2).await;
    let _silent = [
        Client::to(house.http()).await,
        Client::to(house.http()).await,
    ];
    assert_eq!(head(house.http(), "/v1/check", None).await, 503);
}

#[tokio::test]
async fn the_stream_of_decisions_is_there() {
    let house = House::on(RULES).await;
    let client = grpc_client::Client::to(house.http()).await;
    let check = decisions::check_in("d", decisions::entry("k", b"v"));
    let answers = decisions::call(&client, tokio_stream::iter([check.clone(), check])).await;
    let answers: Vec<CheckResponse> = answers.unwrap().map(Result::unwrap).collect().await;
    let remaining: Vec<_> = answers
        .iter()
        .map(|answer| answer.statuses[0].remaining)
        .collect();
    assert_eq!(remaining, [3, 2]);
}

#[tokio::test]
async fn refunds_need_the_operators_word_whatever_the_protocol() {
    const REFUND: &str = r#"{"domain":"d","descriptors":[
        {"entries":[{"key":"k","value":"v"}],"hitsAddend":"1","isNegativeHits":true}]}"#;
    let mut refund = decisions::check_in("d", decisions::entry("k", b"v"));
    refund.cost = Some(-1);
    let mut allowing = House::on(RULES).await;
    for is_allowed in [false, true] {
        if is_allowed {
            allowing = House::with(RULES, |config| config.allow_refund = true).await;
        }
        let house = &allowing;
        for (address, is_taken) in [(house.http(), is_allowed), (house.grpc(), true)] {
            let client = grpc_client::Client::to(address).await;
            let requests = tokio_stream::iter([refund.clone()]);
            let mut answers = decisions::call(&client, requests).await.unwrap();
            let answer = answers.message().await.unwrap().unwrap();
            let error = answer.error.map(|error| error.code);
            let expected = (!is_taken).then_some(i32::from(tonic::Code::InvalidArgument));
            assert_eq!(error, expected, "{is_allowed} {address}");
            let answer = client.ask(REFUND).await.map_err(|error| error.code());
            let error = answer.err();
            let expected = (!is_taken).then_some(tonic::Code::InvalidArgument);
            assert_eq!(error, expected, "{is_allowed} {address}");
        }
    }
}

/// The library closes connections with many short frames that were not read.
#[tokio::test]
async fn a_stream_of_short_messages_waits_for_a_client_that_does_not_read() {
    const MESSAGES: usize = 2_000;
    let house = House::on("domain: d\ndescriptors: [{key: k, rate_limit: 1000000/day}]\n").await;
    for address in [house.http(), house.grpc()] {
        let stream = TcpStream::connect(address).await.unwrap();
        let mut builder = http2::Builder::new(TokioExecutor::new());
        // Room for the answers to a few messages.
        builder.initial_stream_window_size(1_024);
        let shaken = builder.handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.unwrap();
        tokio::spawn(connection);
        let message = decisions::check_in("d", decisions::entry("k", b"v")).encode_to_vec();
        let length = u32::try_from(message.len()).unwrap();
        let framed: Bytes = [&[0][..], &length.to_be_bytes(), &message].concat().into();
        let frames = std::iter::repeat_n(framed, MESSAGES);
        let body = StreamBody::new(tokio_stream::iter(
            frames.map(|bytes| Ok::<_, Infallible>(Frame::data(bytes))),
        ));
        let request = Request::post("http://h/tollgate.v1.Decisions/Check")
            .header(CONTENT_TYPE, "application/grpc")
            .header("te", "trailers");
        let response = sender
            .send_request(request.body(body).unwrap())
            .await
            .unwrap();
        // All that can be sent has arrived, and has not been read.
        for _ in 0..5_000 {
            tokio::task::yield_now().await;
        }
        let answers = response.into_body().collect().await.unwrap().to_bytes();
        let mut rest = &answers[..];
        let mut count = 0;
        while let Some((head, after)) = rest.split_at_checked(5) {
            let length = u32::from_be_bytes(head[1..].try_into().unwrap());
            rest = &after[usize::try_from(length).unwrap()..];
            count += 1;
        }
        assert_eq!(count, MESSAGES);
    }
}

/// Long answers take room among the bytes of requests until they have been sent.
#[tokio::test]
async fn answers_that_nobody_reads_are_bounded() {
    let house = House::with(RULES, |config| config.limits.buffer = 200 * 1024).await;
    let stream = TcpStream::connect(house.http()).await.unwrap();
    let mut builder = http2::Builder::new(TokioExecutor::new());
    // The heads of answers arrive, and nothing of their bodies.
    builder.initial_stream_window_size(0);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    let open = tokio::spawn(connection);
    let mut answers = Vec::new();
    for _ in 0..20 {
        let request = Request::get("http://h/openapi.json").body(Full::<Bytes>::default());
        sender.ready().await.unwrap();
        answers.push(sender.send_request(request.unwrap()).await.unwrap());
    }
    let length = answers[0].headers()["content-length"].to_str().unwrap();
    let room = (200 + 16) * 1024 / length.parse::<usize>().unwrap();
    let statuses: Vec<_> = answers
        .iter()
        .map(|answer| answer.status().as_u16())
        .collect();
    assert_eq!(statuses, [vec![200; room], vec![503; 20 - room]].concat());
    // Short ones are still answered, here and elsewhere.
    let request = Request::get("http://h/healthz").body(Full::default());
    assert_eq!(
        sender
            .send_request(request.unwrap())
            .await
            .unwrap()
            .status(),
        200
    );
    let mut other = Client::to(house.http()).await;
    assert_eq!(other.post("/v1/check", CHECK).await.status, 200);
    assert_eq!(other.get("/openapi.json").await.status, 503);
    // The administrator sees it.
    let text = metrics(&house).await;
    let line = "tollgate_request_errors_total{listener=\"http\",kind=\"no_room\"} ";
    assert!(text.lines().any(|found| found.starts_with(line)), "{text}");
    drop((answers, sender));
    open.abort();
    eventually(async || other.get("/openapi.json").await.status == 200).await;
    let is_free = |text: String| {
        text.lines()
            .any(|line| line == "tollgate_request_bytes_held 0")
    };
    eventually(async || is_free(metrics(&house).await)).await;
}

/// The proxy's host is in the target of a request of HTTP/2.
#[tokio::test]
async fn forward_auth_knows_the_client_and_the_host() {
    let statuses = ask_about("from: client_address", |last| {
        let request = Request::get("http://h/v1/auth").header("x-original-method", "GET");
        request.header("x-real-ip", format!("192.0.2.{last}"))
    });
    assert_eq!(statuses.await, [200, 200, 200, 200, 429, 200]);
    let statuses = ask_about("from: host, if_missing: deny", |last| {
        let request = Request::get(format!("http://h{last}/v1/auth"));
        request.header("x-original-method", "GET")
    });
    assert_eq!(statuses.await, [200, 200, 200, 200, 429, 200]);
}

/// The media type is that of the proxy's client, who must not choose what answers.
#[tokio::test]
async fn forward_auth_is_no_call_whatever_the_client_sends() {
    for media_type in ["application/grpc", "Application/GRPC+proto; x=y"] {
        for method in ["GET", "POST", "PUT"] {
            let statuses = ask_about("from: client_address", |last| {
                Request::builder()
                    .method(method)
                    .uri("http://h/v1/auth")
                    .header("x-original-method", method)
                    .header("content-type", media_type)
                    .header("x-real-ip", format!("192.0.2.{last}"))
            });
            assert_eq!(statuses.await, [200, 200, 200, 200, 429, 200]);
        }
    }
}

/// The statuses of `/v1/auth` for five requests with the number 1 and one with the number 2.
async fn ask_about(entry: &str, request: impl Fn(u8) -> request::Builder) -> Vec<u16> {
    let text = format!(
        "rules: r\nauth: {{domain: d, source: x-original-uri, identity: {{client_address: \
         {{source: x-real-ip}}, descriptors: [{{entries: [{{key: k, {entry}}}]}}]}}}}\n"
    );
    let auth = Config::parse(&Source::new("tollgate.yaml", text), Path::new("."));
    let auth = auth.unwrap().auth;
    let house = House::with(RULES, |config| config.auth = auth).await;
    let mut two = Http2::to(&house).await;
    let mut statuses = Vec::new();
    for last in [1, 1, 1, 1, 1, 2] {
        let request = request(last).header("x-original-uri", "/");
        statuses.push(
            two.send(request.body(String::new()).unwrap())
                .await
                .0
                .as_u16(),
        );
    }
    statuses
}

#[tokio::test]
async fn over_tls_the_client_chooses() {
    let secured = Secured::new().await;
    let stream = secured.connect(ListenerKind::Http, None).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut two = Http2::over(stream).await;
    assert_eq!(two.get("/healthz").await.0, 200);
    let mut one = secured.client(ListenerKind::Http).await;
    assert_eq!(one.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_full_listener_answers_health_checks_of_each_protocol_and_nothing_else() {
    let house = House::with(RULES, |config| config.limits.connections = 1).await;
    let mut kept = Http2::to(&house).await;
    assert_eq!(kept.get("/healthz").await.0, 200);
    assert_eq!(Http2::to(&house).await.get("/readyz").await.0, 200);
    let (status, _, body) = Http2::to(&house).await.post("/v1/check", CHECK).await;
    assert_eq!(status, 503);
    assert!(body.contains("connection limit is reached"), "{body}");
    let grpc = grpc_client::Client::to(house.http()).await;
    assert_eq!(health(&grpc, "ratelimit").await, 1);
    let grpc = grpc_client::Client::to(house.http()).await;
    let denied = grpc.ask(GOOD).await.unwrap_err();
    assert_eq!(denied.code(), tonic::Code::Unavailable, "{denied:?}");
    assert_eq!(kept.post("/v1/check", CHECK).await.0, 200);
}

#[tokio::test]
async fn a_stop_ends_connections_of_http2_after_their_answers() {
    let house = House::with(RULES, |config| {
        config.limits.stop_delay = std::time::Duration::from_secs(1);
    })
    .await;
    let mut two = Http2::to(&house).await;
    let grpc = grpc_client::Client::to(house.http()).await;
    assert_eq!(two.get("/readyz").await.0, 200);
    let stopping = tokio::spawn(house.running.stop());
    eventually(async || two.get("/readyz").await.0 == 503).await;
    assert_eq!(health(&grpc, "ratelimit").await, 2);
    assert_eq!(two.post("/v1/check", CHECK).await.0, 200);
    stopping.await.unwrap();
    assert!(two.0.ready().await.is_err());
}
