//! When a drained connection of a protocol that is not HTTP is read no further.
//!
//! Such a protocol may have no word for the end of a connection, and a client that is never quiet
//! would be cut off at the end of the drain, in the middle of a reply. So it is read only in the
//! first half of the drain; the second half is for the last replies.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use crate::connection::Connection;

/// How long nothing must arrive on a drained connection until it ends.
///
/// That nothing can be read at one moment does not show that the peer has sent nothing: bytes may
/// be in its own buffer until the window opens, and the runtime may not have noticed others yet.
/// Closing a socket before they are read resets the connection, and the replies to earlier
/// requests are lost. The time is longer than a round trip between data centres.
pub(crate) const DRAIN_QUIET: Duration = Duration::from_millis(250);

/// Ends the reading of a connection that is drained.
#[derive(Debug)]
pub(crate) struct DrainEnd {
    drain_timeout: Duration,
    /// Until half of the drain is over.
    half: Option<Pin<Box<Sleep>>>,
    has_stopped: bool,
    /// Since when nothing has arrived.
    quiet: Option<Pin<Box<Sleep>>>,
}

// === impl DrainEnd ===

impl DrainEnd {
    pub(crate) const fn new(drain_timeout: Duration) -> DrainEnd {
        DrainEnd {
            drain_timeout,
            half: None,
            has_stopped: false,
            quiet: None,
        }
    }

    /// Ready once half of the drain is over: whatever arrives is not read.
    pub(crate) fn poll_half(&mut self, known: &Connection, cx: &mut Context<'_>) -> Poll<()> {
        let Some(drained) = known.time_since_drain() else {
            return Poll::Pending;
        };
        let left = (self.drain_timeout / 2).saturating_sub(drained);
        ready!(poll_timer(&mut self.half, left, cx));
        self.has_stopped = true;
        Poll::Ready(())
    }

    /// Ready once nothing has arrived for so long that nothing is on its way.
    pub(crate) fn poll_quiet(&mut self, known: &Connection, cx: &mut Context<'_>) -> Poll<()> {
        match known.time_since_drain() {
            Some(_) => poll_timer(&mut self.quiet, DRAIN_QUIET, cx),
            None => Poll::Pending,
        }
    }

    /// Something has arrived.
    pub(crate) fn record_read(&mut self) {
        self.quiet = None;
    }

    /// Whether the reading has ended although the peer may still send.
    pub(crate) const fn has_stopped(&self) -> bool {
        self.has_stopped
    }
}

/// Starts a timer if it does not run, and waits for it.
pub(crate) fn poll_timer(
    timer: &mut Option<Pin<Box<Sleep>>>,
    timeout: Duration,
    cx: &mut Context<'_>,
) -> Poll<()> {
    let timer = timer.get_or_insert_with(|| Box::pin(sleep(timeout)));
    timer.as_mut().poll(cx)
}
