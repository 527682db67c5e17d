//! Whether anything arrives on a connection of HTTP/2.
//!
//! Its server may be stopped, or gone, although the address accepts other connections. Until the
//! server has not answered a PING, which takes minutes, only requests without an answer show that.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::AbortHandle;
use tollgate_dial::ReadBound;

/// What the requests on a connection find out about it.
#[derive(Debug)]
pub(super) struct Liveness {
    arrivals: ReadBound,
    is_silent: AtomicBool,
    task: AbortHandle,
}

// === impl Liveness ===

impl Liveness {
    /// Of a connection whose reads are counted, and which this task serves.
    pub(super) const fn new(arrivals: ReadBound, task: AbortHandle) -> Liveness {
        Liveness {
            arrivals,
            is_silent: AtomicBool::new(false),
            task,
        }
    }

    /// How often something has arrived.
    pub(super) fn arrivals(&self) -> usize {
        self.arrivals.reads()
    }

    /// Something should have arrived since there were so many arrivals.
    pub(super) fn check_since(&self, arrivals: usize) {
        if self.arrivals() == arrivals {
            // Relaxed: requests that do not see it yet only wait for their own timeouts.
            self.is_silent.store(true, Ordering::Relaxed);
        }
    }

    /// Whether nothing had arrived when it should have.
    pub(super) fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }
}

impl Drop for Liveness {
    /// The last request has ended. A server that reads nothing would keep the connection from being
    /// closed in order.
    fn drop(&mut self) {
        if self.is_silent() {
            self.task.abort();
        }
    }
}
