//! Work that its request does not wait for, and that nothing cancels: done at once if it can be, as
//! over a store in memory, and otherwise in a task.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

/// Bounds how much of one kind of work waits at once. Work that never waits is not bounded: it is
/// done before the next begins, so it must not fail because other work waits.
#[derive(Clone, Debug)]
pub(crate) struct Background(Arc<Semaphore>);

/// Room for one piece of work.
#[derive(Debug)]
pub(crate) struct Slot {
    /// `None` for work that never waits.
    _permit: Option<OwnedSemaphorePermit>,
}

// === impl Background ===

impl Background {
    pub(crate) fn new(most: usize) -> Background {
        Background(Arc::new(Semaphore::new(most)))
    }

    /// Room for one more that `may_wait`, or not; `None` if it may, and as much waits as may.
    pub(crate) fn try_acquire(&self, may_wait: bool) -> Option<Slot> {
        let permit = || Arc::clone(&self.0).try_acquire_owned().ok();
        Some(Slot {
            _permit: match may_wait {
                true => Some(permit()?),
                false => None,
            },
        })
    }

    /// How much more there is room for.
    #[cfg(test)]
    pub(crate) fn available(&self) -> usize {
        self.0.available_permits()
    }
}

// === impl Slot ===

impl Slot {
    /// Does the work; returns its task if it is not done yet. Without a runtime, which is when the
    /// process ends, it is dropped.
    pub(crate) fn run(
        self,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Option<JoinHandle<()>> {
        let runtime = Handle::try_current().ok()?;
        let mut work = Box::pin(async move {
            work.await;
            drop(self);
        });
        match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(()) => None,
            // The task polls it again, with its own waker.
            Poll::Pending => Some(runtime.spawn(work)),
        }
    }
}
