//! An accepted socket, before any handshake.

use std::io::{ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::exchange::Exchange;
use crate::hang_up::HangUp;

/// A connection of TCP or of a Unix socket.
#[derive(Debug)]
pub struct RawSocket {
    transport: Transport,
    /// Of HTTP/1, if a peer that hangs up has gone.
    hang_up: Option<HangUp>,
    /// What was read with a proxy's header, and a reader gets first. In a box, because most
    /// connections have none, and none has it for long.
    unread: Option<Box<Bytes>>,
}

#[derive(Debug)]
enum Transport {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Calls a method of the stream within.
macro_rules! on_stream {
    ($socket:expr, $method:ident($($argument:expr),*)) => {
        match &mut $socket.transport {
            Transport::Tcp(stream) => Pin::new(stream).$method($($argument),*),
            Transport::Unix(stream) => Pin::new(stream).$method($($argument),*),
        }
    };
}

// === impl RawSocket ===

impl RawSocket {
    const fn new(transport: Transport) -> RawSocket {
        RawSocket {
            transport,
            hang_up: None,
            unread: None,
        }
    }

    /// The same socket, which breaks when the peer hangs up while its request is answered.
    pub(crate) fn with_hang_up(self, exchange: &Arc<Exchange>) -> RawSocket {
        RawSocket {
            hang_up: Some(HangUp::new(Arc::clone(exchange))),
            ..self
        }
    }

    /// The same socket, from which these bytes are read first.
    pub(crate) fn with_unread(self, bytes: Vec<u8>) -> RawSocket {
        let unread = (!bytes.is_empty()).then(|| Box::new(bytes.into()));
        RawSocket { unread, ..self }
    }

    /// Copies bytes that were read already; whether there were any.
    fn read_again(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let Some(unread) = &mut self.unread else {
            return false;
        };
        let count = buf.remaining().min(unread.len());
        buf.put_slice(&unread.split_to(count));
        if unread.is_empty() {
            self.unread = None;
        }
        true
    }

    fn poll_hang_up(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(hang_up) = &mut self.hang_up else {
            return Poll::Pending;
        };
        match &self.transport {
            Transport::Tcp(stream) => hang_up.poll(stream, cx),
            Transport::Unix(stream) => hang_up.poll(stream, cx),
        }
    }
}

impl From<TcpStream> for RawSocket {
    fn from(stream: TcpStream) -> RawSocket {
        RawSocket::new(Transport::Tcp(stream))
    }
}

impl From<UnixStream> for RawSocket {
    fn from(stream: UnixStream) -> RawSocket {
        RawSocket::new(Transport::Unix(stream))
    }
}

impl AsyncRead for RawSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        if self.read_again(buf) {
            return Poll::Ready(Ok(()));
        }
        on_stream!(self, poll_read(cx, buf))
    }
}

impl AsyncWrite for RawSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<Result<usize>> {
        on_stream!(self, poll_write(cx, buf))
    }

    /// The HTTP library flushes whenever it has been polled, also if it has written nothing.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if self.poll_hang_up(cx).is_ready() {
            return Poll::Ready(Err(ErrorKind::ConnectionAborted.into()));
        }
        on_stream!(self, poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        on_stream!(self, poll_shutdown(cx))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        on_stream!(self, poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Tcp(stream) => stream.is_write_vectored(),
            Transport::Unix(stream) => stream.is_write_vectored(),
        }
    }
}
