//! Connections over other streams than sockets.

#![allow(clippy::unwrap_used)]

/// Counts nothing: that a connection is closed, or an error, fails the test.
macro_rules! expect_no_close {
    ($handler:ty) => {
        impl ConnectionCounts for $handler {
            fn count_open(&self) {}

            fn count_end(&self) {}

            fn count_close(&self, reason: &'static str) {
                panic!("{reason}");
            }

            fn count_reset(&self) {
                panic!("a response was reset");
            }

            fn count_error(&self, kind: &'static str) {
                panic!("{kind}");
            }
        }
    };
}

mod closings;
mod fairness;
mod own_responses;
mod slow_peers;
mod stopping;
mod tls_peer;
mod unread_streams;
mod upgrades;
mod waiting_bytes;

use std::convert::Infallible;
use std::future::{Ready, pending, ready};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::service::Service;
use hyper::{Request, Response};

use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufStream, DuplexStream, ReadBuf, duplex,
};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;

use super::http_session::run_tunnel;
use super::*;
use crate::address::PeerAddress;
use crate::drain_end::DRAIN_QUIET;
use crate::handler::Handler;
use crate::handshake::{Failure, Plain};
use crate::permits::{ConnectionLimits, RESERVED};
use crate::preface::PREFACE;
use crate::protocol::Protocol;
use crate::proxy_header::ProxyHeader;
use crate::raw_responses::NOT_HTTP2;
use crate::shutdown::{Shutdown, shutdown_channel};
use crate::source::Source;
use crate::tls::Tls;
use crate::tunnel::Tunnel;

/// More than any response here.
const ROOM: usize = 64 * 1024;
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
/// An empty SETTINGS frame.
const SETTINGS: &[u8] = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00";
/// The header of the frame that acknowledges it.
const SETTINGS_ACK: &[u8] = b"\x00\x00\x00\x04\x01\x00\x00\x00\x00";
/// How many frames a server may send before the acknowledgement.
const FRAMES_MAX: usize = 4;
/// What [`Secret`] expects first.
const SECRET: &[u8; 6] = b"secret";
/// What [`Everyone`] expects before that.
const PROXIED: &[u8] = b"proxied\n";

/// Answers every request with `served`; counts failed handshakes.
#[derive(Clone, Default)]
struct Served {
    failed_handshakes: Arc<AtomicUsize>,
}

impl Handler for Served {
    type Body = String;
    type Service = Answering;

    fn service(&self, connection: &Arc<Connection>) -> Answering {
        Answering(Arc::clone(connection))
    }
}

impl ConnectionCounts for Served {
    fn count_open(&self) {}

    fn count_end(&self) {}

    fn count_close(&self, reason: &'static str) {
        match reason {
            "handshake_broken" => {
                self.failed_handshakes.fetch_add(1, Ordering::Relaxed);
            }
            other => assert_eq!(other, "idle"),
        }
    }

    fn count_reset(&self) {
        panic!("a response was reset");
    }

    fn count_error(&self, kind: &'static str) {
        panic!("{kind}");
    }
}

/// Says that the connection ends if it does, as every handler must.
struct Answering(Arc<Connection>);

/// A handshake that expects [`SECRET`], and serves a stream of another type than a socket.
#[derive(Clone, Debug)]
struct Secret;

/// A handshake that never ends.
#[derive(Clone, Debug)]
struct Endless;

/// A stream that takes every byte and cannot be ended, as TLS whose peer reads nothing: its last
/// message waits for room.
struct Unending(DuplexStream);

impl AsyncRead for Unending {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Unending {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl Service<Request<Incoming>> for Answering {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Response<String>, Infallible>>;

    fn call(&self, _request: Request<Incoming>) -> Self::Future {
        let mut response = Response::new("served".to_owned());
        if self.0.ends() {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        ready(Ok(response))
    }
}

impl Handshake for Secret {
    type Stream = BufStream<RawSocket>;

    async fn handshake(
        &self,
        mut socket: RawSocket,
        _connection: &Arc<Connection>,
    ) -> Result<Self::Stream, HandshakeError> {
        let mut said = [0; SECRET.len()];
        socket.read_exact(&mut said).await?;
        match said == *SECRET {
            true => Ok(BufStream::new(socket)),
            false => Err(io::Error::from(ErrorKind::InvalidData).into()),
        }
    }
}

impl Handshake for Endless {
    type Stream = DuplexStream;

