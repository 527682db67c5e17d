//! WebSockets through the gateway, between a real client and a real server.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async, client_async};
use tollgate_testbed::Certificates;

use super::encrypted::connect_to_gateway;
use super::{FREE, RULES, gateway, gateway_with, section};
use crate::eventually::eventually;
use crate::house::House;
use crate::http_client::Client;

/// Longer than any test takes.
const TIMEOUT: Duration = Duration::from_secs(20);
/// A gateway that limits nothing, and passes on WebSockets.
pub(super) const SOCKETS: &str = "upgrades: [websocket], \
    identity: {descriptors: [{entries: [{key: anything, from: {constant: a}}]}]}";

pub(super) type WebSocket<S = TcpStream> = WebSocketStream<S>;

/// A server of WebSockets that returns each message, and says how each connection ended.
pub(super) struct Echo {
    pub(super) address: SocketAddr,
    /// The head of the last handshake.
    seen: Arc<Mutex<HeaderMap>>,
    ended: mpsc::Receiver<Result<(), Error>>,
    _server: JoinSet<()>,
}

// === impl Echo ===

impl Echo {
    pub(super) async fn start() -> Echo {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<HeaderMap>> = Arc::default();
        let (sender, ended) = mpsc::channel(8);
        let mut server = JoinSet::new();
        let heads = Arc::clone(&seen);
        server.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (heads, sender) = (Arc::clone(&heads), sender.clone());
                connections.spawn(async move {
                    let _ = sender.send(echo(stream, &heads).await).await;
                });
            }
        });
        Echo {
            address,
            seen,
            ended,
            _server: server,
        }
    }

    async fn end(&mut self) -> Result<(), Error> {
        timeout(TIMEOUT, self.ended.recv()).await.unwrap().unwrap()
    }
}

#[expect(
    clippy::result_large_err,
    reason = "the library's callback returns a response as its error"
)]
async fn echo(stream: TcpStream, heads: &Mutex<HeaderMap>) -> Result<(), Error> {
    let mut socket = accept_hdr_async(stream, |request: &Request, mut response: Response| {
        heads.lock().unwrap().clone_from(request.headers());
        let protocol = HeaderValue::from_static("chat");
        response
            .headers_mut()
            .insert("sec-websocket-protocol", protocol);
        Ok(response)
    })
    .await?;
    while let Some(message) = socket.next().await {
        let message = message?;
        if message.to_text().is_ok_and(|text| text == "leave") {
            return Ok(());
        }
        // Pings are answered, and closing handshakes completed, by the library.
        if message.is_text() || message.is_binary() {
            socket.send(message).await?;
        }
    }
    Ok(())
}

/// A WebSocket through a gateway, and the head of the response.
pub(super) async fn open<S>(stream: S) -> Result<(WebSocket<S>, HeaderMap), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut request = http::Request::get("ws://h/chat?room=1");
    for (name, value) in [
        ("host", "h"),
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-protocol", "chat"),
        ("x-forwarded-for", "192.0.2.9"),
    ] {
        request = request.header(name, value);
    }
    let opened = timeout(TIMEOUT, client_async(request.body(()).unwrap(), stream));
    let (socket, response) = opened.await.unwrap()?;
    Ok((socket, response.headers().clone()))
}

/// What the server returns for a text.
pub(super) async fn exchange(socket: &mut WebSocket, text: &str) -> Message {
    socket.send(Message::text(text)).await.unwrap();
    next(socket).await.unwrap().unwrap()
}

async fn open_at(house: &House) -> WebSocket {
    let stream = TcpStream::connect(house.gateway()).await.unwrap();
    open(stream).await.unwrap().0
}

async fn next<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocket<S>,
) -> Option<Result<Message, Error>> {
    timeout(TIMEOUT, socket.next()).await.unwrap()
}

/// Sends messages of several kinds and lengths, and expects each to return.
async fn talk<S: AsyncRead + AsyncWrite + Unpin>(socket: &mut WebSocket<S>) {
    for message in [
        Message::text("hello"),
        Message::binary(vec![0, 255, b'\r', b'\n', b'\r', b'\n']),
        Message::binary(vec![7; 300_000]),
        Message::text(""),
    ] {
        socket.send(message.clone()).await.unwrap();
        assert_eq!(next(socket).await.unwrap().unwrap(), message);
    }
    socket
        .send(Message::Ping("are you there".into()))
        .await
        .unwrap();
    let pong = Message::Pong("are you there".into());
    assert_eq!(next(socket).await.unwrap().unwrap(), pong);
}

