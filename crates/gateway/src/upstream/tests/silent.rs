//! Connections of HTTP/2 whose servers do not answer.

use tokio::time::{advance, pause, resume};

use super::frames::{accept, answer_stream, h2c_upstream, next_request};
use super::*;

/// How long the head of most responses may take here.
const HEAD_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends a request that may be answered as late as that.
async fn get(upstream: &Upstream, head_timeout: Duration) -> Result<StatusCode, Failure> {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let request = Request::get("http://api/").body(RequestBody::empty());
    let lease = upstream.lease().await?;
    let sent = upstream.send(lease, Box::new(request.unwrap()), head_timeout, &clock);
    let sent = sent.await.map(|(response, _lease)| response.status());
    sent.map_err(|unanswered| unanswered.failure)
}

/// Reads a request, and answers it.
async fn serve_next(stream: &mut TcpStream) {
    let number = next_request(stream).await.unwrap();
    answer_stream(stream, number).await;
}

/// An upstream, its server, and the server's connection, on which a request was answered.
async fn connected() -> (Upstream, TcpListener, TcpStream) {
    let (upstream, server) = h2c_upstream().await;
    let accepted = async {
        let mut stream = accept(&server).await;
        serve_next(&mut stream).await;
        stream
    };
    let (answered, stream) = tokio::join!(get(&upstream, TIMEOUT), accepted);
    assert_eq!(answered.unwrap(), StatusCode::NO_CONTENT);
    (upstream, server, stream)
}

/// Lets the time pass that the head of a response may take.
async fn pass_time() {
    pause();
    advance(HEAD_TIMEOUT).await;
    resume();
}

/// Whether the next request comes on a new connection and not on that one; it is answered.
async fn is_on_a_new_connection(server: &TcpListener, stream: &mut TcpStream) -> bool {
    tokio::select! {
        Ok(number) = next_request(stream) => {
            answer_stream(stream, number).await;
            false
        }
        mut fresh = accept(server) => {
            serve_next(&mut fresh).await;
            true
        }
    }
}

/// Such as of a process that was stopped, or of a host that is gone and has come back.
#[tokio::test]
async fn a_connection_on_which_nothing_arrives_gets_no_more_requests() {
    let (upstream, server, mut stream) = connected().await;
    let other = get(&upstream, TIMEOUT);
    let served = async {
        let number = next_request(&mut stream).await.unwrap();
        let silent = async {
            next_request(&mut stream).await.unwrap();
            pass_time().await;
        };
        let (late, ()) = tokio::join!(get(&upstream, HEAD_TIMEOUT), silent);
        assert!(matches!(late, Err(Failure::SlowHead(HEAD_TIMEOUT))));
        let is_new = is_on_a_new_connection(&server, &mut stream);
        let (answered, is_new) = tokio::join!(get(&upstream, TIMEOUT), is_new);
        assert_eq!(answered.unwrap(), StatusCode::NO_CONTENT);
        assert!(is_new);
        // The other request on it goes on.
        answer_stream(&mut stream, number).await;
    };
    let (answered, ()) = tokio::join!(other, served);
    assert_eq!(answered.unwrap(), StatusCode::NO_CONTENT);
    // It closes after that one.
    while next_request(&mut stream).await.is_ok() {}
}

#[tokio::test]
async fn a_connection_on_which_other_requests_are_answered_is_kept() {
    let (upstream, server, mut stream) = connected().await;
    let slow = get(&upstream, HEAD_TIMEOUT);
    let others = async {
        next_request(&mut stream).await.unwrap();
        let (answered, ()) = tokio::join!(get(&upstream, TIMEOUT), serve_next(&mut stream));
        assert_eq!(answered.unwrap(), StatusCode::NO_CONTENT);
        pass_time().await;
    };
    let (late, ()) = tokio::join!(slow, others);
    assert!(matches!(late, Err(Failure::SlowHead(HEAD_TIMEOUT))));
    let is_new = is_on_a_new_connection(&server, &mut stream);
    let (answered, is_new) = tokio::join!(get(&upstream, TIMEOUT), is_new);
    assert_eq!(answered.unwrap(), StatusCode::NO_CONTENT);
    assert!(!is_new);
}
