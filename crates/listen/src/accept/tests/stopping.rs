//! Requests that were sent when the drain began, on connections that nobody had looked at.
//!
//! The clients write to real sockets without awaiting anything, so that the system has their bytes
//! and the runtime knows nothing of them when the drain is ordered.

use std::io::{Read, Write};
use std::net;
use std::os::unix;

use tokio::task::spawn_blocking;

use super::*;
use crate::address::{Address, SOCKET_MODE, SocketPath};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
/// Fewer than may connect from one address.
const CLIENTS: usize = 100;
/// Fewer than these.
const MOST: u32 = 50;
/// The head of a request over HTTP/2, which ends it: `GET`, `http`, `/`, and the authority `a`.
const HEADERS: &[u8] = b"\x00\x00\x06\x01\x05\x00\x00\x00\x01\x82\x86\x84\x41\x01a";
/// The first byte of such a response's header block: the status 200.
const OK: u8 = 0x88;

/// What is read from a client until the end, without a thread of the runtime.
async fn read_all(mut client: impl Read + Send + 'static) -> io::Result<Vec<u8>> {
    let read = spawn_blocking(move || {
        let mut bytes = Vec::new();
        client.read_to_end(&mut bytes).map(|_| bytes)
    });
    read.await.unwrap()
}

/// A response, whose header `connection` is this.
fn assert_answered(response: io::Result<Vec<u8>>, connection: &str) {
    let response = String::from_utf8(response.unwrap()).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(response.contains(connection), "{response}");
    assert!(response.ends_with("\r\n\r\nserved"), "{response}");
}

fn assert_served(response: io::Result<Vec<u8>>) {
    assert_answered(response, "\r\nconnection: close\r\n");
}

/// A client that has sent this.
fn send(address: SocketAddr, bytes: &[u8]) -> net::TcpStream {
    let mut client = net::TcpStream::connect(address).unwrap();
    client.write_all(bytes).unwrap();
    client
}

/// Clients of a listener that has accepted none of them: each has sent this.
fn send_many(address: SocketAddr, bytes: &[u8]) -> Vec<net::TcpStream> {
    (0..CLIENTS).map(|_| send(address, bytes)).collect()
}

/// Drains a listener before it has accepted anyone; what each client has read when it is over.
async fn drain_at_once<T: Handshake>(
    listener: Listener<T>,
    clients: Vec<impl Read + Send + 'static>,
) -> Vec<io::Result<Vec<u8>>> {
    let (shutdown, serving) = spawn(listener, Served::default());
    shutdown.begin_drain();
    serving.await.unwrap();
    let mut read = Vec::new();
    for client in clients {
        read.push(read_all(client).await);
    }
    read
}

#[tokio::test]
async fn requests_of_the_backlog_are_served() {
    for protocol in [Protocol::Http1, Protocol::Any] {
        let listener = listener(protocol).await;
        let clients = send_many(address_of(&listener), REQUEST);
        for response in drain_at_once(listener, clients).await {
            assert_served(response);
        }
    }
}

/// As the service runs: the threads that serve, and the one that looks for bytes, are others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_the_backlog_are_served_by_several_threads() {
    let listener = listener(Protocol::Any).await;
    let clients = send_many(address_of(&listener), REQUEST);
    for response in drain_at_once(listener, clients).await {
        // One that is answered before the drain reaches it does not say that it ends.
        assert_answered(response, "");
    }
}

#[tokio::test]
async fn requests_of_the_backlog_of_a_unix_socket_are_served() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let address = Address::Unix(SocketPath {
        path: path.clone(),
        mode: SOCKET_MODE,
    });
    let listener = Listener::open("http", &address, Protocol::Any);
    let listener = listener.await.unwrap();
    let send = |_| {
        let mut client = unix::net::UnixStream::connect(&path).unwrap();
        client.write_all(REQUEST).unwrap();
        client
    };
    let clients = (0..CLIENTS).map(send).collect();
    for response in drain_at_once(listener, clients).await {
        assert_served(response);
    }
    assert!(!path.exists());
}

#[tokio::test]
async fn requests_behind_a_header_and_a_handshake_are_served() {
    let listener = listener(Protocol::Any).await;
    let listener = listener.with_handshake(Secret);
    let listener = listener.with_proxy_headers(Arc::new(Everyone));
    let sent = [PROXIED, SECRET, REQUEST].concat();
    let clients = send_many(address_of(&listener), &sent);
    for response in drain_at_once(listener, clients).await {
        assert_served(response);
    }
}

