//! Work that nobody waits for, and that nothing cancels but the end of its runtime.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};

use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};

/// The most refunds of one [`Redis`](super::Redis) that wait for it at once: those of dropped
/// [reservations](super::Reservation). The units of any further one stay charged until they age out
/// of the limit.
pub const REFUNDS_MAX: usize = 4096;

/// Runs a bounded number of tasks.
#[derive(Debug)]
pub(crate) struct Background {
    /// That of the connections, which outlives others that reservations may be dropped in.
    runtime: Handle,
    room: Arc<Semaphore>,
    work: Arc<Work>,
}

/// What is being done.
#[derive(Debug, Default)]
struct Work {
    count: AtomicUsize,
    /// Notified when the last has ended.
    ended: Notify,
}

/// Work that is being done, until this is dropped.
#[derive(Debug)]
pub(crate) struct Running(Arc<Work>);

// === impl Background ===

impl Background {
    pub(super) fn new(runtime: Handle, max: usize) -> Background {
        Background {
            runtime,
            room: Arc::new(Semaphore::new(max)),
            work: Arc::default(),
        }
    }

    /// Begins some work, here if this is the runtime of the connections: a call enters its queue
    /// before whatever the caller begins next. If it waits, a task completes it. Returns false if
    /// there is no room; then the work is dropped.
    pub(super) fn run(&self, work: impl Future<Output = ()> + Send + 'static) -> bool {
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            return false;
        };
        let running = self.begin();
        let mut work = Box::pin(async move {
            work.await;
            drop((permit, running));
        });
        let here = Handle::try_current();
        let is_own = here.is_ok_and(|here| here.id() == self.runtime.id());
        let mut context = Context::from_waker(Waker::noop());
        if !is_own || work.as_mut().poll(&mut context).is_pending() {
            // The task polls it again, with its own waker.
            drop(self.runtime.spawn(work));
        }
        true
    }

    /// Notes that there is work, for [`Background::wait`].
    pub(super) fn begin(&self) -> Running {
        // Relaxed: who waits has seen what was begun before, or need not wait for it.
        self.work.count.fetch_add(1, Ordering::Relaxed);
        Running(Arc::clone(&self.work))
    }

    /// Waits until no work is left.
    pub(super) async fn wait(&self) {
        loop {
            let mut ended = pin!(self.work.ended.notified());
            ended.as_mut().enable();
            if self.work.count.load(Ordering::Acquire) == 0 {
                return;
            }
            ended.await;
        }
    }
}

// === impl Running ===

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.ended.notify_waiters();
        }
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

    /// There is room for other work, and it is waited for as well.
    #[tokio::test]
    async fn waiting_leaves_room() {
        let background = Background::new(Handle::current(), 2);
        let (release, released) = oneshot::channel::<()>();
        assert!(background.run(async move { drop(released.await) }));
        let mut waiting = pin!(background.wait());
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        let attempt = background.begin();
        assert!(background.run(ready(())));
        drop(release);
        while background.room.available_permits() < 2 {
            tokio::task::yield_now().await;
        }
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        drop(attempt);
        waiting.await;
    }

    #[test]
    fn work_is_done_by_the_runtime_of_the_connections() {
        let runtime = || {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            runtime.expect("the system has one")
        };
        let (own, other) = (runtime(), runtime());
        let background = Background::new(own.handle().clone(), 1);
        let (done, is_done) = oneshot::channel();
        other.block_on(async {
            assert!(background.run(async move {
                let _unread = done.send(Handle::current().id());
            }));
        });
        drop(other);
        assert_eq!(own.block_on(is_done), Ok(own.handle().id()));
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
