//! Peers that read slowly, or do not end what they have begun, get their whole response.

use std::sync::Mutex;

use hyper::body::{Body, Bytes, Frame};
use tokio::net::TcpSocket;

use super::*;

/// Each piece of a response.
const PIECE: [u8; 16 * 1024] = [b'x'; 16 * 1024];
/// How much a peer reads at once.
const READ_BYTES: usize = 4 * 1024;
/// The buffer of a peer, of which the kernel makes twice as much.
const PEER_BYTES: u32 = 64 * 1024;

/// Answers each request with this many pieces.
#[derive(Clone)]
struct Large {
    pieces: usize,
    progress: Arc<Mutex<Progress>>,
}

/// How much of a response was asked of the service, and how much the peer has read of it.
#[derive(Default)]
struct Progress {
    asked: usize,
    read: usize,
    /// The most that was asked before it was read.
    ahead_max: usize,
}

struct Pieces(Large);

impl ConnectionCounts for Large {
    fn count_open(&self) {}

    fn count_end(&self) {}

    fn count_close(&self, reason: &'static str) {
        panic!("{reason}");
    }

    fn count_reset(&self) {
        panic!("a response was reset");
    }

    fn count_error(&self, _kind: &'static str) {}
}

impl Handler for Large {
    type Body = Pieces;
    type Service = Large;

    fn service(&self, _connection: &Arc<Connection>) -> Large {
        self.clone()
    }
}

impl Service<Request<Incoming>> for Large {
    type Response = Response<Pieces>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Pieces>, Infallible>>;

    fn call(&self, _request: Request<Incoming>) -> Self::Future {
        ready(Ok(Response::new(Pieces(self.clone()))))
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.0.pieces == 0 {
            return Poll::Ready(None);
        }
        self.0.pieces -= 1;
        let mut progress = self.0.progress.lock().unwrap();
        progress.asked += PIECE.len();
        progress.ahead_max = progress.ahead_max.max(progress.asked - progress.read);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&PIECE)))))
    }
}

/// What a peer with a small buffer receives that sends this, and what was asked for it. It reads
/// nothing until the service has done what it can.
async fn receive(sent: &[u8], pieces: usize) -> (Vec<u8>, usize) {
    let handler = Large {
        pieces,
        progress: Arc::default(),
    };
    let listener = listener(Protocol::Http1).await;
    let address = address_of(&listener);
    let (shutdown, serving) = spawn(listener, handler.clone());
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(PEER_BYTES).unwrap();
    let mut peer = socket.connect(address).await.unwrap();
    peer.write_all(sent).await.unwrap();
    let mut received = Vec::new();
    let mut read = [0; READ_BYTES];
    loop {
        for _turn in 0..20 {
            yield_now().await;
        }
        match peer.read(&mut read).await {
            Ok(0) | Err(_) => break,
            Ok(bytes) => received.extend_from_slice(&read[..bytes]),
        }
        handler.progress.lock().unwrap().read = received.len();
    }
    drop(peer);
    shutdown.begin_drain();
    serving.await.unwrap();
    let ahead_max = handler.progress.lock().unwrap().ahead_max;
    (received, ahead_max)
}

/// What a response of so many pieces ends with.
fn is_whole(received: &[u8]) -> bool {
    received.starts_with(b"HTTP/1.1 200 OK\r\n") && received.ends_with(b"\r\n0\r\n\r\n")
}

#[tokio::test]
async fn a_response_arrives_although_the_peer_has_sent_more_than_was_read() {
    let request = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let (received, _) = receive(&[&request[..], &[b'z'; 20_000]].concat(), 25).await;
    assert!(is_whole(&received), "{} bytes", received.len());
}

#[tokio::test]
async fn a_response_arrives_although_a_malformed_request_follows() {
    let requests = b"GET / HTTP/1.1\r\nhost: a\r\n\r\nno request\r\n\r\n";
    let (received, _) = receive(&[&requests[..], &[b'z'; 20_000]].concat(), 25).await;
    let text = String::from_utf8_lossy(&received);
    assert!(
        text.contains("\r\n0\r\n\r\nHTTP/1.1 400"),
        "{} bytes",
        received.len()
    );
    assert!(text.ends_with('\n'), "{}", &text[text.len() - 50..]);
}

/// However slowly a peer reads, the kernel takes more as soon as the peer has read a little.
#[tokio::test]
async fn a_peer_that_reads_is_not_far_behind_what_was_written() {
    let (received, ahead_max) = receive(REQUEST, 512).await;
    assert!(is_whole(&received), "{} bytes", received.len());
    assert!(ahead_max < 1024 * 1024, "{ahead_max} bytes");
}
