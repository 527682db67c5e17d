//! A connection's turn: how much it may do before the others have theirs.
//!
//! The scheduler polls tasks one after the other, so a task that stops after a bounded amount of
//! work gives every other connection its turn. A turn begins whenever the connection's own task is
//! polled. Within one, only so many bytes are read, and only so many bytes of requests are handed
//! over to be decided on; what comes later waits in line for the next.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

/// What is left of a connection's turn.
#[derive(Debug)]
pub struct Turn {
    bytes: usize,
    to_read: AtomicUsize,
    to_decide: AtomicUsize,
    task: OnceLock<Waker>,
    has_line: AtomicBool,
    /// At most one for each stream.
    line: Mutex<VecDeque<(Waker, usize)>>,
}

// === impl Turn ===

impl Turn {
    pub(crate) fn new(bytes: usize) -> Turn {
        Turn {
            bytes,
            to_read: AtomicUsize::new(bytes),
            to_decide: AtomicUsize::new(bytes),
            task: OnceLock::new(),
            has_line: AtomicBool::new(false),
            line: Mutex::default(),
        }
    }

    /// A new turn, for the task of the connection.
    pub(crate) fn begin(&self, cx: &Context<'_>) {
        self.task.get_or_init(|| cx.waker().clone());
        self.to_read.store(self.bytes, Ordering::Relaxed);
        self.to_decide.store(self.bytes, Ordering::Relaxed);
        if self.has_line.load(Ordering::Acquire) {
            self.call_up();
        }
    }

    /// Calls up those in line, as many as a turn has room for.
    fn call_up(&self) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let mut called = 0;
        while called < self.bytes
            && let Some((waker, bytes)) = line.pop_front()
        {
            called += bytes.max(1);
            waker.wake();
        }
        self.has_line.store(!line.is_empty(), Ordering::Release);
        // Those that are left need another turn, even if the peer sends nothing.
        if !line.is_empty() {
            self.wake_task();
        }
    }

    /// Whether the turn has room for reading; otherwise the task is polled again after the others.
    pub(crate) fn poll_read(&self, cx: &Context<'_>) -> Poll<()> {
        if self.to_read.load(Ordering::Relaxed) > 0 {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// So many bytes were read.
    pub(crate) fn has_read(&self, bytes: usize) {
        take(&self.to_read, bytes);
    }

    /// Waits for room for a request of so many bytes. The first of a turn always has it.
    pub fn poll_decide(&self, bytes: usize, cx: &Context<'_>) -> Poll<()> {
        if take(&self.to_decide, bytes) {
            return Poll::Ready(());
        }
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.push_back((cx.waker().clone(), bytes));
        self.has_line.store(true, Ordering::Release);
        drop(line);
        self.wake_task();
        Poll::Pending
    }

    fn wake_task(&self) {
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }
}

/// Takes up to `bytes` out of what is left; whether there was anything.
fn take(left: &AtomicUsize, bytes: usize) -> bool {
    let order = Ordering::Relaxed;
    let taken = left.fetch_update(order, order, |left| {
        (left > 0).then(|| left.saturating_sub(bytes.max(1)))
    });
    taken.is_ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Woken>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Woken {
        fn times(&self) -> u32 {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn what_does_not_fit_a_turn_waits_for_the_next() {
        let turn = Turn::new(100);
        let (task, stream) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
        let (task_waker, stream_waker) = (Arc::clone(&task).into(), Arc::clone(&stream).into());
        let of_task = Context::from_waker(&task_waker);
        let of_stream = Context::from_waker(&stream_waker);
        turn.begin(&of_task);
        assert!(turn.poll_decide(60, &of_stream).is_ready());
        assert!(turn.poll_decide(60, &of_stream).is_ready());
        for _ in 0..5 {
            assert!(turn.poll_decide(60, &of_stream).is_pending());
        }
        assert_eq!((task.times(), stream.times()), (5, 0));
        // Two of sixty are called up in each turn, and the task comes again for the rest.
        turn.begin(&of_task);
        assert_eq!((task.times(), stream.times()), (6, 2));
        turn.begin(&of_task);
        turn.begin(&of_task);
        assert_eq!((task.times(), stream.times()), (7, 5));
    }

    #[test]
    fn reading_stops_at_the_end_of_a_turn_and_goes_on_in_the_next() {
        let turn = Turn::new(100);
        let task = Arc::new(Woken::default());
        let waker = Arc::clone(&task).into();
        let cx = Context::from_waker(&waker);
        turn.begin(&cx);
        turn.has_read(99);
        assert!(turn.poll_read(&cx).is_ready());
        turn.has_read(8000);
        assert!(turn.poll_read(&cx).is_pending());
        assert_eq!(task.times(), 1);
        turn.begin(&cx);
        assert!(turn.poll_read(&cx).is_ready());
    }
}
