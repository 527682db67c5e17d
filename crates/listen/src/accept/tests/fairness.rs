//! One connection has sent much, another one little: both are served in turns.

mod over_tls;

use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};

use tokio::io::DuplexStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::*;
use crate::handler::StreamHandler;
use crate::handshake::Stream;

/// A connection's quantum.
const TURN_BYTES: usize = 1_000;
/// Many times as much.
const BUSY_BYTES: usize = 50 * TURN_BYTES;
const BUSY_REQUESTS: usize = 12;
/// As many connections as are busy at once, and how many of them may be served before a request
/// that arrives meanwhile.
const BUSY_CONNECTIONS: u8 = 40;
const BUSY_BEFORE: usize = 4;
const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// The peers of which something was served, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<PeerAddress>>>, Arc<Notify>);

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
        self.1.notify_one();
    }

    /// Waits until so much was served.
    async fn reaches(&self, served: usize) {
        while self.len() < served {
            self.1.notified().await;
        }
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

expect_no_close!(Log);

impl StreamHandler for Log {
    /// Reads pieces, and answers each with as many as its first byte says.
    async fn run(&self, stream: &mut impl Stream, connection: &Arc<Connection>) {
        let mut piece = [0; TURN_BYTES];
        while stream.read(&mut piece).await.unwrap() > 0 {
            self.push(connection.peer());
            for _ in 0..piece[0] {
                stream.write_all(&[0; TURN_BYTES]).await.unwrap();
                self.push(connection.peer());
            }
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

/// Serves connections at once on one thread. What they send has arrived before; the last one sends
/// more when so much was served.
async fn serve(
    session: impl Session,
    protocol: Protocol,
    sent: Vec<Vec<u8>>,
    later: Option<Later>,
) {
    let listener = listener(protocol).await;
    let limits = Limits::default();
    let budget = Arc::new(Budget::new(&limits));
    let (_shutdown, signal) = shutdown_channel();
    let acceptor = Acceptor::new(&listener, session, limits, Arc::clone(&budget), signal);
    let (mut tasks, mut clients) = (JoinSet::new(), Vec::new());
    for (number, bytes) in (1..).zip(sent) {
        let peer = peer_of(number);
        let known = Connection::new(peer, false, TURN_BYTES, Arc::clone(&budget), Instant::now());
        let (known, acceptor) = (Arc::new(known), acceptor.clone());
        let (mut client, stream) = duplex(ROOM);
        client.write_all(&bytes).await.unwrap();
        clients.push(client);
        tasks.spawn(async move {
            acceptor
                .session
                .serve(stream, &known, &acceptor.terms)
                .await;
        });
    }
    if let Some(later) = later {
        // In a task of its own, which is polled between those of the connections.
        let last = clients.pop();
        clients.extend(tokio::spawn(later.send(last)).await.unwrap());
    }
    for client in &mut clients {
        client.shutdown().await.unwrap();
    }
    tasks.join_all().await;
}

/// When the last connection sends a byte.
struct Later {
    log: Log,
    served: usize,
}

impl Later {
    async fn send(self, client: Option<DuplexStream>) -> Option<DuplexStream> {
        let mut client = client?;
        self.log.reaches(self.served).await;
        client.write_all(&[0]).await.unwrap();
        Some(client)
    }
}

#[tokio::test]
async fn a_connection_with_many_bytes_does_not_delay_another_one() {
    let log = Log::default();
    let sent = vec![vec![0; BUSY_BYTES], vec![0]];
    serve(Streams(log.clone()), Protocol::Other, sent, None).await;
    assert_eq!(log.len(), BUSY_BYTES / TURN_BYTES + 1);
    assert_eq!(log.before_the_second(), 1);
}

#[tokio::test]
async fn a_connection_with_a_long_answer_does_not_delay_another_one() {
    let log = Log::default();
    let sent = vec![vec![50], vec![1]];
    serve(Streams(log.clone()), Protocol::Other, sent, None).await;
    assert_eq!(log.len(), 53);
    // It was read once, and wrote one piece, which is more than the first part of a turn has.
    assert_eq!(log.before_the_second(), 2);
}

#[tokio::test]
async fn a_connection_with_many_requests_does_not_delay_another_one() {
    let log = Log::default();
    let sent = vec![GET.repeat(BUSY_REQUESTS), GET.to_vec()];
    serve(Http(log.clone()), Protocol::Http1, sent, None).await;
    assert_eq!(log.len(), BUSY_REQUESTS + 1);
    assert_eq!(log.before_the_second(), 1);
}

#[tokio::test]
async fn a_request_waits_for_few_of_many_busy_connections() {
    let log = Log::default();
    let mut sent = vec![vec![0; BUSY_BYTES]; BUSY_CONNECTIONS.into()];
    sent.push(Vec::new());
    let so_far = 3 * usize::from(BUSY_CONNECTIONS) + 3;
    let later = Later {
        log: log.clone(),
        served: so_far,
    };
    serve(Streams(log.clone()), Protocol::Other, sent, Some(later)).await;
    let served = log.0.lock().unwrap();
    let last = peer_of(BUSY_CONNECTIONS + 1);
    let before = served.iter().position(|peer| *peer == last).unwrap() - so_far;
    assert!(before <= BUSY_BEFORE, "{before}");
    // All have had as much as the others by then, but for one quantum, and all are served.
    let shares = (1..=BUSY_CONNECTIONS).map(|number| {
        let so_far = served[..so_far].iter();
        so_far.filter(|peer| **peer == peer_of(number)).count()
    });
    let shares: Vec<usize> = shares.collect();
    let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
    assert!(most - least <= 1, "{shares:?}");
    assert_eq!(served.len() - 1, 50 * usize::from(BUSY_CONNECTIONS));
}