/// The first byte of the response to a request over HTTP/2.
fn read_status(mut client: net::TcpStream) -> io::Result<u8> {
    loop {
        let mut head = [0; 9];
        client.read_exact(&mut head)?;
        let mut frame = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        client.read_exact(&mut frame)?;
        if head[3] == HEADERS[3] {
            return Ok(frame[0]);
        }
    }
}

#[tokio::test]
async fn requests_of_http2_in_the_backlog_are_served() {
    for protocol in [Protocol::Http2, Protocol::Any] {
        let listener = listener(protocol).await;
        let sent = [PREFACE, SETTINGS, SETTINGS_ACK, HEADERS].concat();
        let client = send(address_of(&listener), &sent);
        let status = spawn_blocking(|| read_status(client));
        let (shutdown, serving) = spawn(listener, Served::default());
        shutdown.begin_drain();
        assert_eq!(status.await.unwrap().unwrap(), OK);
        serving.await.unwrap();
    }
}

/// The connections were accepted, and nothing had arrived until just before the drain.
#[tokio::test]
async fn requests_on_connections_that_were_silent_until_the_drain_are_served() {
    for protocol in [Protocol::Http1, Protocol::Any] {
        let listener = listener(protocol).await;
        let address = address_of(&listener);
        let handler = Served::default();
        let (shutdown, serving) = spawn(listener, handler);
        let mut clients = send_many(address, b"");
        // Connections are accepted in their order, and this one is the last.
        let mut last = TcpStream::connect(address).await.unwrap();
        last.write_all(super::REQUEST).await.unwrap();
        last.read_to_end(&mut Vec::new()).await.unwrap();
        for client in &mut clients {
            client.write_all(REQUEST).unwrap();
        }
        shutdown.begin_drain();
        serving.await.unwrap();
        for client in clients {
            assert_served(read_all(client).await);
        }
    }
}

/// The rest of the bytes comes while the connection is drained.
#[tokio::test]
async fn what_has_begun_when_the_drain_begins_is_served() {
    let whole = [PROXIED, SECRET, REQUEST].concat();
    // In the header, in the handshake, behind it, and in the first bytes of the request, which
    // could be those of HTTP/2 yet.
    let whole_put = [
        PROXIED,
        SECRET,
        b"P",
        &b"UT / HTTP/1.1\r\nhost: a\r\n\r\n"[..],
    ]
    .concat();
    let handshake = PROXIED.len() + SECRET.len();
    for (whole, cut) in [
        (&whole, 1),
        (&whole, PROXIED.len() + 1),
        (&whole, handshake - 1),
        (&whole_put, handshake + 1),
        (&whole, handshake + 5),
    ] {
        let listener = listener(Protocol::Any).await;
        let listener = listener.with_handshake(Secret);
        let listener = listener.with_proxy_headers(Arc::new(Everyone));
        let mut client = send(address_of(&listener), &whole[..cut]);
        let (shutdown, serving) = spawn(listener, Served::default());
        shutdown.begin_drain();
        for _ in 0..CLIENTS {
            yield_now().await;
        }
        // Also in two parts, of which the first ends with the handshake.
        for part in [
            &whole[cut..handshake.max(cut)],
            &whole[handshake.max(cut)..],
        ] {
            client.write_all(part).unwrap();
            for _ in 0..CLIENTS {
                yield_now().await;
            }
        }
        serving.await.unwrap();
        assert_served(read_all(client).await);
    }
}

/// A flood does not hold up the stop: what waits beyond the bound is reset.
#[tokio::test]
async fn no_more_of_the_backlog_are_accepted_than_the_bound_says() {
    let any_port = "127.0.0.1:0".parse().unwrap();
    let (binding, address) = Binding::open(&any_port).await.unwrap();
    let address = address.tcp().unwrap();
    let clients = send_many(address, REQUEST);
    let listener = listener(Protocol::Any).await;
    let (acceptor, _) = acceptor(&listener, Limits::default());
    let limits = Limits::default();
    let bounds = ConnectionLimits::for_decisions(&limits);
    let budget = Arc::new(Budget::new(&limits));
    let connections = Connections::new(bounds, limits.turn_bytes, budget, None);
    let mut tasks = JoinSet::new();
    let accept = acceptor.accept_backlog(binding, MOST, &connections, &mut tasks);
    accept.await;
    assert!(net::TcpStream::connect(address).is_err());
    while tasks.join_next().await.is_some() {}
    for (index, client) in (0..).zip(clients) {
        match read_all(client).await {
            served if index < MOST => assert_served(served),
            reset => assert!(reset.is_err(), "{index}"),
        }
    }
}
