//! Peers of HTTP/2 that do not take one of their responses, or none, or take them slowly.

use std::mem::replace;
use std::time::Duration;

use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use hyper::body::{Body, Bytes, Frame};
use hyper::header::HeaderMap;
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::*;

/// Each part of a response.
const PART: [u8; 16 * 1024] = [b'x'; 16 * 1024];
/// The window of a stream by default.
const WINDOW: u32 = 65_535;
/// The window of a connection that is that of a slow line.
const SHARED: u32 = 256 * 1024;
/// A window that is never full here.
const WIDE: u32 = 1 << 30;
/// `write_timeout`.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Longer than two periods: by then a response is reset that must be.
const LONG: Duration = Duration::from_secs(60);
/// On a line of 100 kB/s.
const LINE_PER_BYTE: Duration = Duration::from_micros(10);
const SECOND: Duration = Duration::from_secs(1);

/// Answers with a body that never ends, at `/part` of one part, at `/trailers` of one before
/// trailers, at `/unknown` of one whose end is not known before, at `/marked` of one before an
/// empty one that is the end, at `/empty` without one, and at `/never` not at all.
#[derive(Clone, Default)]
struct Downloads {
    /// How many responses were reset.
    reset: Arc<AtomicUsize>,
}

/// A body of so many equal parts.
struct Download {
    parts: usize,
    end: End,
}

/// How it ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Known,
    Unknown,
    Trailers,
    Marked,
}

/// A connection to [`Downloads`], in memory.
struct Peer {
    requests: SendRequest<Bytes>,
    connection: Arc<Connection>,
    downloads: Downloads,
}

impl ConnectionCounts for Downloads {
    fn count_open(&self) {}

    fn count_end(&self) {}

    fn count_close(&self, reason: &'static str) {
        panic!("{reason}");
    }

    fn count_reset(&self) {
        self.reset.fetch_add(1, Ordering::Relaxed);
    }

    fn count_error(&self, kind: &'static str) {
        panic!("{kind}");
    }
}

impl Handler for Downloads {
    type Body = Download;
    type Service = Downloads;

    fn service(&self, _connection: &Arc<Connection>) -> Downloads {
        self.clone()
    }
}

impl Service<Request<Incoming>> for Downloads {
    type Response = Response<Download>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Download>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        match request.uri().path() {
            "/never" => Box::pin(pending()),
            path => {
                let (parts, end) = match path {
                    "/empty" => (0, End::Known),
                    "/part" => (1, End::Known),
                    "/trailers" => (1, End::Trailers),
                    "/unknown" => (1, End::Unknown),
                    "/marked" => (1, End::Marked),
                    _ => (usize::MAX, End::Known),
                };
                Box::pin(ready(Ok(Response::new(Download { parts, end }))))
            }
        }
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(left) = self.parts.checked_sub(1) else {
            let end = match replace(&mut self.end, End::Known) {
                End::Trailers => Some(Frame::trailers(HeaderMap::new())),
                End::Marked => Some(Frame::data(Bytes::new())),
                End::Known | End::Unknown => None,
            };
            return Poll::Ready(end.map(Ok));
        };
        self.parts = left;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&PART)))))
    }

    fn is_end_stream(&self) -> bool {
        self.parts == 0 && self.end == End::Known
    }
}

impl Peer {
    /// One that opens these windows for each stream, and for the connection.
    async fn open(stream_window: u32, connection_window: u32) -> Peer {
        let (connection, terms) = http2_connection(Limits {
            write_timeout: TIMEOUT,
            ..Limits::default()
        });
        let (client, stream) = duplex(ROOM);
        let known = Arc::clone(&connection);
        let downloads = Downloads::default();
        let http = Http(downloads.clone());
        tokio::spawn(async move { http.serve(stream, &known, &terms).await });
        let handshake = Builder::new()
            .initial_window_size(stream_window)
            .initial_connection_window_size(connection_window)
            .handshake(client);
        let (requests, client) = handshake.await.unwrap();
        tokio::spawn(client);
        Peer {
            requests,
            connection,
            downloads,
        }
    }

    async fn send(&mut self, path: &str) -> ResponseFuture {
        let uri = format!("http://a{path}");
        let request = Request::get(uri).body(()).unwrap();
        let mut requests = self.requests.clone().ready().await.unwrap();
        requests.send_request(request, true).unwrap().0
    }

    /// Begins a download.
    async fn begin(&mut self) -> RecvStream {
        self.send("/").await.await.unwrap().into_body()
    }

    /// How many responses were reset.
    fn reset_count(&self) -> usize {
        self.downloads.reset.load(Ordering::Relaxed)
    }

    /// Whether the connection goes on.
    fn is_open(&self) -> bool {
        self.connection.close_reason().is_none()
    }
}

/// Takes what is there, so many bytes each second, until the stream is reset.
async fn read(mut stream: RecvStream, each_second: usize) -> h2::Error {
    loop {
        let mut data = match stream.data().await.unwrap() {
            Ok(data) => data,
            Err(error) => return error,
        };
        while !data.is_empty() {
            let taken = data.split_to(data.len().min(each_second)).len();
            stream.flow_control().release_capacity(taken).unwrap();
            sleep(SECOND * u32::try_from(taken).unwrap() / u32::try_from(each_second).unwrap())
                .await;
        }
    }
}

