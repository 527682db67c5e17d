//! A bound on what a server sends before it answers.

use std::error::Error;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// No bound: a stream that is read for centuries gives less.
const UNBOUNDED: usize = usize::MAX;

/// A stream whose reads fail with [`TooMuchRead`] once they have given as many bytes as its
/// [`ReadBound`] allows. One read may give more, up to its buffer.
///
/// The HTTP library skips any number of interim responses (`100 Continue`, RFC 9110, section 15.2)
/// while it waits for a response. A server that sends nothing else keeps the thread that reads them
/// from everything else, and no response ever begins that could be bounded.
#[derive(Debug)]
pub struct BoundedReads<S> {
    stream: S,
    bound: ReadBound,
}

/// How many bytes a [`BoundedReads`] may still give. At first, any number.
#[derive(Clone, Debug)]
pub struct ReadBound(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    bytes_left: AtomicUsize,
    reads: AtomicUsize,
}

/// A server has sent more than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMuchRead;

// === impl ReadBound ===

impl ReadBound {
    /// Allows so many bytes from now on.
    pub fn set(&self, bytes: usize) {
        self.0.bytes_left.store(bytes, Ordering::Relaxed);
    }

    /// Allows any number from now on.
    pub fn lift(&self) {
        self.set(UNBOUNDED);
    }

    /// How often something was read, bounded or not. After the largest number comes 0.
    pub fn reads(&self) -> usize {
        self.0.reads.load(Ordering::Relaxed)
    }

    /// Counts bytes that were read.
    fn count(&self, bytes: usize) {
        self.0.reads.fetch_add(1, Ordering::Relaxed);
        let left = |left: usize| (left != UNBOUNDED).then(|| left.saturating_sub(bytes));
        // Relaxed: nothing else is read or written by who sees the count. Without a bound, no bytes
        // are counted.
        let (order, counted) = (Ordering::Relaxed, &self.0.bytes_left);
        let _ = counted.fetch_update(order, order, left);
    }
}

// === impl BoundedReads ===

impl<S> BoundedReads<S> {
    /// The stream, and its bound.
    pub fn new(stream: S) -> (BoundedReads<S>, ReadBound) {
        let bound = ReadBound(Arc::new(Counts {
            bytes_left: AtomicUsize::new(UNBOUNDED),
            reads: AtomicUsize::new(0),
        }));
        let bounded = BoundedReads {
            stream,
            bound: bound.clone(),
        };
        (bounded, bound)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedReads<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.bound.0.bytes_left.load(Ordering::Relaxed) == 0 {
            let error = io::Error::new(io::ErrorKind::InvalidData, TooMuchRead);
            return Poll::Ready(Err(error));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.bound.count(buf.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedReads<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

// === impl TooMuchRead ===

impl TooMuchRead {
    /// Whether this is the reason of an error.
    pub fn is_reason_of(error: &(dyn Error + 'static)) -> bool {
        let mut cause = Some(error);
        while let Some(error) = cause {
            // `source` of an error of I/O is that of the error inside, not that error itself.
            let inner = error.downcast_ref::<io::Error>();
            let inner = inner.and_then(io::Error::get_ref);
            if inner.is_some_and(|inner| inner.is::<TooMuchRead>()) {
                return true;
            }
            cause = error.source();
        }
        false
    }
}

impl Error for TooMuchRead {}

impl fmt::Display for TooMuchRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server sends too much before its answer")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn reads_fail_beyond_the_bound_until_it_is_set_again() {
        let (stream, mut peer) = duplex(64);
        let (mut stream, bound) = BoundedReads::new(stream);
        let mut read = [0; 4];
        peer.write_all(&[7; 20]).await.unwrap();
        stream.read_exact(&mut read).await.unwrap();
        bound.set(5);
        stream.read_exact(&mut read).await.unwrap();
        // One read may give more than is left.
        stream.read_exact(&mut read).await.unwrap();
        let error = stream.read_exact(&mut read).await.unwrap_err();
        assert!(TooMuchRead::is_reason_of(&error), "{error:?}");
        let wrapped = io::Error::other(error);
        assert!(!TooMuchRead::is_reason_of(&io::Error::other("x")));
        assert!(wrapped.to_string().contains("too much before its answer"));
        bound.lift();
        stream.read_exact(&mut read).await.unwrap();
        stream.write_all(b"x").await.unwrap();
        assert_eq!(peer.read_u8().await.unwrap(), b'x');
    }

    #[tokio::test]
    async fn each_read_that_gives_something_is_counted() {
        let (stream, mut peer) = duplex(64);
        let (mut stream, bound) = BoundedReads::new(stream);
        assert_eq!(bound.reads(), 0);
        stream.write_all(b"x").await.unwrap();
        assert_eq!(bound.reads(), 0);
        for reads in 1..=2 {
            peer.write_all(b"x").await.unwrap();
            stream.read_u8().await.unwrap();
            assert_eq!(bound.reads(), reads);
        }
    }
}
