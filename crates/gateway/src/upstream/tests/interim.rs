//! Interim responses (RFC 9110, section 15.2), which the HTTP library skips.

use http_body_util::BodyExt;

use super::*;
use crate::connector::BYTES_BEFORE_RESPONSE_MAX;

const INTERIM: &[u8] = b"HTTP/1.1 103 Early Hints\r\n\r\n";
/// A body that is larger than what may come before a response.
const BODY_BYTES: usize = 2 * BYTES_BEFORE_RESPONSE_MAX;

/// Answers each request on a connection, after so many interim responses.
async fn answer_after(listener: TcpListener, interim: usize) {
    let (mut stream, _peer) = listener.accept().await.unwrap();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {BODY_BYTES}\r\n\r\n");
    let interim = INTERIM.repeat(interim);
    let answer = [&interim[..], head.as_bytes(), &[b'x'; BODY_BYTES]].concat();
    let mut read = Vec::new();
    while stream
        .read_buf(&mut read)
        .await
        .is_ok_and(|count| count > 0)
    {
        if read.ends_with(b"\r\n\r\n") {
            read.clear();
            // The gateway may have closed the connection.
            let _closed = stream.write_all(&answer).await;
        }
    }
}

/// A server that sends nothing else would never end the wait for its response, and would keep the
/// thread that reads it from other requests meanwhile.
#[tokio::test]
async fn a_server_that_sends_many_interim_responses_has_failed() {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let many = BYTES_BEFORE_RESPONSE_MAX / INTERIM.len();
    for (interim, is_answered) in [(0, true), (many / 2, true), (2 * many, false)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = upstream_at(vec![listener.local_addr().unwrap().to_string()]);
        let server = tokio::spawn(answer_after(listener, interim));
        // The second one goes over the same connection.
        for _ in 0..2 {
            let lease = upstream.lease().await.unwrap();
            match upstream.send(lease, request(), TIMEOUT, &clock).await {
                Ok((response, lease)) => {
                    assert!(is_answered, "{interim}");
                    let body = response.into_body().collect().await.unwrap();
                    assert_eq!(body.to_bytes().len(), BODY_BYTES);
                    lease.finish();
                }
                Err(unanswered) => {
                    assert!(!is_answered, "{interim}: {unanswered:?}");
                    let Failure::Malformed = unanswered.failure else {
                        panic!("{unanswered:?}");
                    };
                    break;
                }
            }
        }
        server.abort();
    }
}
