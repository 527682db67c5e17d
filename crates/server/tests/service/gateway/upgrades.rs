//! Which requests switch protocols, and what others become.

use super::upstream::{Actor, Stage};
use super::{FREE, gateway};
use crate::http_client::Client;

const UPGRADE: &str =
    "GET /a HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
const SWITCHING: &str =
    "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
const DONE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone";

fn sockets() -> String {
    format!("{FREE}, upgrades: [websocket]")
}

/// The `Upgrade` of a request as a server sees it, and the connection to the server.
async fn pass_on(stage: &Stage, more: &str, request: &[u8]) -> (Option<String>, Actor) {
    let house = gateway(stage.address(), more).await;
    let mut client = Client::to(house.gateway()).await;
    client.send(request).await;
    let mut server = stage.accept().await;
    let head = server.head().await;
    server.send(DONE).await;
    assert_eq!(client.reply().await.unwrap().body, "done");
    let fields = head
        .lines()
        .filter_map(|line| line.strip_prefix("upgrade: "));
    let fields: Vec<&str> = fields.collect();
    let upgrade = (!fields.is_empty()).then(|| fields.join(" and "));
    assert_eq!(
        upgrade.is_some(),
        head.contains("connection: Upgrade\r\n"),
        "{head}"
    );
    assert!(
        !head.to_ascii_lowercase().contains("http2-settings"),
        "{head}"
    );
    (upgrade, server)
}

#[tokio::test]
async fn only_what_a_route_allows_is_forwarded() {
    let stage = Stage::open().await;
    let sockets = sockets();
    let request = |fields: &str| format!("GET / HTTP/1.1\r\nhost: h\r\n{fields}\r\n");
    for (more, request, expected) in [
        (&*sockets, UPGRADE.to_owned(), Some("websocket")),
        (FREE, UPGRADE.to_owned(), None),
        (&sockets, request("upgrade: websocket\r\n"), None),
        // A tunnel of requests to a server that speaks HTTP/2 in plain text.
        (
            &sockets,
            request(
                "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: \
                 AAMAAABkAAQCAAAAAAIAAAAA\r\n",
            ),
            None,
        ),
        (
            &sockets,
            request(
                "connection: upgrade\r\nupgrade: websocket, h2c\r\nhttp2-settings: AAMAAABk\r\n",
            ),
            Some("websocket"),
        ),
        (
            &sockets,
            request("connection: upgrade\r\nupgrade: websocket\r\ncontent-length: 4\r\n") + "body",
            None,
        ),
        (
            &sockets,
            request("connection: upgrade\r\nupgrade: websocket\r\ntransfer-encoding: chunked\r\n")
                + "0\r\n\r\n",
            None,
        ),
        (
            &sockets,
            "GET / HTTP/1.0\r\nhost: h\r\nconnection: upgrade, keep-alive\r\nupgrade: \
             websocket\r\n\r\n"
                .to_owned(),
            None,
        ),
    ] {
        let (upgrade, _server) = pass_on(&stage, more, request.as_bytes()).await;
        assert_eq!(upgrade.as_deref(), expected, "{request}");
    }
}

#[tokio::test]
async fn a_route_has_upgrades_of_its_own() {
    let stage = Stage::open().await;
    let upgrade = |path: &str| UPGRADE.replace("/a", path);
    let routes = format!(
        "{FREE}, upgrades: [websocket], routes: [{{match: {{paths: [/no]}}, upgrades: []}}, \
         {{match: {{paths: [/irc]}}, upgrades: [irc]}}, {{}}]"
    );
    for (path, expected) in [("/no", None), ("/irc", None), ("/", Some("websocket"))] {
        let (upgrade, _server) = pass_on(&stage, &routes, upgrade(path).as_bytes()).await;
        assert_eq!(upgrade.as_deref(), expected, "{path}");
    }
}

/// A server, or another proxy, may take an upgrade for granted that was not answered with 101: then
/// a second request would go by unseen.
#[tokio::test]
async fn what_follows_an_upgrade_that_was_not_answered_is_the_next_request() {
    let stage = Stage::open().await;
    let house = gateway(stage.address(), &sockets()).await;
    let mut client = Client::to(house.gateway()).await;
    client
        .send(format!("{UPGRADE}GET /admin HTTP/1.1\r\nhost: h\r\n\r\n").as_bytes())
        .await;
    let mut server = stage.accept().await;
    let head = server.head().await;
    assert!(head.starts_with("GET /a "), "{head}");
    let required = "HTTP/1.1 426 Upgrade Required\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
                   sec-websocket-version: 13\r\ncontent-length: 0\r\n\r\n";
    server.send(required).await;
    let reply = client.reply().await.unwrap();
    assert_eq!(reply.status, 426);
    let head = server.head().await;
    assert!(head.starts_with("GET /admin "), "{head}");
    assert!(head.contains("x-forwarded-for: 127.0.0.1"), "{head}");
    server.send(DONE).await;
    assert_eq!(client.reply().await.unwrap().status, 200);
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    let forwarded = r#"tollgate_gateway_requests_total{route="default",outcome="forwarded"} 2"#;
    assert!(metrics.contains(forwarded), "{metrics}");
}

#[tokio::test]
async fn a_switch_that_was_not_asked_for_is_a_bad_gateway() {
    let stage = Stage::open().await;
    let plain = "GET / HTTP/1.1\r\nhost: h\r\n\r\n";
    let other = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n";
    let nothing = "HTTP/1.1 101 Switching Protocols\r\n\r\n";
    for (more, request, answer) in [
        (&*sockets(), plain, SWITCHING),
        (FREE, plain, SWITCHING),
        (FREE, UPGRADE, SWITCHING),
        (&sockets(), UPGRADE, other),
        (&sockets(), UPGRADE, nothing),
    ] {
        let house = gateway(stage.address(), more).await;
        let mut client = Client::to(house.gateway()).await;
        client.send(request.as_bytes()).await;
        let mut server = stage.accept().await;
        server.head().await;
        server.send(answer).await;
        let detail = client.reply().await.unwrap().problem(502);
        assert!(detail.contains("did not answer in HTTP"), "{detail}");
        server.wait_for_end().await;
    }
}

#[tokio::test]
async fn bytes_that_come_with_the_handshake_are_the_first_of_the_tunnel() {
    let stage = Stage::open().await;
    let house = gateway(stage.address(), &sockets()).await;
    let mut client = Client::to(house.gateway()).await;
    client.send(format!("{UPGRADE}early").as_bytes()).await;
    let mut server = stage.accept().await;
    server.head().await;
    server.send(&format!("{SWITCHING}first")).await;
    let head = client.read_until("\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert_eq!(client.read_until("first").await, "first");
    assert_eq!(server.read_until("early").await, "early");
    // Nothing of a tunnel is a request.
    client.send(b"GET / HTTP/1.1\r\n\r\n").await;
    assert_eq!(server.head().await, "GET / HTTP/1.1\r\n\r\n");
}