#[tokio::test]
async fn messages_pings_and_the_end_go_through_and_are_logged() {
    let mut echo = Echo::start().await;
    let directory = TempDir::new().unwrap();
    let log = directory.path().join("access.log");
    let more = format!(
        "upgrades: [WebSocket], access_log: {{path: '{}'}}",
        log.display()
    );
    let house = gateway(echo.address, &more).await;
    let stream = TcpStream::connect(house.gateway()).await.unwrap();
    let (mut socket, head) = open(stream).await.unwrap();
    assert_eq!(head["connection"], "Upgrade");
    assert_eq!(head["upgrade"], "websocket");
    assert_eq!(head["sec-websocket-protocol"], "chat");
    assert_eq!(head["ratelimit"], r#""remote_address";r=1;t=3600"#);
    assert!(!head.contains_key("content-length"), "{head:?}");
    talk(&mut socket).await;
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    let open = r#"tollgate_gateway_tunnels{route="default"} 1"#;
    assert!(metrics.contains(open), "{metrics}");
    let close = CloseFrame {
        code: CloseCode::Away,
        reason: "enough".into(),
    };
    socket.close(Some(close.clone())).await.unwrap();
    let answer = next(&mut socket).await.unwrap().unwrap();
    assert_eq!(answer, Message::Close(Some(close)));
    assert!(next(&mut socket).await.is_none());
    drop(socket);
    echo.end().await.unwrap();
    let seen = echo.seen.lock().unwrap().clone();
    assert_eq!(seen["x-forwarded-for"], "127.0.0.1");
    assert_eq!(
        (&seen["connection"], &seen["upgrade"]),
        (&"Upgrade".parse().unwrap(), &"websocket".parse().unwrap())
    );
    house.running.stop().await;
    let text = std::fs::read_to_string(log).unwrap();
    let mut line: Value = serde_json::from_str(&text).unwrap();
    let members = line.as_object_mut().unwrap();
    assert!(members.remove("duration_us").unwrap().is_number());
    // The frames' heads and payloads: of 5, 6, 300 000 and 0 bytes, of the pong and the close.
    let bytes = 2 + 5 + 2 + 6 + 10 + 300_000 + 2 + 2 + 13 + 2 + 8;
    let expected = json!({"time": "2024-10-04T12:00:00.000Z", "client": "127.0.0.1",
        "method": "GET", "target": "/chat?room=1", "protocol": "HTTP/1.1", "host": "h",
        "status": 101, "bytes": bytes, "complete": true, "outcome": "forwarded",
        "route": "default", "upstream": echo.address.to_string()});
    assert_eq!(line, expected);
}

#[tokio::test]
async fn limits_deny_handshakes_and_not_messages() {
    let echo = Echo::start().await;
    let house = gateway(echo.address, "upgrades: [websocket]").await;
    let mut sockets = Vec::new();
    for _ in 0..2 {
        sockets.push(open_at(&house).await);
    }
    let stream = TcpStream::connect(house.gateway()).await.unwrap();
    match open(stream).await {
        Err(Error::Http(response)) => {
            assert_eq!(response.status(), 429);
            assert_eq!(response.headers()["retry-after"], "3600");
        }
        other => panic!("{:?}", other.map(drop)),
    }
    for socket in &mut sockets {
        talk(socket).await;
    }
}

#[tokio::test]
async fn a_client_that_goes_away_ends_the_servers_connection() {
    let mut echo = Echo::start().await;
    let house = gateway(echo.address, SOCKETS).await;
    let mut socket = open_at(&house).await;
    talk(&mut socket).await;
    drop(socket);
    assert!(echo.end().await.is_err(), "it had no closing handshake");
}

#[tokio::test]
async fn a_server_that_goes_away_ends_the_clients_connection() {
    let mut echo = Echo::start().await;
    let house = gateway(echo.address, SOCKETS).await;
    let mut socket = open_at(&house).await;
    socket.send(Message::text("leave")).await.unwrap();
    echo.end().await.unwrap();
    assert!(next(&mut socket).await.unwrap().is_err());
    // Another one can be opened.
    talk(&mut open_at(&house).await).await;
}

#[tokio::test]
async fn clients_of_tls_have_web_sockets() {
    let (echo, issued) = (Echo::start().await, Certificates::new());
    let settings = section(echo.address, SOCKETS);
    let (_house, stream) = connect_to_gateway(&issued, settings).await;
    let (mut socket, _) = open(stream).await.unwrap();
    talk(&mut socket).await;
    let proto = echo.seen.lock().unwrap()["x-forwarded-proto"].clone();
    assert_eq!(proto, "https");
}

#[tokio::test]
async fn a_web_socket_goes_on_during_the_drain() {
    let echo = Echo::start().await;
    let house = gateway(echo.address, SOCKETS).await;
    let address = house.gateway();
    let mut socket = open_at(&house).await;
    let stopping = tokio::spawn(house.running.stop());
    eventually(async || TcpStream::connect(address).await.is_err()).await;
    talk(&mut socket).await;
    socket.close(None).await.unwrap();
    while let Some(Ok(_)) = next(&mut socket).await {}
    drop(socket);
    timeout(TIMEOUT, stopping).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_web_socket_is_cut_off_at_the_end_of_the_drain_and_has_its_line() {
    let mut echo = Echo::start().await;
    let directory = TempDir::new().unwrap();
    let log = directory.path().join("access.log");
    let more = format!("{SOCKETS}, access_log: {{path: '{}'}}", log.display());
    let house = gateway_with(RULES, section(echo.address, &more), |config| {
        config.limits.drain_timeout = Duration::from_millis(50);
    })
    .await;
    let mut socket = open_at(&house).await;
    talk(&mut socket).await;
    timeout(TIMEOUT, house.running.stop()).await.unwrap();
    assert!(next(&mut socket).await.unwrap().is_err());
    assert!(echo.end().await.is_err());
    let line = std::fs::read_to_string(log).unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    let bytes = 2 + 5 + 2 + 6 + 10 + 300_000 + 2 + 2 + 13;
    let expected = (json!(101), json!(false), json!(bytes));
    let [status, complete, bytes] = ["status", "complete", "bytes"].map(|key| line[key].clone());
    assert_eq!((status, complete, bytes), expected, "{line}");
}

#[tokio::test]
async fn without_the_setting_there_are_no_web_sockets() {
    let echo = Echo::start().await;
    let house = gateway(echo.address, FREE).await;
    let stream = TcpStream::connect(house.gateway()).await.unwrap();
    assert!(open(stream).await.is_err());
}
