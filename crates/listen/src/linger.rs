//! A connection that this side has ended is read until the peer ends it, too.
//!
//! If a socket is closed while bytes of the peer are unread, or before they arrive, the connection
//! is reset, and the peer loses what it has not read of the last response (RFC 9112, section 9.6).

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

use crate::connection::Connection;
use crate::drain_end::DRAIN_QUIET;

/// For how long a connection is read at most.
const LINGER_MAX: Duration = Duration::from_secs(30);
/// For how long nothing must arrive until the peer is taken to have read the response.
const QUIET: Duration = Duration::from_secs(5);
/// How much of it is read at most.
const BYTES_MAX: usize = 16 * 1024 * 1024;
/// How much is read at once.
const READ_BYTES: usize = 4096;

/// Reads and discards what still arrives, until the peer ends the connection or stops sending. A
/// connection that has to end soon is read only as far as something has arrived.
pub(crate) async fn linger(stream: &mut (impl AsyncRead + Unpin), known: &Connection) {
    let discard = discard(stream, QUIET, || has_to_end(known));
    let _ended = timeout(LINGER_MAX, discard).await;
}

/// The same for a connection that ends because it is drained, although the peer may be sending:
/// for half of the rest of the drain at most, so that it ends in time.
pub(crate) async fn linger_in_drain(
    stream: &mut (impl AsyncRead + Unpin),
    known: &Connection,
    drain_timeout: Duration,
) {
    let drained = known.time_since_drain().unwrap_or_default();
    let within = drain_timeout.saturating_sub(drained) / 2;
    let _ended = timeout(within, discard(stream, DRAIN_QUIET, || false)).await;
}

/// Reads and discards until the peer ends the connection, nothing arrives for `quiet`, or nothing
/// is there and the connection has to end.
async fn discard(
    stream: &mut (impl AsyncRead + Unpin),
    quiet: Duration,
    has_to_end: impl Fn() -> bool,
) {
    let mut read = [0; READ_BYTES];
    let mut bytes = 0;
    while bytes < BYTES_MAX {
        let mut reading = pin!(stream.read(&mut read));
        // Its drain may begin meanwhile.
        let reading = poll_fn(|cx| match reading.as_mut().poll(cx) {
            Poll::Pending if has_to_end() => Poll::Ready(Ok(0)),
            read => read,
        });
        match timeout(quiet, reading).await {
            Ok(Ok(more @ 1..)) => bytes += more,
            // The end, a broken connection, or silence.
            Ok(Ok(0) | Err(_)) | Err(_) => return,
        }
    }
}

/// Whether others wait for its permit, or for its end.
fn has_to_end(known: &Connection) -> bool {
    known.is_reserved() || known.time_since_drain().is_some()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::future::pending;
    use std::sync::Arc;

    use tokio::io::{AsyncWriteExt, duplex};
    use tokio::time::{Instant, interval};

    use super::*;
    use crate::address::PeerAddress;
    use crate::budget::Budget;
    use crate::limits::Limits;

    fn connection(is_reserved: bool) -> Connection {
        let budget = Arc::new(Budget::new(&Limits::default()));
        let now = std::time::Instant::now();
        Connection::new(PeerAddress::Unix, is_reserved, 1000, budget, now)
    }

    /// For how long a connection is read, on which something arrives whenever `pause` has passed.
    async fn lingers(pause: Duration, pieces: u32, known: &Connection) -> Duration {
        let (mut peer, mut stream) = duplex(100_000);
        let begun = Instant::now();
        let send = async {
            let mut times = interval(pause);
            for _ in 0..pieces {
                times.tick().await;
                if peer.write_all(&[0; 10_000]).await.is_err() {
                    break;
                }
            }
            peer
        };
        let linger = async {
            linger(&mut stream, known).await;
            drop(stream);
            begun.elapsed()
        };
        let (_peer, lingered) = tokio::join!(send, linger);
        lingered
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_read_until_the_peer_is_quiet_or_the_time_is_over() {
        let (second, known) = (Duration::from_secs(1), connection(false));
        assert_eq!(lingers(second, 0, &known).await, QUIET);
        assert_eq!(lingers(second, 3, &known).await, 2 * second + QUIET);
        assert_eq!(lingers(second, 100, &known).await, LINGER_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_has_to_end_soon_is_only_emptied() {
        let drained = connection(false);
        drained.drain();
        for known in [connection(true), drained] {
            let lingered = lingers(Duration::from_secs(1), 2, &known).await;
            assert!(lingered < Duration::from_millis(10), "{lingered:?}");
        }
    }

    /// The peer may not have seen yet that its connection has ended.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_a_drain_has_ended_is_read_until_the_peer_is_quiet() {
        let (known, second) = (connection(false), Duration::from_secs(1));
        known.drain();
        for (pieces, left, expected) in [
            (0, second, DRAIN_QUIET),
            (10, 10 * second, Duration::from_millis(900) + DRAIN_QUIET),
            (1000, 10 * second, 5 * second),
            (0, second / 10, second / 20),
        ] {
            let (mut peer, mut stream) = duplex(100_000);
            let begun = Instant::now();
            let send = async {
                let mut times = interval(Duration::from_millis(100));
                for _ in 0..pieces {
                    times.tick().await;
                    peer.write_all(&[0; 1000]).await.unwrap();
                }
                pending::<()>().await;
            };
            tokio::select! {
                () = send => unreachable!(),
                () = linger_in_drain(&mut stream, &known, left) => {}
            }
            // Of the drain, some of the real time has passed.
            let difference = begun.elapsed().abs_diff(expected);
            assert!(difference < Duration::from_millis(50), "{difference:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_the_peer_has_ended_is_not_read_any_longer() {
        let (mut peer, mut stream) = duplex(1000);
        peer.write_all(b"unread").await.unwrap();
        drop(peer);
        let begun = Instant::now();
        linger(&mut stream, &connection(false)).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
