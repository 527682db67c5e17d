//! What leaves a connection of HTTP/2, of all its responses together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The bytes of a connection's responses that were sent, with one for the end of each response, and
/// how many of them wait.
#[derive(Debug, Default)]
pub(crate) struct Outflow {
    sent: AtomicU64,
    /// Requests that are being answered.
    open: AtomicU32,
    /// Those of them whose responses wait for the peer, or did when their period began.
    waiting: AtomicU32,
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct Open(Arc<Outflow>);

/// A response that waits.
#[derive(Debug)]
pub(crate) struct Waiting(Arc<Outflow>);

// === impl Outflow ===

impl Outflow {
    pub(crate) fn record_sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// How many bytes have left.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// How many responses wait.
    pub(crate) fn waiting_count(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed).into()
    }

    /// Whether nothing is done for the connection but to wait for its peer.
    pub(crate) fn only_waits(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= self.open.load(Ordering::Relaxed)
    }
}

// === impl Open ===

impl Open {
    pub(crate) fn new(outflow: Arc<Outflow>) -> Open {
        outflow.open.fetch_add(1, Ordering::Relaxed);
        Open(outflow)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl Waiting ===

impl Waiting {
    pub(crate) fn new(outflow: Arc<Outflow>) -> Waiting {
        outflow.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(outflow)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
