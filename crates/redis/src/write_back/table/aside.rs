//! Keys that Redis decides on while requests are on their way that are not decided here.
//!
//! A count of such a key that is learned before Redis has decided does not contain what that
//! request takes. So until it is decided, Redis decides on all others that concern the key as well.
//! They do not keep each other from coming back: once only such are left, those who come wait for
//! them, and then the count is learned.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// Decisions of Redis on one key that are on their way.
#[derive(Debug, Default)]
pub(super) struct Aside {
    decisions: usize,
    /// Those that cannot be made here.
    foreign: usize,
    /// Rings when there are none left.
    over: Arc<Notify>,
}

// === impl Aside ===

impl Aside {
    pub(super) fn begin(&mut self, is_foreign: bool) {
        self.decisions += 1;
        self.foreign += usize::from(is_foreign);
    }

    /// A decision is over; says whether it was the last.
    pub(super) fn end(&mut self, is_foreign: bool) -> bool {
        self.decisions -= 1;
        self.foreign -= usize::from(is_foreign);
        self.decisions == 0
    }

    /// Whether any of them cannot be made here.
    pub(super) const fn has_foreign(&self) -> bool {
        self.foreign > 0
    }

    /// Rings when all of them are over.
    pub(super) fn over(&self) -> OwnedNotified {
        Arc::clone(&self.over).notified_owned()
    }

    pub(super) fn ring(&self) {
        self.over.notify_waiters();
    }
}
