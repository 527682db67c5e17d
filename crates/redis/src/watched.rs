//! A value that tasks wait for.
//!
//! Replaces tokio's `watch`, which wakes its waiters in a random order: a simulated run must be
//! reproducible.

use std::sync::Mutex;

use tokio::sync::Notify;

use crate::sharded::lock;

/// A value, and the tasks that wait for it to change, which are woken in the order they came.
#[derive(Debug, Default)]
pub(crate) struct Watched<T> {
    value: Mutex<T>,
    changed: Notify,
}

// === impl Watched ===

impl<T> Watched<T> {
    /// Changes the value; `change` returns whether the waiting tasks are woken.
    pub(crate) fn modify(&self, change: impl FnOnce(&mut T) -> bool) {
        let is_changed = change(&mut lock(&self.value));
        if is_changed {
            self.changed.notify_waiters();
        }
    }

    /// Waits until `read` returns something.
    pub(crate) async fn wait_for<R>(&self, read: impl Fn(&T) -> Option<R>) -> R {
        loop {
            // A `Notified` is woken by any notification after its creation, also before its first
            // poll.
            let changed = self.changed.notified();
            if let Some(found) = read(&lock(&self.value)) {
                return found;
            }
            changed.await;
        }
    }
}
