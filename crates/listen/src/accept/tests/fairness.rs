//! One connection has sent much, another one little: both are served in turns.

use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};

use tokio::task::JoinSet;

use super::*;
use crate::handler::StreamHandler;
use crate::handshake::Stream;

/// A connection's quantum.
const TURN_BYTES: usize = 1_000;
/// Many times as much.
const BUSY_BYTES: usize = 50 * TURN_BYTES;
const BUSY_REQUESTS: usize = 12;
const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// The peers of which something was served, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<PeerAddress>>>);

/// Decides requests that each take a whole quantum.
struct Deciding {
    log: Log,
    connection: Arc<Connection>,
}

// === impl Log ===

impl Log {
    fn push(&self, peer: PeerAddress) {
        let mut served = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        served.push(peer);
    }

    /// How often the first peer was served before the second one was.
    fn before_the_second(&self) -> usize {
        let served = self.0.lock().unwrap();
        served.iter().position(|peer| *peer == peer_of(2)).unwrap()
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

impl ConnectionCounts for Log {
    fn count_open(&self) {}

    fn count_end(&self) {}

    fn count_close(&self, reason: &'static str) {
        panic!("{reason}");
    }

    fn count_error(&self, kind: &'static str) {
        panic!("{kind}");
    }
}

impl StreamHandler for Log {
    async fn run(&self, mut stream: impl Stream, connection: &Arc<Connection>) {
        let mut piece = [0; TURN_BYTES];
        while stream.read(&mut piece).await.unwrap() > 0 {
            self.push(connection.peer());
        }
    }
}

impl Handler for Log {
    type Body = String;
    type Service = Deciding;

    fn service(&self, connection: &Arc<Connection>) -> Deciding {
        Deciding {
            log: self.clone(),
            connection: Arc::clone(connection),
        }
    }
}

impl Service<Request<Incoming>> for Deciding {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<String>, Infallible>> + Send>>;

    fn call(&self, _request: Request<Incoming>) -> Self::Future {
        let (log, connection) = (self.log.clone(), Arc::clone(&self.connection));
        Box::pin(async move {
            poll_fn(|cx| connection.poll_decide(TURN_BYTES, cx)).await;
            log.push(connection.peer());
            Ok(Response::new(String::new()))
        })
    }
}

fn peer_of(number: u8) -> PeerAddress {
    SocketAddr::from(([10, 0, 0, number], 1)).into()
}

/// Serves two connections at once on one thread. Everything that they send has arrived before.
async fn serve(session: impl Session, protocol: Protocol, sent: [Vec<u8>; 2]) {
    let listener = listener(protocol).await;
    let limits = Limits::default();
    let budget = Arc::new(Budget::new(&limits));
    let (_shutdown, signal) = shutdown_channel();
    let acceptor = Acceptor::new(&listener, session, limits, Arc::clone(&budget), signal);
    let mut tasks = JoinSet::new();
    for (number, bytes) in (1..).zip(sent) {
        let peer = peer_of(number);
        let known = Connection::new(peer, false, TURN_BYTES, Arc::clone(&budget), Instant::now());
        let (known, acceptor) = (Arc::new(known), acceptor.clone());
        let (mut client, stream) = duplex(ROOM);
        client.write_all(&bytes).await.unwrap();
        client.shutdown().await.unwrap();
        tasks.spawn(async move {
            acceptor
                .session
                .serve(stream, &known, &acceptor.terms)
                .await;
            drop(client);
        });
    }
    tasks.join_all().await;
}

#[tokio::test]
async fn a_connection_with_many_bytes_does_not_delay_another_one() {
    let log = Log::default();
    let sent = [vec![0; BUSY_BYTES], vec![0]];
    serve(Streams(log.clone()), Protocol::Other, sent).await;
    assert_eq!(log.len(), BUSY_BYTES / TURN_BYTES + 1);
    assert_eq!(log.before_the_second(), 1);
}

#[tokio::test]
async fn a_connection_with_many_requests_does_not_delay_another_one() {
    let log = Log::default();
    let sent = [GET.repeat(BUSY_REQUESTS), GET.to_vec()];
    serve(Http(log.clone()), Protocol::Http1, sent).await;
    assert_eq!(log.len(), BUSY_REQUESTS + 1);
    assert_eq!(log.before_the_second(), 1);
}
