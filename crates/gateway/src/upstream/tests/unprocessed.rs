//! Streams of HTTP/2 that a server says it has not processed.

use std::future::pending;
use std::sync::atomic::AtomicUsize;

use super::frames::{accept, answer_stream, h2c_upstream, next_request, send, serve};
use super::*;
use crate::upstream::tried::SENDS_MAX;

/// GOAWAY without an error: no stream was processed.
const GOAWAY: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// The same, up to stream 1, which was.
const GOAWAY_AFTER: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
/// RST_STREAM of stream 1, which was not processed (error 7), or fails (error 2).
const REJECTED: &[u8] = &[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 7];
const BROKEN: &[u8] = &[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 2];
/// Where the number of the stream is in them.
const NUMBER: std::ops::Range<usize> = 5..9;
/// Retries of a request, where there are any.
const ATTEMPTS: usize = 2;

fn put(body: RequestBody) -> Box<Request<RequestBody>> {
    Box::new(Request::put("http://api/").body(body).unwrap())
}

/// Closes each connection at its first request.
async fn reject_all(listener: TcpListener) {
    let mut streams = Vec::new();
    loop {
        let mut stream = accept(&listener).await;
        next_request(&mut stream).await.unwrap();
        stream.write_all(GOAWAY).await.unwrap();
        streams.push(stream);
    }
}

/// Nothing has happened.
#[tokio::test]
async fn a_request_that_was_not_processed_is_sent_again() {
    for (rejection, is_closing) in [(GOAWAY, true), (REJECTED, false)] {
        let (upstream, server) = h2c_upstream().await;
        let _serving = serve(async move {
            let mut stream = accept(&server).await;
            let first = next_request(&mut stream).await.unwrap();
            assert_eq!(first, [0, 0, 0, 1]);
            stream.write_all(rejection).await.unwrap();
            if is_closing {
                stream = accept(&server).await;
            }
            let again = next_request(&mut stream).await.unwrap();
            answer_stream(&mut stream, again).await;
            pending().await
        });
        let sent = send(&upstream, put(RequestBody::empty())).await;
        assert_eq!(sent.unwrap(), StatusCode::NO_CONTENT);
    }
}

/// The server takes no new requests for now, and has not failed. A body has been read in part.
#[tokio::test]
async fn a_request_with_a_body_that_was_not_processed_was_not_sent() {
    let (upstream, server) = h2c_upstream().await;
    let _serving = serve(reject_all(server));
    // More than those after which an address is avoided.
    for _ in 0..5 {
        let (body, _client) = unfinished().await;
        let unanswered = send(&upstream, put(body)).await.unwrap_err();
        assert!(!unanswered.was_sent, "{unanswered:?}");
        for _ in 0..TURNS {
            yield_now().await;
        }
    }
    assert!(!upstream.pools[0].health.is_avoided());
}

/// However often that is.
#[tokio::test]
async fn a_request_that_is_never_processed_is_sent_a_few_times() {
    let (upstream, server) = h2c_upstream().await;
    let _serving = serve(reject_all(server));
    let sent = send(&upstream, put(RequestBody::empty())).await;
    let unanswered = sent.unwrap_err();
    assert!(!unanswered.was_sent, "{unanswered:?}");
}

/// Resets the streams of one connection as `resets` say, the last of which is for all others, and
/// counts them.
async fn reset_all(
    listener: TcpListener,
    resets: &'static [&'static [u8]],
    count: Arc<AtomicUsize>,
) {
    let mut stream = accept(&listener).await;
    loop {
        let number = next_request(&mut stream).await.unwrap();
        let index = count.fetch_add(1, Ordering::Relaxed);
        let mut reset = resets[index.min(resets.len() - 1)].to_vec();
        reset[NUMBER].copy_from_slice(&number);
        stream.write_all(&reset).await.unwrap();
    }
}

/// An upstream that has too much to do is not sent more of it because requests may be retried.
#[tokio::test]
async fn retries_do_not_multiply_the_sends_of_a_request_that_is_never_processed() {
    let retried: &[(&[&[u8]], usize)] = &[
        (&[REJECTED], SENDS_MAX),
        // The second one is retried, and the third counts together with the first.
        (&[REJECTED, BROKEN, REJECTED], SENDS_MAX + 1),
        (&[REJECTED, REJECTED, BROKEN, REJECTED], SENDS_MAX + 1),
        (&[BROKEN], 1 + ATTEMPTS),
    ];
    for &(resets, sends) in retried {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addresses = vec![server.local_addr().unwrap().to_string()];
        let upstream = open_upstream(&UpstreamSettings {
            retries: retries(u32::try_from(ATTEMPTS).unwrap()),
            ..settings_of(addresses, UpstreamProtocol::H2c)
        });
        let count = Arc::new(AtomicUsize::new(0));
        let _serving = serve(reset_all(server, resets, Arc::clone(&count)));
        let get = Request::get("http://api/").body(RequestBody::empty());
        let unanswered = send(&upstream, Box::new(get.unwrap())).await.unwrap_err();
        assert!(matches!(unanswered.failure, Failure::Closed));
        assert_eq!(count.load(Ordering::Relaxed), sends, "{resets:?}");
    }
}

#[tokio::test]
async fn a_request_that_may_have_been_processed_is_not_sent_again() {
    for end in [GOAWAY_AFTER, BROKEN] {
        let (upstream, server) = h2c_upstream().await;
        let _serving = serve(async move {
            let mut stream = accept(&server).await;
            next_request(&mut stream).await.unwrap();
            stream.write_all(end).await.unwrap();
        });
        let sent = send(&upstream, put(RequestBody::empty())).await;
        let unanswered = sent.unwrap_err();
        assert!(unanswered.was_sent, "{unanswered:?}");
    }
}
