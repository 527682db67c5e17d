//! The stream of decisions, byte by byte.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{JoinSet, yield_now};
use tollgate_rls::decisions::{CheckRequest, CheckResponse, Descriptor};

use crate::decisions::{check_in, entry};
use crate::house::House;
use crate::over_redis::metric;

const RULES: &str = "domain: d\ndescriptors: [{key: k, rate_limit: 3/day}]\n";
/// Most of the largest message.
const LONG: usize = 15 * 1024;

type Body = BoxBody<Bytes, Infallible>;

/// A connection.
struct Connection {
    requests: SendRequest<Body>,
    /// Drives it until it is dropped.
    _driver: JoinSet<hyper::Result<()>>,
}

/// A call whose body is sent in parts.
struct Call {
    parts: Sender<Bytes>,
    response: Response<Incoming>,
}

// === impl Connection ===

impl Connection {
    async fn to(house: &House) -> Connection {
        let stream = TcpStream::connect(house.grpc()).await.unwrap();
        let io = TokioIo::new(stream);
        let (requests, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
                .await
                .unwrap();
        Connection {
            requests,
            _driver: JoinSet::from_iter([connection]),
        }
    }

    /// Begins a call.
    async fn call(&mut self, encoding: &str) -> Call {
        let (parts, body) = channel(16);
        let next = |mut body: Receiver<Bytes>| async move {
            let part = body.recv().await?;
            Some((Ok(Frame::data(part)), body))
        };
        let body = StreamBody::new(unfold(body, next));
        let request = Request::post("http://h/tollgate.v1.Decisions/Check")
            .header("content-type", "application/grpc")
            .header("grpc-encoding", encoding)
            .body(Body::new(body))
            .unwrap();
        let response = self.requests.send_request(request).await.unwrap();
        Call { parts, response }
    }
}

// === impl Call ===

impl Call {
    async fn send(&self, part: &[u8]) {
        self.parts.send(Bytes::copy_from_slice(part)).await.unwrap();
    }

    /// The next answer.
    async fn answer(&mut self) -> CheckResponse {
        let frame = self.response.body_mut().frame().await.unwrap().unwrap();
        let mut data = frame.into_data().unwrap();
        let answer = next_answer(&mut data);
        assert!(data.is_empty());
        answer
    }

    /// Ends the body.
    fn close(&mut self) {
        self.parts = channel(1).0;
    }

    /// The status with which it ends, and its text.
    async fn end(self) -> (String, String) {
        let mut headers = self.response.headers().clone();
        let body = self.response.into_body().collect().await.unwrap();
        headers.extend(body.trailers().cloned().unwrap_or_default());
        let text = |name: &str| {
            let value = headers.get(name).map(|value| value.to_str().unwrap());
            value.unwrap_or_default().replace("%20", " ")
        };
        (text("grpc-status"), text("grpc-message"))
    }
}

/// A message for one descriptor as gRPC frames it.
fn framed(id: u64, value: &[u8]) -> Vec<u8> {
    let mut request = check_in("d", entry("k", value));
    request.id = id;
    frame(&request)
}

/// A message as gRPC frames it.
fn frame(request: &CheckRequest) -> Vec<u8> {
    let message = request.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], &message].concat()
}

/// Takes the answer at the beginning of `bytes`.
fn next_answer(bytes: &mut Bytes) -> CheckResponse {
    let head = bytes.split_to(5);
    let length = usize::try_from(u32::from_be_bytes(head[1..].try_into().unwrap())).unwrap();
    assert_eq!(head[0], 0);
    CheckResponse::decode(bytes.split_to(length)).unwrap()
}

#[tokio::test]
async fn messages_may_be_split_anywhere() {
    let house = House::on(RULES).await;
    let mut connection = Connection::to(&house).await;
    let mut call = connection.call("identity").await;
    let bytes = framed(1, b"a");
    for byte in bytes.chunks(1) {
        call.send(byte).await;
    }
    assert_eq!(call.answer().await.id, 1);
    // The end of one with the beginning of the next.
    let both = [framed(2, b"a"), framed(3, b"a")].concat();
    let middle = both.len() - 3;
    call.send(&both[..middle]).await;
    assert_eq!(call.answer().await.id, 2);
    call.send(&both[middle..]).await;
    let third = call.answer().await;
    assert_eq!((third.id, third.allowed), (3, true));
    call.send(&framed(4, b"a")).await;
    assert!(!call.answer().await.allowed);
    call.close();
    assert_eq!(call.end().await, ("0".into(), String::new()));
}

