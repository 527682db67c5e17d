//! When a stream of HTTP/2 is no longer in flight: its response ends, it is reset, or its
//! connection dies. Another stream of the same connection then takes its permit.

use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use tokio::io::AsyncWriteExt;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::super::http2::open;
use super::super::upstream::{Actor, Stage};
use super::super::{FREE, gateway};
use super::{TIMEOUT, start, wait_for};

type Sender = SendRequest<BoxBody<Bytes, io::Error>>;
type Answer = JoinHandle<hyper::Result<Response<Incoming>>>;

/// A body of which one part is sent; it fails when its owner drops the other end, which resets its
/// stream.
struct Begun {
    part: Option<Bytes>,
    failing: oneshot::Receiver<()>,
}

// === impl Begun ===

impl Begun {
    fn new(part: &'static str) -> (Begun, oneshot::Sender<()>) {
        let (end, failing) = oneshot::channel();
        let part = Some(Bytes::from(part));
        (Begun { part, failing }, end)
    }
}

impl Body for Begun {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(part) = self.part.take() {
            return Poll::Ready(Some(Ok(Frame::data(part))));
        }
        let _ = ready!(Pin::new(&mut self.failing).poll(cx));
        Poll::Ready(Some(Err(io::ErrorKind::Interrupted.into())))
    }
}

fn get() -> Request<BoxBody<Bytes, io::Error>> {
    let body = Empty::new().map_err(|never| match never {}).boxed();
    Request::get("http://h/").body(body).unwrap()
}

fn upload(body: Begun) -> Request<BoxBody<Bytes, io::Error>> {
    Request::post("http://h/").body(body.boxed()).unwrap()
}

/// Sends a request on a stream of its own.
fn send(client: &Sender, request: Request<BoxBody<Bytes, io::Error>>) -> Answer {
    let mut client = client.clone();
    tokio::spawn(async move {
        client.ready().await?;
        client.send_request(request).await
    })
}

async fn expect_denial(client: &Sender) {
    let denied = send(client, get()).await.unwrap().unwrap();
    assert_eq!(denied.status(), 429);
}

/// Waits until a request is at the upstream, on a new connection to it; it must not be answered.
async fn arrive(stage: &Stage, answer: &mut Answer) -> Actor {
    let arrived = async {
        let mut upstream = stage.accept().await;
        upstream.head().await;
        upstream
    };
    tokio::select! {
        upstream = arrived => upstream,
        answer = answer => panic!("answered by the gateway: {answer:?}"),
    }
}

/// The body of a response whose head and first part have arrived.
async fn begin(answer: Answer, upstream: &mut Actor, response: &str, part: &str) -> Incoming {
    upstream.send(response).await;
    let mut body = answer.await.unwrap().unwrap().into_body();
    let frame = timeout(TIMEOUT, body.frame()).await.unwrap();
    assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), part);
    body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_request_may_follow_the_end_of_a_response_at_once() {
    let (stage, house) = start("").await;
    let (client, _socket) = open(&house).await;
    for (framing, part, end) in [
        ("content-length: 2", "a", "b"),
        ("transfer-encoding: chunked", "1\r\na\r\n", "0\r\n\r\n"),
        (
            "transfer-encoding: chunked\r\ntrailer: x-end",
            "1\r\na\r\n",
            "1\r\nb\r\n0\r\nx-end: 1\r\n\r\n",
        ),
    ]
    .repeat(20)
    {
        let mut answer = send(&client, get());
        let mut upstream = arrive(&stage, &mut answer).await;
        let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n{framing}\r\n\r\n{part}");
        let body = begin(answer, &mut upstream, &head, "a").await;
        expect_denial(&client).await;
        upstream.send(end).await;
        timeout(TIMEOUT, body.collect()).await.unwrap().unwrap();
    }
    // A response without a body ends with its head.
    for _ in 0..20 {
        let mut answer = send(&client, get());
        let mut upstream = arrive(&stage, &mut answer).await;
        let head = "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
        upstream.send(head).await;
        assert_eq!(answer.await.unwrap().unwrap().status(), 204);
    }
    wait_for(&house, 0).await;
}

#[tokio::test]
async fn a_stream_that_is_reset_during_its_response_is_no_longer_in_flight() {
    let (stage, house) = start("").await;
    let (client, _socket) = open(&house).await;
    for is_stalled in [false, true] {
        let mut answer = send(&client, get());
        let mut upstream = arrive(&stage, &mut answer).await;
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 999999999\r\n\r\na";
        let body = begin(answer, &mut upstream, head, "a").await;
        expect_denial(&client).await;
        if is_stalled {
            let flood = tokio::spawn(async move {
                // It stops at full buffers, and ends with the connection.
                while upstream.0.write_all(&[0; 1 << 16]).await.is_ok() {}
            });
            drop(body);
            timeout(TIMEOUT, flood).await.unwrap().unwrap();
        } else {
            drop(body);
            upstream.wait_for_end().await;
        }
        wait_for(&house, 0).await;
    }
    let mut answer = send(&client, get());
    arrive(&stage, &mut answer).await;
}

#[tokio::test]
async fn a_stream_that_is_reset_during_its_request_is_no_longer_in_flight() {
    let (stage, house) = start("").await;
    let (client, _socket) = open(&house).await;
    for _ in 0..20 {
        let (body, end) = Begun::new("abc");
        let mut answer = send(&client, upload(body));
        let mut upstream = arrive(&stage, &mut answer).await;
        upstream.read_until("abc").await;
        expect_denial(&client).await;
        drop(end);
        upstream.wait_for_end().await;
        assert!(answer.await.unwrap().is_err());
        wait_for(&house, 0).await;
    }
    let mut answer = send(&client, get());
    arrive(&stage, &mut answer).await;
}

#[tokio::test]
async fn no_stream_of_a_connection_that_dies_is_in_flight() {
    let stage = Stage::open().await;
    let limit = "in_flight: [{per: [anything], requests: 3}]";
    let house = gateway(stage.address(), &format!("{FREE}, {limit}")).await;
    let (client, socket) = open(&house).await;
    let mut waiting = send(&client, get());
    let mut first = arrive(&stage, &mut waiting).await;
    let mut answer = send(&client, get());
    let mut second = arrive(&stage, &mut answer).await;
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\na";
    let _body = begin(answer, &mut second, head, "a").await;
    let (body, _end) = Begun::new("abc");
    let mut uploading = send(&client, upload(body));
    let mut third = arrive(&stage, &mut uploading).await;
    third.read_until("abc").await;
    expect_denial(&client).await;
    let (other, _socket) = open(&house).await;
    expect_denial(&other).await;
    wait_for(&house, 3).await;
    socket.shutdown(Shutdown::Both).unwrap();
    for upstream in [&mut first, &mut second, &mut third] {
        upstream.wait_for_end().await;
    }
    wait_for(&house, 0).await;
    let mut answer = send(&other, get());
    arrive(&stage, &mut answer).await;
}
