//! Servers of HTTP/2 whose responses cannot be used.

use std::sync::atomic::AtomicUsize;

use super::frames::{accept, next_request, send, serve};
use super::*;

/// Of a frame: HEADERS, which end their stream and are complete.
const HEADERS: [u8; 2] = [1, 5];
/// 200, compressed.
const OK: u8 = 0x88;
/// `connection: x`, which HTTP/2 does not have.
const CONNECTION: &[u8] = b"\x00\x0aconnection\x01x";
/// A field that both sides remember, with the length of its value; and the same field again.
const REMEMBERED: &[u8] = b"\x40\x01a\x64";
const VALUE: [u8; 100] = [b'x'; 100];
const AGAIN: u8 = 0xbe;
/// More than 64 KiB, each with the 32 bytes that are counted for a field.
const FIELDS: usize = 600;
/// The field with the number 0, which there is not: the connection cannot be used any more.
const NO_FIELD: &[u8] = &[0x80];

/// Answers each request with such a head, and counts them.
async fn answer_all(listener: TcpListener, fields: Vec<u8>, count: Arc<AtomicUsize>) {
    let head = [&[OK], &fields[..]].concat();
    let length = u32::try_from(head.len()).unwrap().to_be_bytes();
    let mut connections = JoinSet::new();
    loop {
        let mut stream = accept(&listener).await;
        let (count, head) = (Arc::clone(&count), head.clone());
        connections.spawn(async move {
            while let Ok(number) = next_request(&mut stream).await {
                count.fetch_add(1, Ordering::Relaxed);
                let frame = [&length[1..], &HEADERS, &number, &head].concat();
                stream.write_all(&frame).await.unwrap();
            }
        });
    }
}

/// The server has processed the request, and would do so again.
#[tokio::test]
async fn a_request_whose_response_is_malformed_is_not_retried() {
    let long = [REMEMBERED, &VALUE, &[AGAIN; FIELDS]].concat();
    for fields in [CONNECTION.to_vec(), long, NO_FIELD.to_vec()] {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addresses = vec![server.local_addr().unwrap().to_string()];
        let upstream = open_upstream(&UpstreamSettings {
            retries: retries(2),
            ..settings_of(addresses, UpstreamProtocol::H2c)
        });
        let count = Arc::new(AtomicUsize::new(0));
        let _serving = serve(answer_all(server, fields, Arc::clone(&count)));
        let get = Request::get("http://api/").body(RequestBody::empty());
        let unanswered = send(&upstream, Box::new(get.unwrap())).await.unwrap_err();
        assert!(
            matches!(unanswered.failure, Failure::Malformed),
            "{unanswered:?}"
        );
        assert!(unanswered.was_sent);
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }
}
