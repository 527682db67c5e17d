//! How much of a response waits in memory for a peer of HTTP/2 that does not read.

use hyper::body::{Body, Bytes, Frame};
use tokio::task::yield_now;

use super::*;

/// Each part of a response.
const PART: [u8; 4 * 1024] = [b'x'; 4 * 1024];
/// The bytes of a response that may wait, as docs/benchmarks.md has it in "Settings of HTTP/2".
const WAITING_MAX: usize = 64 * 1024;
/// SETTINGS with a window of 1 GiB for each stream, and WINDOW_UPDATE of as much for all.
const OPEN_WINDOWS: &[u8] = b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x40\x00\x00\x00\
    \x00\x00\x04\x08\x00\x00\x00\x00\x00\x40\x00\x00\x00";
/// HEADERS that end the request of stream 1: GET, http, `/`, and the authority `h`.
const GET: &[u8] = b"\x00\x00\x06\x01\x05\x00\x00\x00\x01\x82\x86\x84\x01\x01h";

/// Answers with a body that never ends, and counts what was taken of it.
#[derive(Clone, Default)]
struct Endless(Arc<AtomicUsize>);

expect_no_close!(Endless);

impl Handler for Endless {
    type Body = Endless;
    type Service = Endless;

    fn service(&self, _connection: &Arc<Connection>) -> Endless {
        self.clone()
    }
}

impl Service<Request<Incoming>> for Endless {
    type Response = Response<Endless>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Endless>, Infallible>>;

    fn call(&self, _request: Request<Incoming>) -> Self::Future {
        ready(Ok(Response::new(self.clone())))
    }
}

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.fetch_add(PART.len(), Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&PART)))))
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_response_that_is_not_read_so_many_bytes_wait() {
    let (connection, terms) = http2_connection(Limits::default());
    let (mut client, stream) = duplex(ROOM);
    let endless = Endless::default();
    let taken = Arc::clone(&endless.0);
    let served = async move { Http(endless).serve(stream, &connection, &terms).await };
    let serving = tokio::spawn(served);
    client
        .write_all(&[PREFACE, OPEN_WINDOWS, GET].concat())
        .await
        .unwrap();
    // All tasks of this thread run until none of them can do more.
    for _ in 0..1_000 {
        yield_now().await;
    }
    assert!(!serving.is_finished());
    // The stream between the two takes some of them, and the last part is taken in one piece.
    let waiting = taken.load(Ordering::Relaxed) - ROOM;
    let most = WAITING_MAX + PART.len();
    assert!((WAITING_MAX..=most).contains(&waiting), "{waiting}");
}