/// Takes nothing until the stream is reset.
async fn leave(mut stream: RecvStream) -> Option<Reason> {
    while let Some(data) = stream.data().await {
        if let Err(error) = data {
            return error.reason();
        }
    }
    None
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_not_read_is_reset_and_those_beside_it_go_on() {
    let mut peer = Peer::open(WINDOW, WIDE).await;
    let unread = peer.begin().await;
    let reading = tokio::spawn(read(peer.begin().await, 4 * PART.len()));
    let began = tokio::time::Instant::now();
    let reset = timeout(LONG, leave(unread)).await;
    assert_eq!(reset, Ok(Some(Reason::CANCEL)));
    let after = began.elapsed();
    assert!((TIMEOUT..3 * TIMEOUT).contains(&after), "{after:?}");
    sleep(LONG).await;
    assert!(!reading.is_finished());
    assert!(peer.is_open());
    assert_eq!(peer.reset_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_not_read_does_not_end_requests_that_are_being_answered() {
    let mut peer = Peer::open(WINDOW, WIDE).await;
    let unanswered = tokio::spawn(peer.send("/never").await);
    let reset = timeout(LONG, leave(peer.begin().await)).await;
    assert_eq!(reset, Ok(Some(Reason::CANCEL)));
    sleep(LONG).await;
    assert!(!unanswered.is_finished());
    assert!(peer.is_open());
}

/// Responses without a body are taken by those who ask for more of them.
#[tokio::test(start_paused = true)]
async fn a_response_that_is_not_read_does_not_end_a_connection_with_responses_without_a_body() {
    let mut peer = Peer::open(WINDOW, WIDE).await;
    let unread = tokio::spawn(leave(peer.begin().await));
    let began = tokio::time::Instant::now();
    while began.elapsed() < LONG {
        let response = peer.send("/empty").await.await.unwrap();
        assert!(response.into_body().is_end_stream());
        sleep(SECOND).await;
    }
    assert_eq!(unread.await.unwrap(), Some(Reason::CANCEL));
    assert!(peer.is_open());
}

#[tokio::test(start_paused = true)]
async fn a_connection_of_which_nothing_is_taken_is_closed() {
    for (stream_window, connection_window) in [(0, WIDE), (WINDOW, WIDE), (WIDE, WINDOW)] {
        let mut peer = Peer::open(stream_window, connection_window).await;
        let mut unread = Vec::new();
        for _ in 0..8 {
            unread.push(peer.begin().await);
        }
        sleep(LONG).await;
        assert_eq!(peer.connection.close_reason(), Some(Close::UnreadAnswers));
    }
}

/// However long a part of a response is.
#[tokio::test(start_paused = true)]
async fn a_response_that_is_read_slowly_goes_on() {
    let mut peer = Peer::open(1024, WIDE).await;
    let reading = tokio::spawn(read(peer.begin().await, 512));
    sleep(LONG).await;
    assert!(!reading.is_finished());
    assert!(peer.is_open());
}

/// On a slow line, each of many responses waits longer than `write_timeout` for its turn.
#[tokio::test(start_paused = true)]
async fn responses_that_share_a_slow_line_go_on() {
    let mut peer = Peer::open(WIDE, SHARED).await;
    let line = Arc::new(Mutex::new(()));
    let mut readers = Vec::new();
    for _ in 0..100 {
        let (mut stream, line) = (peer.begin().await, Arc::clone(&line));
        readers.push(tokio::spawn(async move {
            loop {
                let data = stream.data().await.unwrap().unwrap();
                let _turn = line.lock().await;
                sleep(LINE_PER_BYTE * u32::try_from(data.len()).unwrap()).await;
                stream.flow_control().release_capacity(data.len()).unwrap();
            }
        }));
    }
    sleep(2 * LONG).await;
    let ended = readers.iter().filter(|reader| reader.is_finished()).count();
    assert_eq!(ended, 0);
    assert!(peer.is_open());
}

/// Who opens a window by a byte now and then does not hold a stream by it.
#[tokio::test(start_paused = true)]
async fn a_response_that_is_read_byte_by_byte_is_reset() {
    let mut peer = Peer::open(1, WIDE).await;
    let reset = timeout(LONG, read(peer.begin().await, 1)).await;
    assert_eq!(reset.unwrap().reason(), Some(Reason::CANCEL));
    assert!(peer.is_open());
}

/// A window that lets one byte leave does not hold the last part of a response, however it ends.
#[tokio::test(start_paused = true)]
async fn a_response_whose_last_part_is_not_read_is_reset() {
    for path in ["/part", "/trailers", "/unknown", "/marked"] {
        let mut peer = Peer::open(1, WIDE).await;
        let unread = peer.send(path).await.await.unwrap().into_body();
        let reset = timeout(LONG, leave(unread)).await;
        assert_eq!(reset, Ok(Some(Reason::CANCEL)), "{path}");
        assert_eq!(peer.reset_count(), 1, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_part_of_a_response_arrives_whole() {
    for path in ["/part", "/trailers", "/unknown", "/marked"] {
        for window in [1000, WINDOW] {
            let mut peer = Peer::open(window, WIDE).await;
            let mut body = peer.send(path).await.await.unwrap().into_body();
            let mut received = Vec::new();
            while let Some(data) = body.data().await {
                let data = data.unwrap();
                body.flow_control().release_capacity(data.len()).unwrap();
                received.extend_from_slice(&data);
            }
            assert_eq!(received, PART, "{path}");
            let trailers = body.trailers().await.unwrap();
            assert_eq!(trailers.is_some(), path == "/trailers");
        }
    }
}
