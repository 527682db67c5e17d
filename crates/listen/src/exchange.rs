//! Whether a request is being answered.

use std::sync::atomic::{AtomicU8, Ordering};

/// No request was served, or the last response has left.
const NONE: u8 = 0;
/// The service answers a request, or the body of its response has not ended.
const OPEN: u8 = 1;
/// The response is complete; part of it may wait to be written.
const COMPLETE: u8 = 2;

/// The present request of a connection of HTTP/1, and its response.
///
/// The HTTP library parses no request before the response to the previous one has left, or is held
/// by the socket. Thus what it writes while there is no exchange is its own answer to a request
/// that it could not parse.
#[derive(Debug)]
pub(crate) struct Exchange(AtomicU8);

// === impl Exchange ===

impl Exchange {
    pub(crate) const fn none() -> Exchange {
        Exchange(AtomicU8::new(NONE))
    }

    /// The service is asked.
    pub(crate) fn begin(&self) {
        self.0.store(OPEN, Ordering::Relaxed);
    }

    /// Nothing more is to come from the service.
    pub(crate) fn complete(&self) {
        self.0.store(COMPLETE, Ordering::Relaxed);
    }

    /// Everything that has come from the service was written, or is held by the socket.
    pub(crate) fn record_flush(&self) {
        if self.0.load(Ordering::Relaxed) == COMPLETE {
            self.0.store(NONE, Ordering::Relaxed);
        }
    }

    /// Whether the service answers a request.
    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::Relaxed) == OPEN
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.load(Ordering::Relaxed) == NONE
    }
}
