//! Keys set aside: Redis is deciding on requests that are not decided here.
//!
//! A count of such a key that is learned before Redis has decided lacks the units of that request.
//! So until it is decided, Redis decides on all others on the key as well. Requests that could be
//! decided here do not keep the key aside for ever: once only such are in flight, new ones wait for
//! them, and then the count is learned.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// Decisions of Redis on one key that are in flight.
#[derive(Debug, Default)]
pub(super) struct Aside {
    decisions: usize,
    /// Those that cannot be made here.
    foreign: usize,
    /// Notified when there are none left.
    over: Arc<Notify>,
}

// === impl Aside ===

impl Aside {
    pub(super) fn begin(&mut self, is_foreign: bool) {
        self.decisions += 1;
        self.foreign += usize::from(is_foreign);
    }

    /// Ends a decision; returns whether it was the last.
    pub(super) fn end(&mut self, is_foreign: bool) -> bool {
        self.decisions -= 1;
        self.foreign -= usize::from(is_foreign);
        self.decisions == 0
    }

    /// Whether any of them cannot be made here.
    pub(super) const fn has_foreign(&self) -> bool {
        self.foreign > 0
    }

    /// Notified when all of them have ended.
    pub(super) fn over(&self) -> OwnedNotified {
        Arc::clone(&self.over).notified_owned()
    }

    pub(super) fn notify(&self) {
        self.over.notify_waiters();
    }
}
