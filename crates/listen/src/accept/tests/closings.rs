//! Why a connection was closed, if it was not the peer who closed it.

use rustls::ContentType;

use super::tls_peer::{Client, Records, configs, connect};
use super::*;

/// A record that no key has encrypted.
const FORGED: [u8; 37] = {
    let mut record = [0x20; 37];
    record[0] = 0x17;
    record[1] = 3;
    record[2] = 3;
    record[3] = 0;
    record
};
/// The beginning of a message that renews a key, of 64 KiB.
const UNFINISHED: &[u8] = b"\x18\x00\xff\xfb";
/// How much of it a peer sends: less than the library takes.
const UNFINISHED_KIB: usize = 30;
/// The most bytes that a record contains.
const RECORD_BYTES: usize = 16 * 1024;
/// The type of a frame.
const PING: u8 = 6;
/// An empty GOAWAY.
const GOAWAY: &[u8] = b"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00";

/// Serves HTTP over TLS to a client that does something: why the connection was closed.
async fn close_after(act: impl AsyncFnOnce(Client)) -> Option<Close> {
    let (credentials, config) = configs();
    let tls = Tls::new(Protocol::Any, &credentials);
    let (acceptor, known) = acceptor(&listener(Protocol::Any).await, Limits::default());
    let (client, stream) = connect(&tls, &config, &known).await;
    tokio::join!(
        acceptor.session.serve(stream, &known, &acceptor.terms),
        act(client),
    );
    known.close_reason()
}

#[tokio::test]
async fn a_peer_that_violates_tls_is_counted_unlike_one_that_goes() {
    let forge = async |mut client: Client| {
        let socket = client.get_mut().0;
        socket.write_all(&FORGED).await.unwrap();
        socket.flush().await.unwrap();
        let mut rest = Vec::new();
        let _alert = client.read_to_end(&mut rest).await;
    };
    assert_eq!(close_after(forge).await, Some(Close::BrokenTls));
    let forge_later = async |mut client: Client| {
        client.write_all(PREFACE).await.unwrap();
        client.write_all(SETTINGS).await.unwrap();
        client.flush().await.unwrap();
        let _settings = client.read_u8().await.unwrap();
        forge(client).await;
    };
    assert_eq!(close_after(forge_later).await, Some(Close::BrokenTls));
    let go = async |client: Client| drop(client);
    assert_eq!(close_after(go).await, None);
    let cut_off = async |mut client: Client| {
        let socket = client.get_mut().0;
        socket.write_all(&FORGED[..20]).await.unwrap();
        socket.flush().await.unwrap();
    };
    assert_eq!(close_after(cut_off).await, None);
    let take_leave = async |mut client: Client| client.shutdown().await.unwrap();
    assert_eq!(close_after(take_leave).await, None);
}

#[tokio::test]
async fn a_message_of_the_handshake_without_an_end_ends_the_connection() {
    let go_on = async |client: Client| {
        let mut records = Records::new(client);
        assert!(records.send(ContentType::Handshake, UNFINISHED).await);
        for _ in 0..UNFINISHED_KIB {
            records.send(ContentType::Handshake, &[0; 1024]).await;
        }
        records.wait_for_end().await;
    };
    assert_eq!(close_after(go_on).await, Some(Close::BrokenTls));
}

#[tokio::test]
async fn a_connection_with_data_has_records_of_any_length() {
    let (credentials, config) = configs();
    let tls = Tls::new(Protocol::Other, &credentials);
    let budget = Arc::new(Budget::new(&Limits::default()));
    let (peer, turn) = (PeerAddress::Unix, usize::MAX / 8);
    let known = Arc::new(Connection::new(peer, false, turn, budget, Instant::now()));
    let (client, mut stream) = connect(&tls, &config, &known).await;
    let send = async {
        let mut records = Records::new(client);
        for length in [1, RECORD_BYTES].repeat(20) {
            for _empty in 0..20 {
                assert!(records.send(ContentType::ApplicationData, &[]).await);
            }
            let content = vec![0; length];
            assert!(records.send(ContentType::ApplicationData, &content).await);
        }
    };
    let mut read = Vec::new();
    let (_sent, _cut_off) = tokio::join!(send, stream.read_to_end(&mut read));
    assert_eq!(read.len(), 20 * (RECORD_BYTES + 1));
    assert_eq!(known.close_reason(), None);
}

/// Serves HTTP/2 to a peer that does this when it gets a PING, and does not answer it: why the
/// connection was closed.
async fn close_of_silent(act: impl AsyncFnOnce(DuplexStream)) -> Option<Close> {
    let limits = Limits::default();
    let (acceptor, known) = acceptor(&listener(Protocol::Http2).await, limits);
    let (mut client, stream) = duplex(ROOM);
    client.write_all(PREFACE).await.unwrap();
    client.write_all(SETTINGS).await.unwrap();
    let later = async {
        tokio::time::advance(limits.ping_interval).await;
        let mut header = [0; 9];
        while header[3] != PING {
            client.read_exact(&mut header).await.unwrap();
            let mut payload = vec![0; header[2].into()];
            client.read_exact(&mut payload).await.unwrap();
        }
        act(client).await;
    };
    tokio::join!(
        acceptor.session.serve(stream, &known, &acceptor.terms),
        later,
    );
    known.close_reason()
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_answers_no_ping_is_counted_unlike_one_that_goes() {
    let stay = async |mut client: DuplexStream| {
        let mut read = Vec::new();
        client.read_to_end(&mut read).await.unwrap();
    };
    assert_eq!(close_of_silent(stay).await, Some(Close::PingTimeout));
    assert_eq!(close_of_silent(async |client| drop(client)).await, None);
    let half_close = async |mut client: DuplexStream| {
        client.shutdown().await.unwrap();
        stay(client).await;
    };
    assert_eq!(close_of_silent(half_close).await, None);
    let say_goodbye = async |mut client: DuplexStream| {
        client.write_all(GOAWAY).await.unwrap();
        stay(client).await;
    };
    assert_eq!(close_of_silent(say_goodbye).await, None);
}
