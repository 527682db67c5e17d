//! Servers of HTTP/2 that write their frames themselves.

use std::io;

use super::*;

/// An empty SETTINGS.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// The head of a frame of HEADERS with a byte, which ends its stream; and 204, compressed.
const HEADERS: [u8; 5] = [0, 0, 1, 1, 5];
const NO_CONTENT: u8 = 0x89;
/// The type of HEADERS, and the length of what a client sends before all frames.
const TYPE_HEADERS: u8 = 1;
const PREFACE_BYTES: usize = 24;

/// A connection from its first frame on.
pub(super) async fn accept(listener: &TcpListener) -> TcpStream {
    let (mut stream, _peer) = listener.accept().await.unwrap();
    stream.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap();
    stream.write_all(SETTINGS).await.unwrap();
    stream
}

/// Reads up to the next request, and returns the four bytes of its stream's number.
pub(super) async fn next_request(stream: &mut TcpStream) -> io::Result<[u8; 4]> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let [a, b, c, kind, _flags, number @ ..] = head;
        let length = u32::from_be_bytes([0, a, b, c]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut payload).await?;
        if kind == TYPE_HEADERS {
            return Ok(number);
        }
    }
}

pub(super) async fn answer_stream(stream: &mut TcpStream, number: [u8; 4]) {
    let head = [&HEADERS[..], &number, &[NO_CONTENT]].concat();
    stream.write_all(&head).await.unwrap();
}

pub(super) async fn h2c_upstream() -> (Upstream, TcpListener) {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap().to_string();
    (upstream_of(vec![address], UpstreamProtocol::H2c, 8), server)
}

/// Runs a server until what is returned is dropped.
pub(super) fn serve(serving: impl Future<Output = ()> + Send + 'static) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(serving);
    tasks
}

pub(super) async fn send(
    upstream: &Upstream,
    request: Box<Request<RequestBody>>,
) -> Result<StatusCode, Unanswered> {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let lease = upstream.lease().await.unwrap();
    let sent = upstream.send(lease, request, TIMEOUT, &clock).await;
    sent.map(|(response, _lease)| response.status())
}
