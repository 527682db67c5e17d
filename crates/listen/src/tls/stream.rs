//! The stream of a connection with TLS, and what it reads.
//!
//! A record may have one byte of data, or none, and takes as long to decrypt as a hundred bytes of
//! a long one. So it is the bytes below TLS that count against the connection's quantum.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;
use tracing::debug;

use crate::connection::{Close, Connection};
use crate::raw_socket::RawSocket;

/// The most bytes that are read after the handshake before there is data. A record has up to 18
/// KiB at most, and the rest has room for as many empty records and renewed keys as the library
/// accepts in a row, 32 of each. What does not fit is a message of the handshake without an end,
/// which no client has to send here, and of which the library would keep up to 64 KiB for as long
/// as the connection is open.
const BYTES_WITHOUT_DATA_MAX: usize = 20 * 1024;

/// The stream on which requests are served. In a box, because the future of a connection holds it
/// in several places.
#[derive(Debug)]
pub struct PlaintextStream(Box<TlsStream<CiphertextSocket>>);

/// What the TLS library reads from and writes to: the socket, read within the quantum.
#[derive(Debug)]
pub(super) struct CiphertextSocket {
    socket: RawSocket,
    connection: Arc<Connection>,
    /// Bytes that may be read until there is data.
    left: usize,
}

/// Copies what a stream has ready; how many bytes.
fn copy(ready: &[u8], buf: &mut ReadBuf<'_>) -> usize {
    let count = ready.len().min(buf.remaining());
    buf.put_slice(&ready[..count]);
    count
}

// === impl CiphertextSocket ===

impl CiphertextSocket {
    pub(super) fn new(socket: RawSocket, connection: &Arc<Connection>) -> CiphertextSocket {
        CiphertextSocket {
            socket,
            connection: Arc::clone(connection),
            // Of the handshake, the time is limited.
            left: usize::MAX,
        }
    }

    /// There is data, or will be.
    const fn expect_data(&mut self) {
        self.left = BYTES_WITHOUT_DATA_MAX;
    }

    /// Reading has failed. A peer that has gone is another kind of error.
    fn record_error(&self, error: &Error) {
        if error.kind() == ErrorKind::InvalidData {
            debug!(%error, "TLS is broken");
            self.connection.record_close(Close::BrokenTls);
        }
    }

    /// The socket itself, which is read no longer within the quantum.
    pub(super) fn into_socket(self) -> RawSocket {
        self.socket
    }
}

impl AsyncRead for CiphertextSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        if self.left == 0 {
            let error = "too many encrypted bytes without data";
            return Poll::Ready(Err(Error::new(ErrorKind::InvalidData, error)));
        }
        ready!(self.connection.quantum().poll_read(cx));
        let count = buf.remaining().min(self.left);
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(count));
        ready!(Pin::new(&mut self.socket).poll_read(cx, &mut part))?;
        let read = part.filled().len();
        buf.advance(read);
        self.left -= read;
        self.connection.quantum().record_ciphertext(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for CiphertextSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

// === impl PlaintextStream ===

impl PlaintextStream {
    pub(super) fn new(mut stream: TlsStream<CiphertextSocket>) -> PlaintextStream {
        stream.get_mut().0.expect_data();
        PlaintextStream(Box::new(stream))
    }

    /// Copies what the next records contain, for which the socket is read; how many bytes: 0 at the
    /// end of the stream.
    fn poll_copy(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<usize>> {
        let mut stream = Pin::new(&mut *self.0);
        let filled = ready!(stream.as_mut().poll_fill_buf(cx));
        let count = filled.map(|ready| copy(ready, buf));
        match &count {
            Ok(count) => {
                stream.as_mut().consume(*count);
                if *count > 0 {
                    stream.get_mut().get_mut().0.expect_data();
                }
            }
            Err(error) => stream.get_ref().0.record_error(error),
        }
        Poll::Ready(count)
    }
}

impl AsyncRead for PlaintextStream {
    /// Reads the socket until there is data, and no further.
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let this = self.get_mut();
        let mut count = ready!(this.poll_copy(cx, buf))?;
        // The library has the data of each record by itself, and reads nothing before it is gone.
        while count > 0 && buf.remaining() > 0 && !this.0.get_ref().1.wants_read() {
            let Poll::Ready(Ok(more)) = this.poll_copy(cx, buf) else {
                break;
            };
            count = more;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PlaintextStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut *self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut *self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut *self.0).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}
