//! Streams of HTTP/2 that end before their end, on either side of the gateway: frames as they are
//! on the wire.

use std::net::SocketAddr;
use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::floods::{END_HEADERS, RST_STREAM};
use super::http2::{connect, open};
use super::upstream::Stage;
use super::{FREE, RULES, gateway, gateway_with, section_of};
use crate::bounded::{
    ACK, END_STREAM, GOAWAY, HEADERS, PING, SETTINGS, answer_frame, connect_to, frame,
};
use crate::house::House;
use crate::http_client::Client;

/// Longer than any test takes.
const TIMEOUT: Duration = Duration::from_secs(20);
const DATA: u8 = 0;
/// `:status: 200`.
const OK: &[u8] = b"\x88";
/// `:status: 204`, and a `content-length` of 4.
const NO_CONTENT: &[u8] = b"\x89\x0f\x0d\x014";
/// `:status: 304`.
const NOT_MODIFIED: &[u8] = b"\x8b";
/// POST, http, `/` and the authority `h`, without compression.
const POST: &[u8] = b"\x83\x86\x84\x01\x01h";
const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;

/// A frame that came.
struct Received {
    kind: u8,
    flags: u8,
    stream: u32,
}

/// One side of a connection.
struct Peer(TcpStream);

/// A server of HTTP/2 that takes one connection.
struct Server(TcpListener);

impl Peer {
    /// The next frame of a stream, or GOAWAY; `None` at the end.
    async fn next(&mut self) -> Option<Received> {
        loop {
            let received = self.read().await?;
            if matches!(received.kind, DATA | HEADERS | RST_STREAM | GOAWAY) {
                return Some(received);
            }
        }
    }

    async fn read(&mut self) -> Option<Received> {
        let read = timeout(TIMEOUT, answer_frame(&mut self.0)).await;
        let head = read.expect("a frame comes")?;
        Some(Received {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes(head[5..].try_into().unwrap()),
        })
    }

    /// Waits until the other side has read and answered what was sent; whether the connection is
    /// open.
    async fn is_open(&mut self) -> bool {
        self.send(PING, 0, 0, b"12345678").await;
        while let Some(received) = self.read().await {
            match (received.kind, received.flags) {
                (PING, ACK) => return true,
                (GOAWAY, _) => return false,
                _ => {}
            }
        }
        false
    }

    /// Sends frames to streams of which the other side wants no more, one after the other.
    async fn send_late(&mut self, streams: &[u32]) {
        for _ in 0..30 {
            for stream in streams {
                self.send(DATA, 0, *stream, b"late").await;
            }
            assert!(self.is_open().await);
        }
    }

    /// The next frame of this kind.
    async fn next_of(&mut self, kind: u8) -> Received {
        loop {
            let received = self.next().await.expect("the connection is open");
            if received.kind == kind {
                return received;
            }
        }
    }

    async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        // The other side may have closed the connection, which the next frame shows.
        let _sent = self.0.write_all(&frame(kind, flags, stream, payload)).await;
    }

    async fn reset(&mut self, stream: u32, code: u32) {
        self.send(RST_STREAM, 0, stream, &code.to_be_bytes()).await;
    }
}

