//! Proxies that name the client in a PROXY protocol header.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Version};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UnixStream};
use tokio::task::yield_now;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tollgate_listen::{Address, SocketPath};
use tollgate_server::{Outcome, TlsFiles};
use tollgate_testbed::Certificates;

use super::reload::{metric, start, to};
use super::upstream::Echo;
use super::{FREE, RULES, gateway, gateway_with, section, websocket};
use crate::backlog;
use crate::house::{House, replace};
use crate::http_client::Client;
use crate::tls_client::client_config;

/// Longer than any test takes.
const TIMEOUT: Duration = Duration::from_secs(20);
const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: h\r\n\r\n";
/// The proxy is on this host.
const IDENTITY: &str =
    "identity: {client_address: {source: proxy-protocol, trusted_proxies: ['127.0.0.1']}}";
/// The header of a proxy that speaks for itself.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00";

/// A header of version 1.
fn v1(client: &str) -> Vec<u8> {
    format!("PROXY TCP4 {client} 10.0.0.1 4660 80\r\n").into_bytes()
}

/// A header of version 2, with an extension.
fn v2(client: &str) -> Vec<u8> {
    let client: Ipv4Addr = client.parse().unwrap();
    [
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x10".as_slice(),
        &client.octets(),
        &[10, 0, 0, 1, 0x12, 0x34, 0, 80],
        &[4, 0, 1, 0],
    ]
    .concat()
}

/// A connection of the proxy that begins with these bytes.
async fn connect(address: SocketAddr, header: &[u8]) -> Client {
    let mut client = Client::to(address).await;
    client.send(header).await;
    client
}

/// The statuses of two requests on a connection that begins with these bytes.
async fn ask_twice(house: &House, header: &[u8]) -> [u16; 2] {
    let mut client = connect(house.gateway(), header).await;
    [client.get("/").await.status, client.get("/").await.status]
}

/// What the gateway sends to an upstream about the clients of its requests.
fn addresses(upstream: &Echo) -> Vec<Vec<String>> {
    let is_address = |field: &String| {
        let names = ["x-forwarded-for", "x-real-ip", "forwarded"];
        names.iter().any(|name| field.starts_with(name))
    };
    let requests = upstream.requests().into_iter();
    requests
        .map(|seen| seen.fields.into_iter().filter(is_address).collect())
        .collect()
}

/// Waits until so many connections were closed because they have no header.
async fn until_closed(house: &House, count: u32) {
    let labels = r#"listener="gateway",reason="proxy_header_invalid""#;
    let line = format!("tollgate_connections_closed_total{{{labels}}} {count}");
    let counted = async {
        while !metric(house, &line).await {
            yield_now().await;
        }
    };
    timeout(TIMEOUT, counted).await.unwrap();
}

/// Both versions name the same client, whose limit is its own; the upstream learns of it, and not
/// of the proxy.
#[tokio::test]
async fn every_client_behind_the_proxy_has_its_own_limit() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, IDENTITY).await;
    assert_eq!(ask_twice(&house, &v1("192.0.2.1")).await, [200, 200]);
    assert_eq!(ask_twice(&house, &v2("192.0.2.1")).await, [429, 429]);
    assert_eq!(ask_twice(&house, &v2("192.0.2.2")).await, [200, 200]);
    let of = |client: &str| {
        vec![
            format!("x-forwarded-for: {client}"),
            format!("x-real-ip: {client}"),
        ]
    };
    let [one, other] = ["192.0.2.1", "192.0.2.2"].map(of);
    let expected = [one.clone(), one, other.clone(), other];
    assert_eq!(addresses(&upstream), expected);
}