#[tokio::test]
async fn a_message_that_does_not_arrive_in_time_ends_the_call() {
    let timeout = Duration::from_millis(50);
    let house = House::with(RULES, |config| config.limits.body_timeout = timeout).await;
    let mut connection = Connection::to(&house).await;
    let mut call = connection.call("identity").await;
    call.send(&framed(1, b"a")).await;
    assert!(call.answer().await.allowed);
    let next = framed(2, b"a");
    call.send(&next[..next.len() - 1]).await;
    let parts = call.parts.clone();
    let (status, text) = call.end().await;
    assert_eq!(status, "4", "{text}");
    assert_eq!(
        text,
        "the message did not arrive within 50ms; send it at once"
    );
    drop(parts);
    let late = r#"tollgate_request_errors_total{listener="grpc",kind="timeout"}"#;
    assert_eq!(metric(&house, late).await, 1);
}

#[tokio::test]
async fn only_what_has_arrived_of_a_message_is_reserved() {
    let house = House::on(RULES).await;
    let held = || metric(&house, "tollgate_request_bytes_held");
    let mut connection = Connection::to(&house).await;
    let mut calls = Vec::new();
    for _ in 0..4 {
        calls.push(connection.call("identity").await);
    }
    let long = framed(1, &[b'x'; LONG]);
    let (most, rest) = long.split_at(long.len() - 1);
    // The second time, its buffers have been used before.
    for allowed in [[true, true, true, false], [false; 4]] {
        for call in &calls {
            call.send(most).await;
        }
        // All but what each connection may hold anyway.
        let unfinished = u64::try_from(4 * most.len() - 16 * 1024).unwrap();
        while held().await < unfinished {
            yield_now().await;
        }
        for (call, allowed) in calls.iter_mut().zip(allowed) {
            call.send(rest).await;
            assert_eq!(call.answer().await.allowed, allowed);
        }
        while held().await > 0 {
            yield_now().await;
        }
    }
}

/// A message for so many descriptors without entries, which are short and have long answers.
fn framed_empty(id: u64, descriptors: usize) -> Vec<u8> {
    let mut request = check_in("d", entry("k", b"v"));
    request.id = id;
    request.descriptors = vec![Descriptor::default(); descriptors];
    frame(&request)
}

#[tokio::test]
async fn a_batch_that_has_no_room_is_decided_in_parts() {
    let house = House::with(RULES, |config| {
        config.limits.buffer_per_connection = 48 * 1024;
    })
    .await;
    let mut connection = Connection::to(&house).await;
    let mut call = connection.call("identity").await;
    // As many descriptors as a batch may have, for whose answers there is no room at once.
    let ids = 0..32;
    let parts: Vec<_> = ids.clone().map(|id| framed_empty(id, 16)).collect();
    call.send(&parts.concat()).await;
    call.close();
    let body = call.response.into_body().collect().await.unwrap();
    let status = body.trailers().unwrap()["grpc-status"].clone();
    assert_eq!(status, "0");
    let mut answers = body.to_bytes();
    for id in ids {
        assert_eq!(next_answer(&mut answers).id, id);
    }
    assert!(answers.is_empty());
}

#[tokio::test]
async fn a_request_that_has_no_room_ends_the_call_and_is_counted_as_that() {
    let house = House::with(RULES, |config| {
        config.limits.buffer_per_connection = 48 * 1024;
    })
    .await;
    let mut connection = Connection::to(&house).await;
    let call = connection.call("identity").await;
    call.send(&framed_empty(1, 1000)).await;
    assert_eq!(call.end().await.0, "8");
    let counted = |kind: &str| {
        let line = format!("tollgate_request_errors_total{{listener=\"grpc\",kind=\"{kind}\"}}");
        let house = &house;
        async move { metric(house, &line).await }
    };
    assert_eq!(counted("no_room").await, 1);
}

#[tokio::test]
async fn a_body_that_is_no_message_ends_the_call() {
    let house = House::on(RULES).await;
    let mut connection = Connection::to(&house).await;
    let message = framed(1, b"a");
    let cases: [(&[u8], &str, &str); 4] = [
        (&message[..4], "3", "of which 4 bytes arrived"),
        (&message[..message.len() - 1], "3", "ends within a message"),
        (b"\x01\0\0\0\x01x", "13", "marked as compressed (1)"),
        (
            b"\0\0\0\x40\x01",
            "11",
            "a message has 16385 bytes; the most are 16384",
        ),
    ];
    for (part, status, text) in cases {
        let mut call = connection.call("identity").await;
        call.send(part).await;
        call.close();
        let ended = call.end().await;
        assert_eq!(ended.0, status, "{part:?}");
        assert!(ended.1.contains(text), "{ended:?}");
    }
}

#[tokio::test]
async fn a_compressed_call_learns_which_encoding_is_read() {
    let house = House::on(RULES).await;
    let mut connection = Connection::to(&house).await;
    let call = connection.call("gzip").await;
    assert_eq!(call.response.headers()["grpc-accept-encoding"], "identity");
    let (status, text) = call.end().await;
    assert_eq!(status, "12", "{text}");
    assert!(text.contains("grpc-encoding"), "{text}");
}
