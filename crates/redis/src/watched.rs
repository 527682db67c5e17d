//! A value that tasks wait for.
//!
//! In place of tokio's `watch`, which wakes those who wait in a random order: a simulated run has
//! to be the same each time.

use std::sync::Mutex;

use tokio::sync::Notify;

use crate::sharded::lock;

/// A value, and those who wait for it to change. They are woken in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Watched<T> {
    value: Mutex<T>,
    changed: Notify,
}

// === impl Watched ===

impl<T> Watched<T> {
    /// Changes the value; `change` says whether those who wait are woken.
    pub(crate) fn modify(&self, change: impl FnOnce(&mut T) -> bool) {
        let is_changed = change(&mut lock(&self.value));
        if is_changed {
            self.changed.notify_waiters();
        }
    }

    /// Waits until `read` finds what it looks for in the value.
    pub(crate) async fn wait_for<R>(&self, read: impl Fn(&T) -> Option<R>) -> R {
        loop {
            // A `Notified` is woken by what comes after it was made, also before its first poll.
            let changed = self.changed.notified();
            if let Some(found) = read(&lock(&self.value)) {
                return found;
            }
            changed.await;
        }
    }
}