/// The proxy has not read what the client says about itself.
#[tokio::test]
async fn what_a_client_behind_the_proxy_says_about_itself_changes_nothing() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, IDENTITY).await;
    let mut client = connect(house.gateway(), &v1("192.0.2.1")).await;
    let mut statuses = [0; 3];
    for (n, status) in statuses.iter_mut().enumerate() {
        let request = format!(
            "GET / HTTP/1.1\r\nhost: h\r\nx-forwarded-for: 192.0.2.{n}\r\n\
             forwarded: for=192.0.2.{n}\r\nx-real-ip: 192.0.2.{n}\r\n\r\n"
        );
        client.send(request.as_bytes()).await;
        *status = client.reply().await.unwrap().status;
    }
    assert_eq!(statuses, [200, 200, 429]);
    let expected = ["x-forwarded-for: 192.0.2.1", "x-real-ip: 192.0.2.1"];
    assert_eq!(addresses(&upstream), [expected, expected]);
}

/// However the bytes of header and request come.
#[tokio::test]
async fn no_byte_behind_the_header_is_lost() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, IDENTITY).await;
    for (client, header) in [
        ("192.0.2.1", v1("192.0.2.1")),
        ("192.0.2.2", v2("192.0.2.2")),
    ] {
        let together = [&header[..], GET].concat();
        let mut connection = connect(house.gateway(), &together).await;
        assert_eq!(connection.reply().await.unwrap().status, 200, "{client}");
        let mut connection = Client::to(house.gateway()).await;
        for byte in together {
            connection.send(&[byte]).await;
            yield_now().await;
        }
        assert_eq!(connection.reply().await.unwrap().status, 200, "{client}");
    }
    assert_eq!(upstream.requests().len(), 4);
}

#[tokio::test]
async fn the_header_comes_before_tls() {
    let (upstream, issued) = (Echo::start().await, Certificates::new());
    let (cert, key) = issued.identity();
    let house = gateway_with(RULES, section(upstream.address, IDENTITY), |config| {
        config.listen.last_mut().unwrap().tls = Some(TlsFiles {
            cert: cert.into(),
            key: key.into(),
            client_ca: None,
        });
    })
    .await;
    let mut config = (*client_config(&issued, None)).clone();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from("localhost").unwrap();
    for (header, statuses) in [
        (v2("192.0.2.1"), [200, 200]),
        (v1("192.0.2.1"), [429, 429]),
        (v1("192.0.2.2"), [200, 200]),
    ] {
        let socket = connect(house.gateway(), &header).await.0;
        let stream = connector.connect(name.clone(), socket).await.unwrap();
        let mut client = Client(stream);
        let found = [client.get("/").await.status, client.get("/").await.status];
        assert_eq!(found, statuses);
    }
    let expected = ["x-forwarded-for: 192.0.2.1", "x-real-ip: 192.0.2.1"];
    assert_eq!(addresses(&upstream)[0], expected);
    // TLS without the header is not a header.
    let socket = TcpStream::connect(house.gateway()).await.unwrap();
    assert!(connector.connect(name, socket).await.is_err());
    until_closed(&house, 1).await;
}

#[tokio::test]
async fn requests_of_http2_and_websockets_have_the_client_of_their_connection() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, IDENTITY).await;
    let socket = connect(house.gateway(), &v2("192.0.2.1")).await.0;
    let shaken = http2::handshake(TokioExecutor::new(), TokioIo::new(socket)).await;
    let (mut client, connection) = shaken.unwrap();
    tokio::spawn(connection);
    for status in [200, 200, 429] {
        let request = Request::get("http://h/").version(Version::HTTP_2);
        let request = request.body(Full::<Bytes>::default()).unwrap();
        assert_eq!(client.send_request(request).await.unwrap().status(), status);
    }
    let echo = websocket::Echo::start().await;
    let more = format!("{IDENTITY}, upgrades: [websocket]");
    let house = gateway(echo.address, &more).await;
    let mut sockets = Vec::new();
    for _ in 0..2 {
        let stream = connect(house.gateway(), &v1("192.0.2.1")).await.0;
        let (mut socket, _) = websocket::open(stream).await.unwrap();
        let echoed = websocket::exchange(&mut socket, "hello").await;
        assert_eq!(echoed.to_text().unwrap(), "hello");
        sockets.push(socket);
    }
    let stream = connect(house.gateway(), &v1("192.0.2.1")).await.0;
    assert!(websocket::open(stream).await.is_err());
}