impl Server {
    async fn open() -> Server {
        Server(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    async fn accept(&self) -> Peer {
        let (mut stream, _) = timeout(TIMEOUT, self.0.accept()).await.unwrap().unwrap();
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).await.unwrap();
        let mut peer = Peer(stream);
        peer.send(SETTINGS, 0, 0, b"").await;
        peer
    }

    /// A gateway in front of it.
    async fn gateway(&self) -> House {
        let upstream = format!("{{addresses: ['{}'], protocol: h2c}}", self.address());
        gateway_with(RULES, section_of(&upstream, FREE), |_| ()).await
    }
}

fn get(path: &str) -> Request<Full<Bytes>> {
    let uri = format!("http://h{path}");
    Request::get(uri).body(Full::default()).unwrap()
}

/// The code with which the stream of a body was reset.
fn reason(error: &hyper::Error) -> Option<u32> {
    let source = std::error::Error::source(error)?;
    let error = source.downcast_ref::<h2::Error>()?;
    error.reason().map(u32::from)
}

#[tokio::test]
async fn a_response_that_is_reset_is_cut_off_with_a_code_of_our_own() {
    let server = Server::open().await;
    let house = server.gateway().await;
    let mut client = connect(&house).await;
    let mut upstream = None;
    // The others: not processed, cancelled, too many requests, HTTP/1.1 is required.
    for code in [NO_ERROR, INTERNAL_ERROR, 7, 8, 11, 13] {
        let respond = async {
            let mut peer = match upstream.take() {
                Some(peer) => peer,
                None => server.accept().await,
            };
            let stream = peer.next_of(HEADERS).await.stream;
            peer.send(HEADERS, END_HEADERS, stream, OK).await;
            peer.send(DATA, 0, stream, b"half").await;
            (peer, stream)
        };
        let (response, (mut peer, stream)) = tokio::join!(client.send_request(get("/")), respond);
        let mut body = response.unwrap().into_body();
        let half = body.frame().await.unwrap().unwrap();
        assert_eq!(half.into_data().unwrap(), "half");
        peer.reset(stream, code).await;
        let end = body.frame().await.expect("it does not end");
        let error = end.expect_err("it is cut off");
        assert_eq!(reason(&error), Some(INTERNAL_ERROR), "{code}: {error:?}");
        upstream = Some(peer);
    }
}

/// Over HTTP/1.1, the library drops it. Clients of HTTP/2 take it for a broken response.
#[tokio::test]
async fn a_body_behind_a_head_that_has_none_is_dropped() {
    let server = Server::open().await;
    let house = server.gateway().await;
    let mut client = connect(&house).await;
    let mut upstream = None;
    for (method, status) in [
        ("GET", NO_CONTENT),
        ("GET", NOT_MODIFIED),
        ("HEAD", OK),
        ("GET", NO_CONTENT),
    ] {
        let respond = async {
            let mut peer = match upstream.take() {
                Some(peer) => peer,
                None => server.accept().await,
            };
            let stream = peer.next_of(HEADERS).await.stream;
            peer.send(HEADERS, END_HEADERS, stream, status).await;
            peer.send(DATA, 0, stream, b"body").await;
            assert_eq!(peer.next_of(RST_STREAM).await.stream, stream);
            peer
        };
        let mut request = get("/");
        *request.method_mut() = method.parse().unwrap();
        let answered = async {
            let response = client.send_request(request).await.unwrap();
            assert!(!response.headers().contains_key("content-length"));
            let whole = response.into_body().collect().await.unwrap();
            assert_eq!(whole.to_bytes(), "", "{method} {status:?}");
        };
        let ((), peer) = timeout(TIMEOUT, async { tokio::join!(answered, respond) })
            .await
            .unwrap();
        upstream = Some(peer);
    }
}

/// A server may stop a request so, behind the whole response.
#[tokio::test]
async fn a_whole_response_is_not_cut_off_by_a_reset_behind_it() {
    let server = Server::open().await;
    let house = server.gateway().await;
    let mut client = Client::to(house.gateway()).await;
    client
        .send(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 10\r\n\r\npart")
        .await;
    let mut peer = server.accept().await;
    let stream = peer.next_of(HEADERS).await.stream;
    peer.send(HEADERS, END_HEADERS, stream, OK).await;
    peer.send(DATA, END_STREAM, stream, b"whole").await;
    peer.reset(stream, NO_ERROR).await;
    let whole = client.read_until("\r\n0\r\n\r\n").await;
    assert!(whole.ends_with("5\r\nwhole\r\n0\r\n\r\n"), "{whole}");
}

/// Whether an upload is cut off is a race with the end of its stream, so it is tried often.
#[tokio::test]
async fn an_upload_that_is_reset_is_no_whole_one_for_the_upstream() {
    for _ in 0..20 {
        let stage = Stage::open().await;
        let house = gateway(stage.address(), FREE).await;
        let mut client = Peer(connect_to(house.gateway(), 65_535).await);
        client.send(HEADERS, END_HEADERS, 1, POST).await;
        client.send(DATA, 0, 1, b"half").await;
        let mut upstream = stage.accept().await;
        upstream.head().await;
        client.reset(1, NO_ERROR).await;
        let mut rest = Vec::new();
        let end = timeout(TIMEOUT, upstream.0.read_to_end(&mut rest)).await;
        let _closed_or_reset = end.expect("it ends");
        let rest = String::from_utf8(rest).unwrap();
        assert!(!rest.ends_with("0\r\n\r\n"), "{rest}");
    }
}

/// The library counts each frame that still comes for a stream that it has reset.
#[tokio::test]
async fn clients_that_leave_their_responses_do_not_end_those_of_others() {
    let server = Server::open().await;
    let house = server.gateway().await;
    let mut client = connect(&house).await;
    let begin = async {
        let mut peer = server.accept().await;
        let stream = peer.next_of(HEADERS).await.stream;
        peer.send(HEADERS, END_HEADERS, stream, OK).await;
        (peer, stream)
    };
    let (response, (mut peer, stays)) = tokio::join!(client.send_request(get("/stays")), begin);
    let body = response.unwrap().into_body();
    for _ in 0..3 {
        let (leaver, socket) = open(&house).await;
        let mut leaving = Vec::new();
        for _ in 0..90 {
            let respond = async {
                let stream = peer.next_of(HEADERS).await.stream;
                peer.send(HEADERS, END_HEADERS, stream, OK).await;
            };
            let mut sender = leaver.clone();
            let (response, ()) = tokio::join!(sender.send_request(get("/leaves")), respond);
            leaving.push(response.unwrap());
        }
        socket.shutdown(std::net::Shutdown::Both).unwrap();
        let mut left = Vec::new();
        for _ in 0..leaving.len() {
            left.push(peer.next_of(RST_STREAM).await.stream);
        }
        peer.send_late(&left).await;
    }
    peer.send(DATA, END_STREAM, stays, b"whole").await;
    let whole = timeout(TIMEOUT, body.collect()).await.unwrap();
    assert_eq!(whole.unwrap().to_bytes(), "whole");
}
