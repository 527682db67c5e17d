//! A connection on which a request asked for another protocol ends as any other one.

use tokio::time::Instant;

use super::*;

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
/// How many requests come before the last one that asks for another protocol, and after it.
const PIPELINE: usize = 10;

/// How many requests are answered on a connection that sends this, and ends its side if it says
/// so. The connection ends at once.
async fn answers(sent: &str, is_ended: bool) -> usize {
    let listener = listener(Protocol::Http1).await;
    let (acceptor, connection) = acceptor(&listener, Limits::default());
    let (mut client, stream) = duplex(ROOM);
    let began = Instant::now();
    let talk = async move {
        client.write_all(sent.as_bytes()).await.unwrap();
        if is_ended {
            client.shutdown().await.unwrap();
        }
        let mut answers = String::new();
        client.read_to_string(&mut answers).await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
        answers.matches("HTTP/1.1 200 OK").count()
    };
    let serve = acceptor.session.serve(stream, &connection, &acceptor.terms);
    tokio::join!(serve, talk).1
}

/// The HTTP library does not end a stream that it would hand over.
#[tokio::test(start_paused = true)]
async fn a_pipeline_is_answered_although_one_of_it_asks_for_another_protocol() {
    let upgrade = "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n";
    let connect = "CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\n\r\n";
    let many = GET.repeat(PIPELINE);
    let last = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    for other in [upgrade, GET] {
        let sent = format!("{many}{other}{many}");
        assert_eq!(answers(&sent, true).await, 2 * PIPELINE + 1, "{other}");
        let sent = format!("{other}{many}{last}");
        assert_eq!(answers(&sent, false).await, PIPELINE + 2, "{other}");
    }
    // What follows is for the tunnel that it asks for.
    let sent = format!("{many}{connect}");
    assert_eq!(answers(&sent, true).await, PIPELINE + 1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_ends_with_the_answer_to_a_request_for_another_protocol() {
    let sent = "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade, close\r\nupgrade: h2c\r\n\r\n";
    assert_eq!(answers(sent, false).await, 1);
}