/// Its header is a malformed request, and without it the peer is the client.
#[tokio::test]
async fn a_peer_that_is_not_trusted_gets_no_say() {
    let upstream = Echo::start().await;
    let others = IDENTITY.replace("127.0.0.1", "10.0.0.0/8");
    let house = gateway(upstream.address, &others).await;
    for header in [v1("192.0.2.1"), v2("192.0.2.1"), LOCAL.to_vec()] {
        let mut forger = connect(house.gateway(), &[&header[..], GET].concat()).await;
        let answer = String::from_utf8(forger.rest().await).unwrap();
        let is_rejected = answer.is_empty() || answer.starts_with("HTTP/1.1 400 ");
        assert!(is_rejected, "{answer}");
    }
    assert_eq!(upstream.requests().len(), 0);
    assert_eq!(ask_twice(&house, b"").await, [200, 200]);
    assert_eq!(ask_twice(&house, b"").await, [429, 429]);
    let expected = ["x-forwarded-for: 127.0.0.1", "x-real-ip: 127.0.0.1"];
    assert_eq!(addresses(&upstream), [expected, expected]);
}

/// Its bytes are those of a client, and would be a request of the proxy.
#[tokio::test]
async fn a_trusted_peer_without_a_header_is_closed() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, IDENTITY).await;
    let invalid = v1("192.0.2.256");
    let huge = [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff"[..], &[0; 4096]].concat();
    for (count, begun) in [(1, GET), (2, &invalid), (3, &huge)] {
        let mut client = connect(house.gateway(), begun).await;
        assert!(client.is_closed().await, "{count}");
        until_closed(&house, count).await;
    }
    assert_eq!(upstream.requests().len(), 0);
    // Another one has a header.
    assert_eq!(ask_twice(&house, &v1("192.0.2.1")).await, [200, 200]);
}

#[tokio::test]
async fn a_header_without_a_client_leads_to_the_proxys_address() {
    let upstream = Echo::start().await;
    // Whatever the address of the proxy is.
    let identity = IDENTITY.replace("trusted_proxies: ['127.0.0.1']", "trusted_hops: 1");
    let house = gateway(upstream.address, &identity).await;
    assert_eq!(ask_twice(&house, LOCAL).await, [200, 200]);
    assert_eq!(ask_twice(&house, b"PROXY UNKNOWN\r\n").await, [429, 429]);
    let expected = ["x-forwarded-for: 127.0.0.1", "x-real-ip: 127.0.0.1"];
    assert_eq!(addresses(&upstream), [expected, expected]);
}

#[tokio::test]
async fn the_access_log_shows_the_client() {
    let upstream = Echo::start().await;
    let directory = TempDir::new().unwrap();
    let log = directory.path().join("access.log");
    let more = format!(
        "{IDENTITY}, access_log: {{path: '{}'}}, routes: [{{match: {{hosts: [localhost]}}}}]",
        log.display()
    );
    let house = gateway(upstream.address, &more).await;
    let mut client = connect(house.gateway(), &v1("192.0.2.1")).await;
    assert_eq!(client.get("/").await.status, 200);
    // No route is for this one.
    client.send(b"GET / HTTP/1.1\r\nhost: other\r\n\r\n").await;
    assert_eq!(client.reply().await.unwrap().status, 404);
    let mut client = connect(house.gateway(), LOCAL).await;
    assert_eq!(client.get("/").await.status, 200);
    house.running.stop().await;
    let lines = fs::read_to_string(log).unwrap();
    let clients = lines.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["client"].as_str().unwrap().to_owned()
    });
    let expected = ["192.0.2.1", "192.0.2.1", "127.0.0.1"];
    assert_eq!(clients.collect::<Vec<_>>(), expected);
}

