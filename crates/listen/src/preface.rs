//! The preface that every HTTP/2 connection begins with.

use std::io::{ErrorKind, Result};

use tokio::io::{AsyncRead, AsyncReadExt};

/// The first bytes of every HTTP/2 connection.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How much of it a request of HTTP/1 can begin with.
const HTTP1_BEGINNING: &[u8] = b"PRI * HTTP/";

/// The first bytes of a connection, which [`crate::socket::Socket`] replays to the HTTP library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FirstBytes {
    bytes: [u8; PREFACE.len()],
    length: usize,
    replayed: usize,
}

/// Reads the first bytes, as many as show whether they are [`PREFACE`]; an error if the peer
/// closes.
pub(crate) async fn read_first(
    stream: &mut (impl AsyncRead + Unpin),
    first: &mut FirstBytes,
) -> Result<()> {
    while PREFACE.starts_with(first.rest()) && !first.is_preface() {
        match stream.read(&mut first.bytes[first.length..]).await? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            read => first.length += read,
        }
    }
    Ok(())
}

// === impl FirstBytes ===

impl FirstBytes {
    /// Whether they are those of HTTP/2.
    pub(crate) fn is_preface(&self) -> bool {
        self.bytes[..self.length] == *PREFACE
    }

    /// Whether the rest of them, which is not there yet, can make them a request of HTTP/1.
    pub(crate) fn may_begin_http1(&self) -> bool {
        let read = &self.bytes[..self.length];
        !read.is_empty() && HTTP1_BEGINNING.starts_with(read)
    }

    /// Those that were not taken yet.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.replayed..self.length]
    }

    /// Takes up to so many of them.
    pub(crate) fn take(&mut self, count: usize) -> &[u8] {
        let from = self.replayed;
        self.replayed = self.length.min(from + count);
        &self.bytes[from..self.replayed]
    }
}
