//! HTTP/2 from clients and to upstreams, and gRPC over both.

use std::convert::Infallible;
use std::error::Error;

use http::{HeaderMap, Request, Version};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Body, Bytes, Frame};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tollgate_server::Config;

use super::upstream::{Echo, Stage};
use super::{FREE, RULES, gateway, gateway_with, section_of};
use crate::grpc_client;
use crate::house::House;
use crate::http_client::Client;
use crate::stopping::health;

const DECISIONS: &str = "domain: d\ndescriptors: [{key: k, rate_limit: 1000/day}]\n";
const GOOD: &str = r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}"#;

/// A gateway in front of a gRPC service, here that of another Tollgate.
async fn grpc_gateway(service: &House, more: &str) -> House {
    let upstream = format!("{{addresses: ['{}'], protocol: h2c}}", service.grpc());
    gateway_with(RULES, section_of(&upstream, more), |_| ()).await
}

/// A connection, and its socket, by which it can be cut.
pub(super) async fn open<B>(house: &House) -> (http2::SendRequest<B>, std::net::TcpStream)
where
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
{
    let stream = TcpStream::connect(house.gateway()).await.unwrap();
    let socket = stream.into_std().unwrap();
    let stream = TcpStream::from_std(socket.try_clone().unwrap()).unwrap();
    let shaken = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (sender, connection) = shaken.unwrap();
    tokio::spawn(connection);
    (sender, socket)
}

pub(super) async fn connect(house: &House) -> http2::SendRequest<Full<Bytes>> {
    open(house).await.0
}

#[tokio::test]
async fn calls_of_grpc_pass_and_a_denial_is_a_status_of_grpc() {
    let service = House::on(DECISIONS).await;
    let house = grpc_gateway(&service, "").await;
    let client = grpc_client::Client::to(house.gateway()).await;
    for _ in 0..2 {
        client.ask(GOOD).await.unwrap();
    }
    let denied = client.ask(GOOD).await.unwrap_err();
    assert_eq!(denied.code(), tonic::Code::ResourceExhausted, "{denied:?}");
    assert!(denied.message().contains("remote_address"), "{denied:?}");
}

#[tokio::test]
async fn errors_and_streams_of_grpc_arrive_with_their_trailers() {
    let service = House::on(DECISIONS).await;
    let house = grpc_gateway(&service, FREE).await;
    let client = grpc_client::Client::to(house.gateway()).await;
    assert_eq!(health(&client, "ratelimit").await, 1);
    let mut watch = client.watch_health("ratelimit").await;
    assert_eq!(watch.message().await.unwrap().unwrap().status, 1);
    let stopping = tokio::spawn(service.running.stop());
    assert_eq!(watch.message().await.unwrap().unwrap().status, 2);
    // The trailers of the stream's end.
    let end = watch.message().await.unwrap_err();
    assert_eq!(end.code(), tonic::Code::Unavailable, "{end:?}");
    stopping.await.unwrap();
    // Nobody is there any more.
    let gone = client.ask(GOOD).await.unwrap_err();
    assert_eq!(gone.code(), tonic::Code::Unavailable, "{gone:?}");
}

#[tokio::test]
async fn a_client_of_http2_reaches_an_upstream_of_http1() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, "").await;
    let mut client = connect(&house).await;
    for _ in 0..2 {
        let request = Request::post("http://shop.example:81/a?b")
            .version(Version::HTTP_2)
            .header("cookie", "a=1")
            .header("cookie", "b=2")
            .header("te", "trailers");
        let request = request.body(Full::from("hello")).unwrap();
        let response = client.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(response.headers().contains_key("ratelimit"));
        assert!(!response.headers().contains_key("connection"));
        let body = response.into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes(), "hello");
    }
    let request = Request::get("http://shop.example/").body(Full::default());
    let denied = client.send_request(request.unwrap()).await.unwrap();
    assert_eq!(denied.status(), 429);
    let seen = upstream.requests();
    assert_eq!(seen.len(), 2);
    for field in [
        "cookie: a=1; b=2",
        "host: shop.example:81",
        "via: 2.0 tollgate",
    ] {
        assert!(seen[0].fields.contains(&field.to_owned()), "{seen:?}");
    }
}

#[tokio::test]
async fn an_upstream_of_http1_gets_one_of_several_equal_lengths() {
    // A server of the HTTP library would merge them itself.
    let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let house = gateway(upstream.local_addr().unwrap(), "").await;
    let mut client = connect(&house).await;
    let request = Request::post("http://h/")
        .header("content-length", "5")
        .header("content-length", "5")
        .body(Full::from("hello"));
    let answered = tokio::spawn(client.send_request(request.unwrap()));
    let (mut stream, _) = upstream.accept().await.unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"hello") {
        assert_ne!(stream.read_buf(&mut seen).await.unwrap(), 0);
    }
    let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
    stream.write_all(answer).await.unwrap();
    assert_eq!(answered.await.unwrap().unwrap().status(), 204);
    let seen = String::from_utf8(seen).unwrap().to_ascii_lowercase();
    assert_eq!(seen.matches("content-length: 5\r\n").count(), 1, "{seen}");
}

