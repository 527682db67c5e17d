//! What the HTTP library answers by itself says why; what the service answers stays as it is.

use std::collections::VecDeque;
use std::sync::Mutex;

use hyper::body::{Body, Bytes, Frame};

use super::*;

/// What the library writes itself.
const OWN: &str = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// So few that a response takes several turns.
const TURN_BYTES: usize = 20;

/// Answers each request with [`Pieces`].
#[derive(Clone, Default)]
struct Streaming {
    /// The kinds of errors that were counted.
    errors: Arc<Mutex<Vec<&'static str>>>,
}

/// A body of pieces, each of which leaves before the next one comes.
struct Pieces {
    pieces: VecDeque<&'static str>,
    is_due: bool,
}

impl ConnectionCounts for Streaming {
    fn count_open(&self) {}

    fn count_end(&self) {}

    fn count_close(&self, reason: &'static str) {
        panic!("{reason}");
    }

    fn count_reset(&self) {
        panic!("a response was reset");
    }

    fn count_error(&self, kind: &'static str) {
        self.errors.lock().unwrap().push(kind);
    }
}

impl Handler for Streaming {
    type Body = Pieces;
    type Service = Streaming;

    fn service(&self, _connection: &Arc<Connection>) -> Streaming {
        self.clone()
    }
}

impl Service<Request<Incoming>> for Streaming {
    type Response = Response<Pieces>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Pieces>, Infallible>>;

    fn call(&self, _request: Request<Incoming>) -> Self::Future {
        ready(Ok(Response::new(Pieces {
            pieces: ["first", OWN, "last"].into(),
            is_due: false,
        })))
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.is_due = !self.is_due;
        if self.is_due {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let piece = self.pieces.pop_front();
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece.into()))))
    }
}

/// What is answered to a client that sends this, and the errors that were counted.
async fn serve(sent: &str, header_bytes: u32) -> (String, Vec<&'static str>) {
    serve_as(Protocol::Http1, sent, header_bytes).await
}

async fn serve_as(
    protocol: Protocol,
    sent: &str,
    header_bytes: u32,
) -> (String, Vec<&'static str>) {
    let limits = Limits {
        header_bytes,
        ..Limits::default()
    };
    let (_, signal) = shutdown_channel();
    let listener = listener(protocol).await;
    let budget = Arc::new(Budget::new(&limits));
    let peer = PeerAddress::Unix;
    let known = Connection::new(peer, false, TURN_BYTES, Arc::clone(&budget), Instant::now());
    let handler = Streaming::default();
    let session = Http(handler.clone());
    let acceptor = Acceptor::new(&listener, session, limits, budget, signal);
    let (mut client, stream) = duplex(8 * ROOM);
    client.write_all(sent.as_bytes()).await.unwrap();
    acceptor
        .session
        .serve(stream, &Arc::new(known), &acceptor.terms)
        .await;
    let mut response = String::new();
    client.read_to_string(&mut response).await.unwrap();
    let errors = handler.errors.lock().unwrap().clone();
    (response, errors)
}

/// The status line and the body of the last response.
fn last(response: &str) -> (&str, &str) {
    let last = &response[response.rfind("HTTP/1.1").unwrap()..];
    let (head, body) = last.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("\r\nconnection: close\r\n"), "{head}");
    (head.lines().next().unwrap(), body)
}

#[tokio::test(start_paused = true)]
async fn a_head_that_cannot_be_parsed_is_answered_with_the_reason() {
    let uri = "u".repeat(70_000);
    let long = "x".repeat(20_000);
    let cases = [
        (
            "GET / HTTP/1.1\r\nno colon\r\n\r\n".to_owned(),
            "HTTP/1.1 400 Bad Request",
            "the request's head is malformed: invalid HTTP header parsed\n",
            ("bad_request", 10_000),
        ),
        (
            format!("GET / HTTP/1.1\r\nx: {long}\r\n\r\n"),
            "HTTP/1.1 431 Request Header Fields Too Large",
            "the request's head is too large: message head is too large; 10000 bytes and 100 \
             header fields are accepted\n",
            ("head_too_large", 10_000),
        ),
        (
            format!("GET /{uri} HTTP/1.1\r\n\r\n"),
            "HTTP/1.1 414 URI Too Long",
            "the request's head is too large: URI too long; 200000 bytes and 100 header fields are \
             accepted\n",
            ("head_too_large", 200_000),
        ),
    ];
    for (request, status, reason, (kind, header_bytes)) in cases {
        let (response, errors) = serve(&request, header_bytes).await;
        assert_eq!(last(&response), (status, reason));
        let length = format!("\r\ncontent-length: {}\r\n", reason.len());
        assert!(response.contains(&length), "{response}");
        assert_eq!(errors, [kind]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_head_request_has_no_body() {
    let (response, errors) = serve("HEAD / HTTP/1.1\r\nno colon\r\n\r\n", 10_000).await;
    assert_eq!(last(&response), ("HTTP/1.1 400 Bad Request", ""));
    assert!(
        response.contains("\r\ncontent-length: 60\r\n"),
        "{response}"
    );
    assert_eq!(errors, ["bad_request"]);
}

/// The library writes nothing in between: what looks like a response of its own is part of a body.
#[tokio::test(start_paused = true)]
async fn bodies_may_hold_anything() {
    let sent = format!("{GET}{GET}GET / HTTP/1.1\r\nconnection: close\r\nhost: a\r\n\r\n");
    let (response, errors) = serve(&sent, 10_000).await;
    let length = OWN.len();
    let body = format!("5\r\nfirst\r\n{length:X}\r\n{OWN}\r\n4\r\nlast\r\n0\r\n\r\n");
    assert_eq!(response.matches(&body).count(), 3, "{response}");
    assert!(errors.is_empty());
}

#[tokio::test(start_paused = true)]
async fn requests_before_one_that_cannot_be_parsed_are_answered() {
    let (response, errors) = serve(&format!("{GET}{GET}no request\r\n\r\n"), 10_000).await;
    assert_eq!(response.matches("HTTP/1.1 200 OK").count(), 2);
    assert_eq!(
        response.matches("\r\nlast\r\n0\r\n\r\nHTTP/1.1 ").count(),
        2
    );
    let (status, reason) = last(&response);
    assert_eq!(status, "HTTP/1.1 400 Bad Request");
    assert!(
        reason.starts_with("the request's head is malformed: "),
        "{reason}"
    );
    assert_eq!(errors, ["bad_request"]);
}

#[tokio::test(start_paused = true)]
async fn a_late_head_that_begins_like_the_preface_of_http2_is_answered_and_counted() {
    let header_bytes = Limits::default().header_bytes;
    for protocol in [Protocol::Http1, Protocol::Any] {
        for sent in ["P", "PO", "POST / HTTP/1.1\r\n", "PRI * HTTP/"] {
            let (response, errors) = serve_as(protocol, sent, header_bytes).await;
            assert!(response.starts_with("HTTP/1.1 408 "), "{sent}: {response}");
            assert_eq!(errors, ["timeout"], "{sent}");
        }
    }
    // Of no request, or of one that is not spoken there.
    for (protocol, sent) in [
        (Protocol::Any, ""),
        (Protocol::Any, "PRI * HTTP/2.0\r\n"),
        (Protocol::Http2, "P"),
    ] {
        let (response, errors) = serve_as(protocol, sent, header_bytes).await;
        assert_eq!((response.as_str(), errors.len()), ("", 0), "{sent}");
    }
}
