//! The bytes of a connection that were received and not answered yet.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;
use tollgate_listen::Connection;
use tollgate_resp::COMMAND_BYTES_MAX;

/// What a connection may always keep; further bytes are reserved.
const BYTES: usize = 8 * 1024;
/// What it may keep of a client that has not given the password that it needs: as much as a
/// connection is promised, so that none of these takes the room of others.
const UNAUTHENTICATED_BYTES_MAX: usize = 2 * BYTES;

/// What came of receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    Bytes,
    /// The client sends nothing more.
    End,
    /// There is no room for the command that has begun.
    NoRoom,
}

/// Received bytes, whose beginning was answered.
pub(super) struct Input<'c> {
    connection: &'c Connection,
    bytes: Vec<u8>,
    from: usize,
    to: usize,
    /// Bytes of a command larger than [`BYTES`].
    reserved: usize,
    /// When the command began that has not arrived completely.
    begun: Option<Instant>,
}

// === impl Input ===

impl<'c> Input<'c> {
    pub(super) fn new(connection: &'c Connection) -> Input<'c> {
        Input {
            connection,
            bytes: Vec::new(),
            from: 0,
            to: 0,
            reserved: 0,
            begun: None,
        }
    }

    /// What was received and not answered.
    #[inline]
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }

    /// So many bytes were answered.
    #[inline]
    pub(super) fn consume(&mut self, bytes: usize) {
        self.from += bytes;
        self.begun = None;
    }

    /// When the command that has begun must be there; `None` if none has.
    pub(super) fn deadline(&mut self, within: Duration) -> Option<Instant> {
        if self.from == self.to {
            return None;
        }
        Some(*self.begun.get_or_insert_with(Instant::now) + within)
    }

    /// Receives more of a client, of which it may be known who it is.
    pub(super) async fn receive(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        is_known: bool,
    ) -> io::Result<Received> {
        self.bytes.copy_within(self.from..self.to, 0);
        self.to -= self.from;
        self.from = 0;
        if self.to < BYTES {
            self.shrink();
        } else if self.to == self.bytes.len() && !self.grow(is_known) {
            return Ok(Received::NoRoom);
        }
        let read = stream.read(&mut self.bytes[self.to..]).await?;
        self.to += read;
        Ok(match read {
            0 => Received::End,
            _ => Received::Bytes,
        })
    }

    fn shrink(&mut self) {
        if self.bytes.len() != BYTES {
            self.bytes.resize(BYTES, 0);
            self.bytes.shrink_to_fit();
            self.connection.release(self.reserved);
            self.reserved = 0;
        }
    }

    /// Makes room for a large command; whether there is any.
    fn grow(&mut self, is_known: bool) -> bool {
        let more = self.bytes.len();
        let most = if is_known {
            COMMAND_BYTES_MAX * 2
        } else {
            UNAUTHENTICATED_BYTES_MAX
        };
        if more >= most || !self.connection.reserve(more) {
            return false;
        }
        self.reserved += more;
        self.bytes.resize(more * 2, 0);
        true
    }
}

impl Drop for Input<'_> {
    fn drop(&mut self) {
        self.connection.release(self.reserved);
    }
}