/// The HTTP library compares numbers; an upstream may take `010` for 8.
#[tokio::test]
async fn lengths_that_are_written_differently_are_rejected() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, "").await;
    for lengths in [["10", "010"], ["010", "10"]] {
        let mut client = connect(&house).await;
        let mut request = Request::post("http://h/");
        for length in lengths {
            request = request.header("content-length", length);
        }
        let request = request.body(Full::from("0123456789"));
        let response = client.send_request(request.unwrap()).await.unwrap();
        assert_eq!(response.status(), 400, "{lengths:?}");
    }
    assert_eq!(upstream.requests().len(), 0);
}

/// The response to a HEAD, whose head ends its stream; and its length.
async fn head(client: &mut http2::SendRequest<Full<Bytes>>, uri: &str) -> (u16, Option<String>) {
    let request = Request::head(uri).body(Full::default()).unwrap();
    let response = client.send_request(request).await.unwrap();
    assert!(response.body().is_end_stream(), "{uri}: {response:?}");
    let length = response.headers().get("content-length");
    let length = length.map(|length| length.to_str().unwrap().to_owned());
    (response.status().as_u16(), length)
}

/// In HTTP/1.1, the HTTP library does not send the body of a response to HEAD; in HTTP/2 it does,
/// and clients take that for a broken response.
#[tokio::test]
async fn responses_of_our_own_to_head_have_no_body() {
    let upstream = Echo::start().await;
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = nobody.local_addr().unwrap();
    drop(nobody);
    let upstreams = format!(
        "{{addresses: ['{}']}}, gone: {{addresses: ['{gone}']}}",
        upstream.address
    );
    let more = format!(
        "identity: {{descriptors: [
            {{entries: [{{key: remote_address, from: client_address}}]}},
            {{entries: [{{key: a, from: {{query: a}}, if_missing: skip}}]}}]}},
        routes: [
            {{name: all, match: {{hosts: [h]}}, upstream: api}},
            {{name: free, match: {{hosts: [free]}}, upstream: api, {FREE}}},
            {{name: gone, match: {{hosts: [gone]}}, upstream: gone, {FREE}}}]"
    );
    let house = gateway_with(RULES, section_of(&upstreams, &more), |_| ()).await;
    let mut client = connect(&house).await;
    for status in [200, 200, 429] {
        let (found, _) = head(&mut client, "http://h/").await;
        assert_eq!(found, status);
    }
    for (uri, status) in [
        ("http://h/", 429),
        ("http://h/?a=1&a=2", 400),
        ("http://other/", 404),
        ("http://gone/", 502),
    ] {
        let request = Request::get(uri).body(Full::default()).unwrap();
        let response = client.send_request(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let length = Some(body.len().to_string());
        assert_eq!(head(&mut client, uri).await, (status, length), "{uri}");
    }
    assert_eq!(head(&mut client, "http://free/").await.0, 200);
    // In HTTP/1.1, the length is the same, and the next response follows.
    let mut client = Client::to(house.gateway()).await;
    client.send(b"HEAD / HTTP/1.1\r\nhost: h\r\n\r\n").await;
    let head = client.read_until("\r\n\r\n").await;
    client.send(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").await;
    let denied = client.reply().await.unwrap();
    assert_eq!(denied.status, 429);
    let length = format!("\r\ncontent-length: {}\r\n", denied.body.len());
    assert!(
        head.starts_with("HTTP/1.1 429 ") && head.contains(&length),
        "{head}"
    );
}

#[tokio::test]
async fn a_head_beyond_the_connection_limit_has_no_body() {
    let upstream = Echo::start().await;
    let settings = super::section(upstream.address, FREE);
    let change = |config: &mut Config| config.limits.connections = 2;
    let house = gateway_with(RULES, settings, change).await;
    let _silent = [
        Client::to(house.gateway()).await,
        Client::to(house.gateway()).await,
    ];
    let mut client = connect(&house).await;
    assert_eq!(head(&mut client, "http://h/").await.0, 503);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_streams_at_once_exactly_as_many_as_the_limit_reach_the_upstream() {
    let upstream = Echo::start().await;
    let rules = RULES.replace("2/hour", "50/hour");
    let settings = super::section(upstream.address, "");
    let house = gateway_with(&rules, settings, |_| ()).await;
    let client = connect(&house).await;
    let mut streams = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let mut client = client.clone();
        streams.spawn(async move {
            let request = Request::get("http://h/").body(Full::default()).unwrap();
            client.send_request(request).await.unwrap().status()
        });
    }
    let statuses = streams.join_all().await;
    let allowed = statuses.iter().filter(|status| status.as_u16() == 200);
    assert_eq!(allowed.count(), 50);
    assert_eq!(upstream.requests().len(), 50);
}

#[tokio::test]
async fn a_client_of_http1_reaches_an_upstream_of_http2() {
    let service = House::on(DECISIONS).await;
    let house = grpc_gateway(&service, FREE).await;
    let mut client = Client::to(house.gateway()).await;
    // The service of gRPC rejects it, in HTTP.
    let reply = client.get("/").await;
    assert_eq!(reply.status, 405, "{reply:?}");
    assert_eq!(reply.header("allow"), Some("POST"));
    assert_eq!(reply.header("via"), Some("2.0 tollgate"));
}

#[tokio::test]
async fn a_stream_that_its_client_resets_is_dropped_at_the_upstream() {
    let stage = Stage::open().await;
    let house = gateway(stage.address(), FREE).await;
    let mut client = connect(&house).await;
    let request = Request::get("http://h/").body(Full::default()).unwrap();
    let mut upstream = {
        let mut response = std::pin::pin!(client.send_request(request));
        tokio::select! {
            _ = &mut response => panic!("no response was sent"),
            upstream = stage.accept() => upstream,
        }
    };
    upstream.wait_for_end().await;
    let request = Request::get("http://h/").body(Full::default()).unwrap();
    let answer = async {
        let mut upstream = stage.accept().await;
        upstream.head().await;
        upstream
            .send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-end\r\n\r\n")
            .await;
        upstream.send("1\r\na\r\n0\r\nx-end: 1\r\n\r\n").await;
        upstream
    };
    let (response, _upstream) = tokio::join!(client.send_request(request), answer);
    let body = response.unwrap().into_body().collect().await.unwrap();
    let mut expected = HeaderMap::new();
    expected.insert("x-end", "1".parse().unwrap());
    assert_eq!(body.trailers(), Some(&expected));
}

#[tokio::test]
async fn a_stream_whose_body_comes_byte_by_byte_gets_408_and_the_others_continue() {
    let stage = Stage::open().await;
    let more = format!("{FREE}, timeouts: {{body: 500ms}}, body_rate: 1GiB");
    let house = gateway(stage.address(), &more).await;
    let (mut client, _socket) = open(&house).await;
    let (send, parts) = mpsc::channel::<Result<Frame<Bytes>, Infallible>>(1);
    let byte = || Ok(Frame::data(Bytes::from_static(b"a")));
    let request = Request::post("http://h/").body(StreamBody::new(ReceiverStream::new(parts)));
    let slow = client.send_request(request.unwrap());
    let drip = async {
        send.send(byte()).await.unwrap();
        let mut upstream = stage.accept().await;
        upstream.head().await;
        // Never a pause that would be too long by itself: the next byte follows as soon as the last
        // one has arrived. It ends with the connection to the upstream.
        let mut part = [0; 64];
        while let Ok(1..) = upstream.0.read(&mut part).await {
            let _ = send.send(byte()).await;
        }
    };
    let (response, ()) = tokio::join!(slow, drip);
    let response = response.unwrap();
    assert_eq!(response.status(), 408);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let expected = "the body comes slower than 1073741824 bytes a second; send it faster";
    assert_eq!(json["detail"], expected);
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    let counted = "{route=\"default\",outcome=\"slow_body\"} 1\n";
    assert!(metrics.contains(counted), "{metrics}");
    // It was the stream's fault, not the connection's.
    let (send, parts) = mpsc::channel(1);
    let request = Request::post("http://h/").body(StreamBody::new(ReceiverStream::new(parts)));
    let answer = async {
        send.send(byte()).await.unwrap();
        drop(send);
        let mut upstream = stage.accept().await;
        upstream.head().await;
        upstream
            .send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .await;
        upstream
    };
    let (response, _upstream) = tokio::join!(client.send_request(request.unwrap()), answer);
    assert_eq!(response.unwrap().status(), 200);
}

/// The library closes connections with many short frames that were not read.
#[tokio::test]
async fn short_frames_that_have_not_been_read_end_no_connection() {
    const FRAMES: usize = 3_000;
    let stage = Stage::open().await;
    let house = gateway(stage.address(), FREE).await;
    let (mut client, _socket) = open(&house).await;
    let frame = |_| Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[b'a'; 20])));
    let body = StreamBody::new(tokio_stream::iter((0..FRAMES).map(frame)));
    let request = Request::post("http://h/").body(body).unwrap();
    let upload = client.send_request(request);
    let answer = async {
        let mut upstream = stage.accept().await;
        upstream.head().await;
        let body = upstream.read_until("\r\n0\r\n\r\n").await;
        let response = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        upstream.send(response).await;
        (body, upstream)
    };
    let (response, (body, _upstream)) = tokio::join!(upload, answer);
    assert_eq!(response.unwrap().status(), 200);
    assert_eq!(body.matches('a').count(), FRAMES * 20);
}