/// For a route that trusts a header of requests, the client in the header of the connection is the
/// peer: it is believed only if it is a trusted proxy, wherever the header came from.
#[tokio::test]
async fn the_peer_of_other_routes_is_the_client_that_the_header_names() {
    let upstream = Echo::start().await;
    let own = "identity: {client_address: {source: x-forwarded-for, \
        trusted_proxies: ['127.0.0.1', '192.0.2.0/28']}}";
    let more = format!("{IDENTITY}, routes: [{{{own}}}]");
    let house = gateway(upstream.address, &more).await;
    let request = b"GET / HTTP/1.1\r\nhost: h\r\nx-forwarded-for: 203.0.113.5\r\n\r\n";
    // Of the last one, nobody has said who the client is; the proxy has not read what it wrote.
    let headers = [
        v1("192.0.2.1"),
        v1("192.0.2.77"),
        b"PROXY UNKNOWN\r\n".to_vec(),
    ];
    for header in headers {
        let mut client = connect(house.gateway(), &header).await;
        client.send(request).await;
        assert_eq!(client.reply().await.unwrap().status, 200, "{header:?}");
    }
    let believed = [
        "x-forwarded-for: 203.0.113.5, 192.0.2.1",
        "x-real-ip: 203.0.113.5",
    ];
    let client = ["x-forwarded-for: 192.0.2.77", "x-real-ip: 192.0.2.77"];
    let proxy = ["x-forwarded-for: 127.0.0.1", "x-real-ip: 127.0.0.1"];
    assert_eq!(addresses(&upstream), [believed, client, proxy]);
}

/// What was read on a connection, or not read, stays so.
#[tokio::test]
async fn connections_are_read_as_the_settings_say_when_they_come() {
    let upstream = Echo::start().await;
    let house = start(&to(&upstream, "")).await;
    let mut former = Client::to(house.gateway()).await;
    assert_eq!(former.get("/").await.status, 200);
    let file = house.path("tollgate.yaml");
    let before = fs::read_to_string(&file).unwrap();
    replace(&file, &before.replace(FREE, IDENTITY));
    assert_eq!(house.running.reload().await, Outcome::InEffect);
    assert_eq!(ask_twice(&house, &v1("192.0.2.1")).await, [200, 200]);
    let mut proxied = connect(house.gateway(), &v2("192.0.2.1")).await;
    assert_eq!(proxied.get("/").await.status, 429);
    let mut without = connect(house.gateway(), GET).await;
    assert!(without.is_closed().await);
    // Its client is the peer.
    let statuses = [former.get("/").await, former.get("/").await];
    assert_eq!(statuses.map(|reply| reply.status), [200, 200]);
    assert_eq!(former.get("/").await.status, 429);
    replace(&file, &before);
    assert_eq!(house.running.reload().await, Outcome::InEffect);
    assert_eq!(proxied.get("/").await.status, 200);
    assert_eq!(ask_twice(&house, b"").await, [200, 200]);
}

/// A peer of a Unix socket is a trusted proxy where the settings say so.
#[tokio::test]
async fn a_proxy_on_a_unix_socket_names_the_client() {
    let upstream = Echo::start().await;
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("s");
    let identity = IDENTITY.replace("'127.0.0.1'", "unix");
    let house = gateway_with(RULES, section(upstream.address, &identity), |config| {
        let (path, mode) = (path.clone(), 0o600);
        config.listen.last_mut().unwrap().address = Address::Unix(SocketPath { path, mode });
    })
    .await;
    for status in [200, 200, 429] {
        let mut stream = UnixStream::connect(&path).await.unwrap();
        stream.write_all(&v1("192.0.2.1")).await.unwrap();
        assert_eq!(Client(stream).get("/").await.status, status);
    }
    let expected = ["x-forwarded-for: 192.0.2.1", "x-real-ip: 192.0.2.1"];
    assert_eq!(addresses(&upstream), [expected, expected]);
    let mut without = Client(UnixStream::connect(&path).await.unwrap());
    without.send(GET).await;
    assert!(without.is_closed().await);
    until_closed(&house, 1).await;
}

/// Nobody has accepted the connections of the proxy when the service stops.
#[tokio::test]
async fn requests_that_were_sent_before_a_stop_are_forwarded() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, IDENTITY).await;
    let sent = [&v1("192.0.2.1"), GET].concat();
    let clients = backlog::send(house.gateway(), &sent);
    house.running.stop().await;
    backlog::assert_closing(&backlog::read(clients).await, &["200", "429"]);
    assert_eq!(upstream.requests().len(), 2);
}
