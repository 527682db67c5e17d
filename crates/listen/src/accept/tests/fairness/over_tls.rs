//! Over TLS, what takes long is not what is long: records of one byte.

use super::*;
use crate::accept::tests::tls_peer::{configs, connect};

/// How many records of one byte a connection sends: fewer than one read of its data has room for.
const RECORDS: usize = 2_000;
const READ_BYTES: usize = 16 * 1024;
/// The bytes of such a record.
const RECORD_BYTES: usize = 23;
/// What the TLS library reads at once.
const SOCKET_READ_BYTES: usize = 4096;

/// Notes each byte that it reads.
#[derive(Clone, Default)]
struct Bytes(Log);

expect_no_close!(Bytes);

impl StreamHandler for Bytes {
    async fn run(&self, stream: &mut impl Stream, connection: &Arc<Connection>) {
        let mut piece = vec![0; READ_BYTES];
        loop {
            let count = stream.read(&mut piece).await.unwrap();
            if count == 0 {
                return;
            }
            (0..count).for_each(|_| self.0.push(connection.peer()));
        }
    }
}

#[tokio::test]
async fn a_connection_with_many_short_records_does_not_delay_another_one() {
    let (credentials, config) = configs();
    let tls = Tls::new(Protocol::Other, &credentials);
    let bytes = Bytes::default();
    let limits = Limits::default();
    let listener = listener(Protocol::Other).await;
    let budget = Arc::new(Budget::new(&limits));
    let (_shutdown, signal) = shutdown_channel();
    let session = Streams(bytes.clone());
    let acceptor = Acceptor::new(&listener, session, limits, Arc::clone(&budget), signal);
    let (mut clients, mut served) = (Vec::new(), Vec::new());
    for (number, records) in [(1, RECORDS), (2, 1)] {
        let peer = peer_of(number);
        let known = Connection::new(peer, false, TURN_BYTES, Arc::clone(&budget), Instant::now());
        let known = Arc::new(known);
        let (mut client, stream) = connect(&tls, &config, &known).await;
        for _ in 0..records {
            client.write_all(b"x").await.unwrap();
        }
        client.flush().await.unwrap();
        clients.push(client);
        let acceptor = Arc::clone(&acceptor);
        served.push(async move {
            let terms = &acceptor.terms;
            acceptor.session.serve(stream, &known, terms).await;
        });
    }
    let tasks: JoinSet<()> = served.into_iter().collect();
    for client in &mut clients {
        client.shutdown().await.unwrap();
    }
    tasks.join_all().await;
    assert_eq!(bytes.0.len(), RECORDS + 1);
    let before = bytes.0.before_the_second();
    assert!(before <= SOCKET_READ_BYTES / RECORD_BYTES, "{before}");
}
