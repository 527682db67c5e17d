//! How many requests are on a connection of HTTP/2.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The requests on a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams(Arc<AtomicUsize>);

/// Counts a request on its connection until it is dropped.
#[derive(Debug)]
pub(crate) struct StreamCount(Streams);

// === impl Streams ===

impl Streams {
    pub(crate) fn count(&self) -> usize {
        // Relaxed, as everywhere here: the count publishes nothing.
        self.0.load(Ordering::Relaxed)
    }

    /// Another request.
    pub(crate) fn begin(&self) -> StreamCount {
        self.0.fetch_add(1, Ordering::Relaxed);
        StreamCount(self.clone())
    }
}

// === impl StreamCount ===

impl Drop for StreamCount {
    fn drop(&mut self) {
        let StreamCount(Streams(count)) = self;
        count.fetch_sub(1, Ordering::Relaxed);
    }
}
