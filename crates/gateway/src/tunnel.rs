//! A tunnel: the connections of a client and a server after they switched protocols.
//!
//! Bytes go both ways as they come. No more of them wait than one buffer each way, so that a side
//! that reads slowly slows the other one. When a side sends no more, the other sees the end of the
//! stream, and may go on. A tunnel in which nothing moves ends after a while.

use std::io::{IoSlice, Result};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional_with_sizes};
use tokio::time::{Instant, timeout_at};

use crate::concurrency_limit::Permits;
use crate::connection_pool::Lease;
use crate::log_record::LogRecord;

/// The most bytes that wait to be written, each way.
const BUFFER_BYTES: usize = 8 * 1024;

/// A tunnel, before it begins.
#[derive(Debug)]
pub(crate) struct Tunnel {
    pub(crate) server: OnUpgrade,
    /// The server's connection, which counts as a request in flight.
    pub(crate) lease: Lease,
    pub(crate) permits: Permits,
    /// How long nothing may move.
    pub(crate) idle: Duration,
    /// Its line in the access log, which is written at the end.
    pub(crate) record: LogRecord,
    pub(crate) open: OpenTunnel,
}

/// Counts an open tunnel until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenTunnel(Gauge);

/// A client's stream, which records what moves.
#[derive(Debug)]
struct Client<'a, S> {
    stream: S,
    record: LogRecord,
    movement: &'a Movement,
}

/// When a byte moved last.
#[derive(Debug)]
struct Movement {
    began: Instant,
    /// Milliseconds from `began`.
    last: AtomicU64,
}

// === impl Tunnel ===

impl Tunnel {
    /// Runs it until both sides have ended, one of them fails, or nothing has moved for too long.
    pub(crate) async fn run(self, client: impl AsyncRead + AsyncWrite + Unpin) {
        let Tunnel {
            server,
            lease: _lease,
            permits: _permits,
            idle,
            record,
            open: _open,
        } = self;
        // The server has answered 101, so its connection is there at once, or gone.
        if let Ok(server) = server.await {
            join(client, TokioIo::new(server), idle, record).await;
        }
    }
}

/// Copies bytes between a client and its server, both ways.
async fn join(
    client: impl AsyncRead + AsyncWrite + Unpin,
    mut server: impl AsyncRead + AsyncWrite + Unpin,
    idle: Duration,
    record: LogRecord,
) {
    let movement = Movement::new();
    let mut client = Client {
        stream: client,
        record,
        movement: &movement,
    };
    let is_complete = {
        let (client, server) = (&mut client, &mut server);
        let copied = copy_bidirectional_with_sizes(client, server, BUFFER_BYTES, BUFFER_BYTES);
        let mut copied = pin!(copied);
        loop {
            let deadline = movement.last() + idle;
            match timeout_at(deadline, &mut copied).await {
                Ok(ended) => break ended.is_ok(),
                Err(_) if movement.last() + idle > deadline => {}
                Err(_) => break false,
            }
        }
    };
    if is_complete {
        client.record.complete();
    }
}

// === impl OpenTunnel ===

impl OpenTunnel {
    pub(crate) fn new(gauge: &Gauge) -> OpenTunnel {
        gauge.inc();
        OpenTunnel(gauge.clone())
    }
}

impl Drop for OpenTunnel {
    fn drop(&mut self) {
        self.0.dec();
    }
}

// === impl Movement ===

impl Movement {
    fn new() -> Movement {
        Movement {
            began: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    fn record(&self) {
        let millis = self.began.elapsed().as_millis();
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        // Relaxed: it is read on its own, and only to set a timer.
        self.last.store(millis, Ordering::Relaxed);
    }

    fn last(&self) -> Instant {
        self.began + Duration::from_millis(self.last.load(Ordering::Relaxed))
    }
}

// === impl Client ===

impl<S> Client<'_, S> {
    fn record_written(&mut self, written: &Poll<Result<usize>>) {
        if let Poll::Ready(Ok(bytes @ 1..)) = written {
            self.record.add_bytes(*bytes);
            self.movement.record();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Client<'_, S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_read(cx, buf);
        // The end of the stream is a movement as well.
        if polled.is_ready() {
            this.movement.record();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Client<'_, S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.record_written(&written);
        written
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.record_written(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::advance;

    use super::*;

    const IDLE: Duration = Duration::from_secs(60);
    /// The bytes that a side's socket takes.
    const SOCKET_BYTES: usize = 1024;

    /// A running tunnel, the client's end of it, and the server's.
    fn tunnel() -> (JoinHandle<()>, DuplexStream, DuplexStream) {
        let (client, inner) = duplex(SOCKET_BYTES);
        let (server, outer) = duplex(SOCKET_BYTES);
        let joined = async move { join(inner, outer, IDLE, LogRecord::default()).await };
        (tokio::spawn(joined), client, server)
    }

    async fn read(stream: &mut DuplexStream, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        stream.read_exact(&mut read).await.unwrap();
        read
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_go_both_ways_until_both_sides_have_ended() {
        let (running, mut client, mut server) = tunnel();
        client.write_all(b"\0ping\xff").await.unwrap();
        assert_eq!(read(&mut server, 6).await, b"\0ping\xff");
        server.write_all(b"pong").await.unwrap();
        assert_eq!(read(&mut client, 4).await, b"pong");
        // The client sends no more; the server still does.
        client.shutdown().await.unwrap();
        assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
        server.write_all(b"rest").await.unwrap();
        assert_eq!(read(&mut client, 4).await, b"rest");
        drop(server);
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
        running.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_tunnel_in_which_nothing_moves_ends_and_each_byte_prolongs_it() {
        let (running, mut client, mut server) = tunnel();
        let nearly = IDLE - Duration::from_millis(1);
        for _ in 0..3 {
            advance(nearly).await;
            client.write_all(b"a").await.unwrap();
            read(&mut server, 1).await;
            advance(nearly).await;
            server.write_all(b"b").await.unwrap();
            read(&mut client, 1).await;
        }
        let began = Instant::now();
        running.await.unwrap();
        assert_eq!(began.elapsed(), IDLE);
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_half_closed_tunnel_in_which_nothing_moves_ends() {
        let (running, mut client, _server) = tunnel();
        client.shutdown().await.unwrap();
        let began = Instant::now();
        running.await.unwrap();
        assert_eq!(began.elapsed(), IDLE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_side_that_reads_nothing_stops_the_other_one() {
        let (_running, _client, mut server) = tunnel();
        let mut taken = 0;
        let sending = async {
            loop {
                taken += server.write(&[b'x'; 100]).await.unwrap();
            }
        };
        assert!(
            timeout_at(Instant::now() + IDLE / 2, sending)
                .await
                .is_err()
        );
        let at_most = 2 * SOCKET_BYTES + BUFFER_BYTES;
        assert!(taken <= at_most, "{taken} bytes, {at_most} at most");
        advance(IDLE).await;
    }
}