    async fn handshake(
        &self,
        _socket: RawSocket,
        _connection: &Arc<Connection>,
    ) -> Result<DuplexStream, HandshakeError> {
        pending().await
    }
}

async fn listener(protocol: Protocol) -> Listener {
    let any_port = "127.0.0.1:0".parse().unwrap();
    Listener::open("http", &any_port, protocol).await.unwrap()
}

fn address_of<T: Handshake>(listener: &Listener<T>) -> SocketAddr {
    listener.address().tcp().unwrap()
}

/// Serves a listener until it is drained.
fn spawn<T: Handshake>(listener: Listener<T>, handler: impl Handler) -> (Shutdown, JoinHandle<()>) {
    let limits = Limits::default();
    let (shutdown, signal) = shutdown_channel();
    let serving = tokio::spawn(listener.serve(
        Http(handler),
        ConnectionLimits::for_decisions(&limits),
        limits,
        Arc::new(Budget::new(&limits)),
        signal,
    ));
    (shutdown, serving)
}

/// A connection of HTTP/2 within these limits, and what it is served by.
fn http2_connection(limits: Limits) -> (Arc<Connection>, Terms) {
    let budget = Arc::new(Budget::new(&limits));
    let (peer, turn) = (PeerAddress::Unix, limits.turn_bytes);
    let connection = Connection::new(peer, false, turn, Arc::clone(&budget), Instant::now());
    let terms = Terms {
        protocol: Protocol::Http2,
        half_close: false,
        limits,
        budget,
        warnings: Arc::new(Warnings::new("gateway")),
    };
    (Arc::new(connection), terms)
}

/// The acceptor of a listener, and a connection that it may serve.
fn acceptor<T: Handshake>(
    listener: &Listener<T>,
    limits: Limits,
) -> (Arc<Acceptor<Http<Served>, T>>, Arc<Connection>) {
    let budget = Arc::new(Budget::new(&limits));
    let peer = PeerAddress::Unix;
    let connection = Connection::new(peer, false, 1000, Arc::clone(&budget), Instant::now());
    let (_, signal) = shutdown_channel();
    let acceptor = Acceptor::new(listener, Http(Served::default()), limits, budget, signal);
    (acceptor, Arc::new(connection))
}

/// The response of a listener to a request of HTTP/1 on a stream in memory.
async fn response_of(protocol: Protocol) -> Vec<u8> {
    let listener = listener(protocol).await;
    let (acceptor, connection) = acceptor(&listener, Limits::default());
    let (mut client, stream) = duplex(ROOM);
    client.write_all(REQUEST).await.unwrap();
    acceptor
        .session
        .serve(stream, &connection, &acceptor.terms)
        .await;
    let mut response = Vec::new();
    client.read_to_end(&mut response).await.unwrap();
    response
}

#[tokio::test(start_paused = true)]
async fn http1_is_served_on_a_stream_in_memory() {
    let response = String::from_utf8(response_of(Protocol::Http1).await).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(response.ends_with("\r\n\r\nserved"), "{response}");
}

/// The preface is read to recognise HTTP/2, also if it arrives in pieces, and still reaches the
/// HTTP/2 library.
#[tokio::test]
async fn http2_is_served_on_a_stream_in_memory() {
    let listener = listener(Protocol::Http2).await;
    let (acceptor, connection) = acceptor(&listener, Limits::default());
    let (mut client, stream) = duplex(ROOM);
    let talk = async move {
        client.write_all(&PREFACE[..10]).await.unwrap();
        yield_now().await;
        client.write_all(&PREFACE[10..]).await.unwrap();
        client.write_all(SETTINGS).await.unwrap();
        for _frame in 0..FRAMES_MAX {
            let mut header = [0; 9];
            client.read_exact(&mut header).await.unwrap();
            if header == SETTINGS_ACK {
                return;
            }
            let mut payload = vec![0; header[2].into()];
            client.read_exact(&mut payload).await.unwrap();
        }
        panic!("the settings are not acknowledged");
    };
    tokio::join!(
        acceptor.session.serve(stream, &connection, &acceptor.terms),
        talk
    );
}

/// On one listener, the first bytes say which of the two it is.
#[tokio::test(start_paused = true)]
async fn a_listener_of_any_protocol_serves_both() {
    let response = String::from_utf8(response_of(Protocol::Any).await).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    let listener = listener(Protocol::Any).await;
    // A beginning that both could have.
    for begun in [&PREFACE[..1], &PREFACE[..23], PREFACE] {
        let (acceptor, connection) = acceptor(&listener, Limits::default());
        let (mut client, stream) = duplex(ROOM);
        let talk = async {
            client.write_all(begun).await.unwrap();
            yield_now().await;
            client.write_all(&PREFACE[begun.len()..]).await.unwrap();
            client.write_all(SETTINGS).await.unwrap();
            let mut header = [0; 9];
            client.read_exact(&mut header).await.unwrap();
            assert_eq!(header[3], 4, "SETTINGS come first");
            drop(client);
        };
        tokio::join!(
            acceptor.session.serve(stream, &connection, &acceptor.terms),
            talk
        );
        assert!(connection.is_http2());
    }
    let (acceptor, connection) = acceptor(&listener, Limits::default());
    let (mut client, stream) = duplex(ROOM);
    client
        .write_all(b"PRI * HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    acceptor
        .session
        .serve(stream, &connection, &acceptor.terms)
        .await;
    let mut response = String::new();
    client.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(!connection.is_http2());
}

#[tokio::test(start_paused = true)]
async fn http1_on_a_stream_of_http2_is_answered() {
    assert_eq!(response_of(Protocol::Http2).await, NOT_HTTP2);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_cannot_be_ended_is_given_up() {
    let limits = Limits {
        write_timeout: Duration::ZERO,
        ..Limits::default()
    };
    for (protocol, answer) in [
        (Protocol::Http1, &b"HTTP/1.1 200 OK"[..]),
        (Protocol::Http2, NOT_HTTP2),
    ] {
        let listener = listener(protocol).await;
        let (acceptor, connection) = acceptor(&listener, limits);
        let (mut client, stream) = duplex(ROOM);
        client.write_all(REQUEST).await.unwrap();
        acceptor
            .session
            .serve(Unending(stream), &connection, &acceptor.terms)
            .await;
        assert_eq!(connection.close_reason(), Some(Close::SlowReader));
        let mut response = Vec::new();
        client.read_to_end(&mut response).await.unwrap();
        assert!(response.starts_with(answer), "{response:?}");
    }
}

/// A silent connection that makes room for another keeps its socket no longer. One that is drained
/// does for a moment: its request may be on its way.
#[tokio::test(start_paused = true)]
async fn a_connection_without_a_byte_ends_when_it_is_closed_and_soon_when_it_is_drained() {
    for protocol in [Protocol::Http1, Protocol::Http2, Protocol::Any] {
        for (is_drained, within) in [(false, Duration::ZERO), (true, DRAIN_QUIET)] {
            let listener = listener(protocol).await;
            let (acceptor, connection) = acceptor(&listener, Limits::default());
            let (mut client, stream) = duplex(ROOM);
            match is_drained {
                true => connection.drain(),
                false => connection.close(Close::Idle),
            }
            let began = tokio::time::Instant::now();
            let serve = acceptor.session.serve(stream, &connection, &acceptor.terms);
            serve.await;
            // The timer counts whole milliseconds.
            let most = within + Duration::from_millis(1);
            assert!((within..=most).contains(&began.elapsed()), "{protocol:?}");
            assert_eq!(client.read(&mut [0; 9]).await.unwrap(), 0);
        }
    }
}

#[tokio::test]
async fn a_handshake_comes_between_accepting_and_serving() {
    let listener = listener(Protocol::Http1).await.with_handshake(Secret);
    let (address, handler) = (address_of(&listener), Served::default());
    let (shutdown, serving) = spawn(listener, handler.clone());
    let mut responses = Vec::new();
    for first in [SECRET, b"wrong!"] {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(first).await.unwrap();
        if first == SECRET {
            client.write_all(REQUEST).await.unwrap();
        }
        let mut response = String::new();
        client.read_to_string(&mut response).await.unwrap();
        responses.push(response);
    }
    assert!(responses[0].ends_with("served"), "{responses:?}");
    assert_eq!(responses[1], "");
    shutdown.begin_drain();
    serving.await.unwrap();
    assert_eq!(handler.failed_handshakes.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_handshake_ends_in_time_or_when_its_connection_is_closed() {
    let listener = listener(Protocol::Http1).await.with_handshake(Endless);
    let now = Limits {
        header_timeout: Duration::ZERO,
        ..Limits::default()
    };
    for (limits, closes) in [(now, false), (Limits::default(), true)] {
        let (acceptor, connection) = acceptor(&listener, limits);
        let socket = TcpStream::connect(address_of(&listener)).await.unwrap();
        if closes {
            connection.close(Close::Idle);
        }
        let shaken = acceptor.shake_hands(socket.into(), &connection).await;
        let error = shaken.map(|shaken| shaken.unwrap_err().failure);
        assert_eq!(error, (!closes).then_some(Failure::TimedOut));
    }
}

/// Says that connections from everywhere begin with `proxied\n`, for one client.
#[derive(Debug)]
struct Everyone;

impl ProxyHeaders for Everyone {
    fn expects(&self, _peer: PeerAddress) -> bool {
        true
    }

    fn bytes_max(&self) -> usize {
        PROXIED.len()
    }

    fn parse(&self, bytes: &[u8]) -> io::Result<Option<ProxyHeader>> {
        let header = ProxyHeader {
            client: Some([192, 0, 2, 7].into()),
            bytes: PROXIED.len(),
        };
        Ok((bytes == PROXIED).then_some(header))
    }
}

/// It comes before any handshake.
#[tokio::test]
async fn a_header_names_the_client_before_the_handshake() {
    let listener = listener(Protocol::Http1).await.with_handshake(Secret);
    let listener = listener.with_proxy_headers(Arc::new(Everyone));
    let (acceptor, connection) = acceptor(&listener, Limits::default());
    let (mut client, stream) = UnixStream::pair().unwrap();
    client.write_all(PROXIED).await.unwrap();
    client.write_all(SECRET).await.unwrap();
    let shaken = acceptor.shake_hands(stream.into(), &connection).await;
    assert!(shaken.unwrap().is_ok());
    let named = Some(Some([192, 0, 2, 7].into()));
    assert_eq!(
        (connection.proxied_client(), connection.source()),
        (named, Source::Unix)
    );
}

/// A proxy that sends no header, or only a part of it, keeps its connection no longer than a
/// handshake may take, even if there is no handshake.
#[tokio::test(start_paused = true)]
async fn a_header_comes_in_time() {
    let listener = listener(Protocol::Http1).await;
    let listener = listener.with_proxy_headers(Arc::new(Everyone));
    for sent in [&b""[..], &PROXIED[..3]] {
        let (acceptor, connection) = acceptor(&listener, Limits::default());
        let (mut client, stream) = UnixStream::pair().unwrap();
        client.write_all(sent).await.unwrap();
        let began = tokio::time::Instant::now();
        let shaken = acceptor.shake_hands(stream.into(), &connection).await;
        let error = shaken.map(|shaken| shaken.unwrap_err().failure);
        assert_eq!(error, Some(Failure::TimedOut));
        // Timers have a resolution of a millisecond.
        let late = began
            .elapsed()
            .checked_sub(Limits::default().header_timeout);
        assert!(late.unwrap() <= Duration::from_millis(1), "{late:?}");
        assert_eq!(connection.proxied_client(), None);
    }
}

/// A health check is served although more connections than there are reserved permits come right
/// after it.
#[tokio::test]
async fn a_reserved_permit_lasts_until_its_request_was_looked_at() {
    let listener = listener(Protocol::Http1).await;
    let (address, limits) = (address_of(&listener), Limits::default());
    let mut check = TcpStream::connect(address).await.unwrap();
    check.write_all(REQUEST).await.unwrap();
    let mut hoarded = Vec::new();
    for _ in 0..2 * RESERVED {
        hoarded.push(TcpStream::connect(address).await.unwrap());
    }
    let (shutdown, signal) = shutdown_channel();
    let serving = tokio::spawn(listener.serve(
        Http(Served::default()),
        ConnectionLimits {
            connections: 0,
            per_source: 0,
        },
        limits,
        Arc::new(Budget::new(&limits)),
        signal,
    ));
    let mut response = String::new();
    check.read_to_string(&mut response).await.unwrap();
    assert!(response.ends_with("served"), "{response}");
    drop(hoarded);
    shutdown.begin_drain();
    serving.await.unwrap();
}

#[tokio::test]
async fn a_tunnel_is_not_idle_until_it_ends() {
    let budget = Arc::new(Budget::new(&Limits::default()));
    let peer = PeerAddress::Unix;
    let connection = Arc::new(Connection::new(peer, false, 1000, budget, Instant::now()));
    let (mut client, stream) = duplex(ROOM);
    connection.switch_protocols(Tunnel::new(|mut stream| async move {
        let mut read = Vec::new();
        stream.read_to_end(&mut read).await.unwrap();
        stream.write_all(&read).await.unwrap();
    }));
    let known = Arc::clone(&connection);
    let running = tokio::spawn(async move { run_tunnel(stream, &known).await });
    yield_now().await;
    let later = Instant::now() + Duration::from_secs(3600);
    assert_eq!(connection.idle_time(later), Duration::ZERO);
    // The drain leaves it alone.
    connection.drain();
    client.write_all(b"bytes").await.unwrap();
    client.shutdown().await.unwrap();
    let mut read = String::new();
    client.read_to_string(&mut read).await.unwrap();
    assert_eq!(read, "bytes");
    running.await.unwrap();
    assert!(connection.idle_time(later) > Duration::ZERO);
    assert!(connection.take_tunnel().is_none());
}

/// Clients that pause need a long `write_timeout`, and their connections end at their age anyway.
#[tokio::test(start_paused = true)]
async fn ages_are_looked_at_more_often_than_every_long_write_timeout() {
    let any_port = "127.0.0.1:0".parse().unwrap();
    let (binding, _) = Binding::open(&any_port).await.unwrap();
    let limits = Limits {
        connection_age: Duration::ZERO,
        write_timeout: Duration::from_secs(3600),
        ..Limits::default()
    };
    let listener = listener(Protocol::Http1).await;
    let budget = Arc::new(Budget::new(&limits));
    let (_shutdown, signal) = shutdown_channel();
    let session = Http(Served::default());
    let acceptor = Acceptor::new(&listener, session, limits, Arc::clone(&budget), signal);
    let bounds = ConnectionLimits::for_decisions(&limits);
    let connections = Arc::new(Connections::new(bounds, limits.turn_bytes, budget, None));
    let mut tasks = JoinSet::new();
    let mut accepting = pin!(acceptor.accept(&binding, &connections, &mut tasks));
    // The first look finds no connection.
    let _goes_on = timeout(Duration::from_millis(1), &mut accepting).await;
    let (permit, _) = connections.acquire(PeerAddress::Unix, Instant::now());
    let _goes_on = timeout(AGES_EVERY, &mut accepting).await;
    assert!(permit.connection.ends());
}

/// A listener to which nobody connects any more keeps no memory of the connections that have ended.
#[tokio::test]
async fn a_connection_that_has_ended_leaves_no_task() {
    let any_port = "127.0.0.1:0".parse().unwrap();
    let (binding, address) = Binding::open(&any_port).await.unwrap();
    let limits = Limits::default();
    let budget = Arc::new(Budget::new(&limits));
    let listener = listener(Protocol::Http1).await;
    let (_shutdown, signal) = shutdown_channel();
    let session = Http(Served::default());
    let acceptor = Acceptor::new(&listener, session, limits, Arc::clone(&budget), signal);
    let bounds = ConnectionLimits::for_decisions(&limits);
    let connections = Arc::new(Connections::new(bounds, limits.turn_bytes, budget, None));
    let mut tasks = JoinSet::new();
    let talk = async {
        let mut client = TcpStream::connect(address.tcp().unwrap()).await.unwrap();
        client.write_all(REQUEST).await.unwrap();
        client.read_to_end(&mut Vec::new()).await.unwrap();
        while connections.len() > 0 {
            yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = acceptor.accept(&binding, &connections, &mut tasks) => panic!("no shutdown"),
        () = talk => {}
    }
    assert_eq!(tasks.len(), 0);
}

/// The bytes of the future that a function of three arguments returns.
fn future_bytes<A, B, C, F: Future>(_function: impl FnOnce(A, B, C) -> F) -> usize {
    size_of::<F>()
}

/// Every connection has this future for as long as it is open, idle or not.
#[test]
fn the_future_of_a_connection_does_not_have_room_for_all_that_it_may_become() {
    let plain = future_bytes(Acceptor::<Http<Served>, Plain>::serve);
    let tls = future_bytes(Acceptor::<Http<Served>, Tls>::serve);
    assert!(plain <= 512 && tls <= 512, "{plain} {tls}");
}
