//! An accepted socket, before any handshake.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A connection of TCP or of a Unix socket.
#[derive(Debug)]
pub enum RawSocket {
    /// Of a TCP listener.
    Tcp(TcpStream),
    /// Of a Unix socket.
    Unix(UnixStream),
}

/// Calls a method of the stream within.
macro_rules! on_stream {
    ($socket:expr, $method:ident($($argument:expr),*)) => {
        match $socket.get_mut() {
            RawSocket::Tcp(stream) => Pin::new(stream).$method($($argument),*),
            RawSocket::Unix(stream) => Pin::new(stream).$method($($argument),*),
        }
    };
}

impl AsyncRead for RawSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        on_stream!(self, poll_read(cx, buf))
    }
}

impl AsyncWrite for RawSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        on_stream!(self, poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        on_stream!(self, poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        on_stream!(self, poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        on_stream!(self, poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            RawSocket::Tcp(stream) => stream.is_write_vectored(),
            RawSocket::Unix(stream) => stream.is_write_vectored(),
        }
    }
}
