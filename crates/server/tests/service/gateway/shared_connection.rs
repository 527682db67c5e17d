//! One connection of HTTP/2 to an upstream that many clients share.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate_server::Config;

use super::http2::connect;
use super::{FREE, RULES, gateway_with, section, section_of};
use crate::http_client::Client;

/// Longer than any test takes.
const TIMEOUT: Duration = Duration::from_secs(20);
/// More bytes than the buffers of sockets and windows take.
const LONG: usize = 16 << 20;

/// A server of HTTP/2 that answers once it has all of a request, with many bytes at `/long`, and
/// few elsewhere.
async fn serve_http2() -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        let long = Bytes::from(vec![b'x'; LONG]);
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let long = long.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let bytes = match request.uri().path() {
                    "/long" => long.clone(),
                    _ => long.slice(..1),
                };
                async move {
                    let _all = request.into_body().collect().await;
                    Ok::<_, Infallible>(Response::new(Full::new(bytes)))
                }
            });
            connections.spawn(async move {
                let builder = http2::Builder::new(TokioExecutor::new());
                let _ = builder
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    (address, tasks)
}

#[tokio::test]
async fn clients_that_read_nothing_do_not_stop_others_of_the_same_connection() {
    let (address, _server) = serve_http2().await;
    let upstream = format!("{{addresses: ['{address}'], protocol: h2c}}");
    let settings = section_of(&upstream, FREE);
    // Nothing ends the wait for those who read nothing.
    let change = |config: &mut Config| config.limits.write_timeout = Duration::from_secs(600);
    let house = gateway_with(RULES, settings, change).await;
    let mut unread = Vec::new();
    for _ in 0..20 {
        let mut client = Client::to(house.gateway()).await;
        client.send(b"GET /long HTTP/1.1\r\nhost: h\r\n\r\n").await;
        client.read_until("\r\n\r\n").await;
        unread.push(client);
    }
    for _ in 0..20 {
        let mut client = Client::to(house.gateway()).await;
        let reply = client.get("/").await;
        assert_eq!((reply.status, reply.body.as_str()), (200, "x"));
    }
    drop(unread);
    let mut client = connect(&house).await;
    let request = Request::get("http://h/long").body(Full::default()).unwrap();
    let response = client.send_request(request).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body.len(), LONG);
}

/// The library's error does not say why it has reset the stream.
#[tokio::test]
async fn a_body_that_its_client_does_not_end_is_no_failure_of_the_upstream() {
    let (address, _server) = serve_http2().await;
    let upstream = format!("{{addresses: ['{address}'], protocol: h2c}}");
    let more = format!("{FREE}, body_bytes: 4, timeouts: {{body: 50ms}}");
    let house = gateway_with(RULES, section_of(&upstream, &more), |_| ()).await;
    for (part, status) in [("5\r\nabcde\r\n", 413), ("1\r\na\r\n", 408), ("!\r\n", 400)] {
        let mut client = Client::to(house.gateway()).await;
        let head = "POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n";
        client.send(format!("{head}{part}").as_bytes()).await;
        client.reply().await.unwrap().problem(status);
    }
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    assert!(!metrics.contains("kind=\"closed\"} 1"), "{metrics}");
    assert!(metrics.contains("outcome=\"too_large\"} 1\n"), "{metrics}");
    assert!(metrics.contains("outcome=\"idle_body\"} 1\n"), "{metrics}");
}

/// A socket that accepts nothing, so that connecting to it takes forever; with what fills it.
async fn dead_socket() -> (TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut filled = Vec::new();
    while let Ok(stream) = timeout(Duration::from_millis(100), TcpStream::connect(address)).await {
        filled.push(stream.unwrap());
    }
    (listener, filled)
}

#[tokio::test]
async fn many_requests_for_a_server_that_accepts_nothing_wait_together() {
    let (listener, _filled) = dead_socket().await;
    let address = listener.local_addr().unwrap();
    for protocol in ["http1", "h2c"] {
        let upstream = format!("{{addresses: ['{address}'], protocol: {protocol}}}");
        let more = format!("{FREE}, timeouts: {{connect: 500ms}}");
        let house = gateway_with(RULES, section_of(&upstream, &more), |_| ()).await;
        let client = connect(&house).await;
        let mut requests = JoinSet::new();
        for _ in 0..90 {
            let mut client = client.clone();
            requests.spawn(async move {
                let request = Request::get("http://h/").body(Full::default()).unwrap();
                client
                    .send_request(request)
                    .await
                    .unwrap()
                    .status()
                    .as_u16()
            });
        }
        // One after the other, they would take 45 s.
        let statuses = timeout(TIMEOUT, requests.join_all()).await.unwrap();
        assert_eq!(statuses, [504; 90], "{protocol}");
    }
}

#[tokio::test]
async fn a_client_whose_request_waits_for_a_connection_is_not_idle() {
    let (listener, _filled) = dead_socket().await;
    let more = format!("{FREE}, timeouts: {{connect: 3s}}");
    let settings = section(listener.local_addr().unwrap(), &more);
    let change = |config: &mut Config| config.limits.connections_per_address = 1;
    let house = gateway_with(RULES, settings, change).await;
    let mut first = Client::to(house.gateway()).await;
    first.send(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").await;
    let reply = tokio::spawn(async move { first.reply().await });
    // Each of these needs its permit.
    while !reply.is_finished() {
        let mut other = Client::to(house.gateway()).await;
        let request = b"GET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
        other.send(request).await;
        other.rest().await;
    }
    reply.await.unwrap().unwrap().problem(504);
}
