//! A connection to the service, of which is counted what is done with it.

use std::io::Result;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::TcpStream;

/// Of all connections of this process: one row is measured after the other.
static OPENED: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);
static SENT: AtomicU64 = AtomicU64::new(0);

/// What was done with connections to the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// Connections that were opened.
    pub(crate) opened: u64,
    /// Those that the service has ended.
    pub(crate) ended: u64,
    /// Bytes that were sent, but for those that only open a connection.
    pub(crate) sent: u64,
}

/// A connection that is counted.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: TcpStream,
    has_ended: bool,
}

// === impl Traffic ===

impl Traffic {
    /// That of this process until now.
    pub(crate) fn now() -> Traffic {
        Traffic {
            opened: OPENED.load(Ordering::Relaxed),
            ended: ENDED.load(Ordering::Relaxed),
            sent: SENT.load(Ordering::Relaxed),
        }
    }

    /// That since then.
    pub(crate) fn since(self, earlier: Traffic) -> Traffic {
        Traffic {
            opened: self.opened - earlier.opened,
            ended: self.ended - earlier.ended,
            sent: self.sent - earlier.sent,
        }
    }
}

// === impl Stream ===

impl Stream {
    /// Counts a connection that is open.
    pub(crate) fn new(socket: TcpStream) -> Stream {
        OPENED.fetch_add(1, Ordering::Relaxed);
        Stream {
            socket,
            has_ended: false,
        }
    }

    /// Sends what opens every connection of its protocol, which is no part of an attack and not
    /// counted.
    pub(crate) async fn greet(&mut self, bytes: &[u8]) -> Result<()> {
        self.socket.write_all(bytes).await
    }

    /// Both directions.
    pub(crate) fn split(&mut self) -> (ReadHalf<&mut Stream>, WriteHalf<&mut Stream>) {
        tokio::io::split(self)
    }

    fn end(&mut self) {
        if !std::mem::replace(&mut self.has_ended, true) {
            ENDED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.socket).poll_read(cx, buffer));
        if read.is_err() || buffer.filled().len() == before {
            self.end();
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let wrote = ready!(Pin::new(&mut self.socket).poll_write(cx, bytes));
        match wrote {
            Ok(bytes) => {
                SENT.fetch_add(u64::try_from(bytes).unwrap_or(0), Ordering::Relaxed);
            }
            Err(_) => self.end(),
        }
        Poll::Ready(wrote)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    /// Other tests of this process have connections, too, so there may be more of everything.
    #[tokio::test]
    async fn what_is_done_is_counted() {
        let before = Traffic::now();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let socket = TcpStream::connect(address).await.expect("it listens");
        let mut stream = Stream::new(socket);
        stream.write_all(&[0; 1000]).await.expect("open");
        let (mut peer, _) = listener.accept().await.expect("connected");
        peer.read_exact(&mut [0; 1000]).await.expect("sent");
        drop(peer);
        assert_eq!(stream.read(&mut [0]).await.expect("closed"), 0);
        let traffic = Traffic::now().since(before);
        assert!(traffic.opened >= 1 && traffic.ended >= 1, "{traffic:?}");
        assert!(traffic.sent >= 1000, "{traffic:?}");
    }
}
