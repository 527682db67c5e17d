//! Requests that were sent before the service stops, on connections that it had not accepted.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use tokio::task::spawn_blocking;
use tollgate_server::ListenerKind;

use crate::house::House;
use crate::redis_client::{redis_of, with_redis};
use crate::tls_client::{GOOD, RULES, Secured, client_config};

/// Fewer than may connect from one address.
const CLIENTS: usize = 50;
const FEW: usize = 5;

/// A request on a connection that its client would keep.
fn request() -> Vec<u8> {
    let length = GOOD.len();
    let head = format!("POST /v1/check HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n");
    [head.as_bytes(), GOOD.as_bytes()].concat()
}

/// Clients that have sent this, of which the service knows nothing: its threads have not run since.
pub(crate) fn send(address: SocketAddr, bytes: &[u8]) -> Vec<TcpStream> {
    let send = |_| {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(bytes).unwrap();
        client
    };
    (0..CLIENTS).map(send).collect()
}

/// What all of them have read until their connections have ended.
pub(crate) async fn read(clients: Vec<impl Read + Send + 'static>) -> Vec<String> {
    let read = spawn_blocking(|| {
        let read = |mut client: _| {
            let mut text = String::new();
            Read::read_to_string(&mut client, &mut text).map(|_| text)
        };
        clients.into_iter().map(read).collect::<Result<_, _>>()
    });
    read.await.unwrap().unwrap()
}

/// Each response says that the connection ends.
pub(crate) fn assert_closing(responses: &[String], statuses: &[&str]) {
    for response in responses {
        let (version, status) = response.split_at(9);
        assert_eq!(version, "HTTP/1.1 ", "{response:?}");
        assert!(statuses.contains(&&status[..3]), "{response}");
        assert!(response.contains("\r\nconnection: close\r\n"), "{response}");
    }
}

#[tokio::test]
async fn requests_of_every_protocol_are_answered() {
    let house = House::with(RULES, with_redis).await;
    let http = send(house.http(), &request());
    let admin = send(
        house.admin(),
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
    );
    let redis = send(redis_of(&house), b"PING\r\n");
    house.running.stop().await;
    let decided = read(http).await;
    assert_closing(&decided, &["200", "429"]);
    let allowed = decided
        .iter()
        .filter(|text| text.contains("\"allowed\":true"));
    assert_eq!(allowed.count(), 5);
    assert_closing(&read(admin).await, &["200"]);
    assert!(read(redis).await.iter().all(|reply| reply == "+PONG\r\n"));
}

/// Their handshakes have begun: the rest of each needs the client, as does the request behind it.
#[tokio::test]
async fn handshakes_that_have_begun_are_finished_and_the_requests_answered() {
    for kind in [ListenerKind::Http, ListenerKind::Admin] {
        let secured = Secured::new().await;
        let address = secured.house.running.address(kind).unwrap();
        let config = client_config(&secured.issued, None);
        let mut clients = send(address, b"");
        // Each waits for the ones before it, and a handshake has a second.
        clients.truncate(FEW);
        let mut sessions = Vec::new();
        for client in &mut clients {
            let name = ServerName::try_from("localhost").unwrap();
            let mut session = ClientConnection::new(config.clone(), name).unwrap();
            session.write_tls(client).unwrap();
            sessions.push(session);
        }
        let talk = spawn_blocking(|| {
            let mut streams = Vec::new();
            for (client, session) in clients.into_iter().zip(sessions) {
                let mut stream = StreamOwned::new(session, client);
                let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
                stream.write_all(request).unwrap();
                streams.push(stream);
            }
            streams
        });
        let (streams, ()) = tokio::join!(talk, secured.house.running.stop());
        assert_closing(&read(streams.unwrap()).await, &["200"]);
    }
}
