//! Work that nobody waits for, and that nothing cancels but the end of its runtime.

use std::sync::Arc;
use std::task::{Context, Waker};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// The most refunds of one [`Redis`](super::Redis) that wait for it at once: those of dropped
/// [reservations](super::Reservation). The units of any further one stay charged until they age out
/// of the limit.
pub const REFUNDS_MAX: usize = 4096;

/// Runs a bounded number of tasks.
#[derive(Debug)]
pub(crate) struct Background {
    /// For work that is begun outside of a runtime.
    runtime: Handle,
    room: Arc<Semaphore>,
    max: u32,
}

// === impl Background ===

impl Background {
    pub(super) fn new(runtime: Handle, max: usize) -> Background {
        let max = u32::try_from(max).unwrap_or(u32::MAX);
        let room = usize::try_from(max).unwrap_or(Semaphore::MAX_PERMITS);
        Background {
            runtime,
            room: Arc::new(Semaphore::new(room)),
            max,
        }
    }

    /// Begins some work, here if there is a runtime: a call enters its queue before whatever the
    /// caller begins next. If it waits, a task completes it. Returns false if there is no room;
    /// then the work is dropped.
    pub(super) fn run(&self, work: impl Future<Output = ()> + Send + 'static) -> bool {
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            return false;
        };
        let mut work = Box::pin(async move {
            work.await;
            drop(permit);
        });
        let Ok(here) = Handle::try_current() else {
            drop(self.runtime.spawn(work));
            return true;
        };
        let mut context = Context::from_waker(Waker::noop());
        if work.as_mut().poll(&mut context).is_pending() {
            // The task polls it again, with its own waker.
            drop(here.spawn(work));
        }
        true
    }

    /// Waits until no work is left.
    pub(super) async fn wait(&self) {
        // It is never closed.
        let _all = self.room.acquire_many(self.max).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_does_not_wait_is_done_at_once() {
        let background = Background::new(Handle::current(), 1);
        for _ in 0..3 {
            assert!(background.run(ready(())));
        }
    }

    #[tokio::test]
    async fn work_has_as_much_room_as_there_is() {
        let background = Background::new(Handle::current(), 2);
        let (release, released) = oneshot::channel::<()>();
        assert!(background.run(async move { drop(released.await) }));
        let (other, others) = oneshot::channel::<()>();
        assert!(background.run(async move { drop(others.await) }));
        assert!(!background.run(ready(())));
        drop((release, other));
        background.wait().await;
        assert!(background.run(ready(())));
    }

    #[test]
    fn a_runtime_that_has_ended_takes_nothing_and_hangs_nobody() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("the system has one");
        let background = Background::new(runtime.handle().clone(), 1);
        assert!(background.run(pending()));
        assert!(!background.run(pending()));
        drop(runtime);
        // The first was dropped with it, and the next ones are at once.
        assert!(background.run(pending()));
        assert!(background.run(pending()));
    }
}
