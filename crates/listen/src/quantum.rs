//! A connection's quantum: how much it may do before other connections are served.
//!
//! This is round robin scheduling: the runtime polls tasks one after the other, so a task that
//! stops after a bounded amount of work lets every other connection proceed. A quantum begins
//! when the connection's own task is polled. Within it, only so many bytes are read and written,
//! and only so many bytes of requests are decided on; the rest waits for the next quantum, which a
//! connection that has used up one gets when it is its turn in the [`BusyQueue`].
//!
//! A connection that has not waited there has only the first part of a quantum. All that become
//! ready at once have it one after the other, before a request that arrives just then: a thousand
//! clients that connect together and send much would delay it by a thousand quanta. Of a pipeline,
//! where requests are answered one after the other, the first part is one request. A quantum lasts
//! until there is nothing more to read: the HTTP library yields after sixteen requests of a
//! pipeline, and the poll that follows must not begin a new quantum.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::busy_queue::{BusyQueue, Ticket};

/// How many times as many bytes are written as are read: a byte of a response is copied, one of a
/// request is parsed and decided on as well.
const WRITTEN_FOR_READ: usize = 8;

/// How many times as long a quantum is as its first part. With the default of 32 KiB, this has room
/// for ten usual requests.
const FIRST_PART: usize = 16;

/// What has room for one request: the first one of a quantum always fits.
const ONE_REQUEST: usize = 1;

/// What is left of a connection's quantum.
#[derive(Debug)]
pub(crate) struct Quantum {
    bytes: usize,
    busy: Arc<BusyQueue>,
    ticket: Ticket,
    /// Whether requests are answered side by side.
    is_multiplexed: AtomicBool,
    /// Whether it has waited for a turn since a quantum began.
    has_waited: AtomicBool,
    /// Whether there was nothing more to read since a quantum began.
    is_drained: AtomicBool,
    /// Whether bytes that are read count where they are encrypted.
    counts_ciphertext: AtomicBool,
    /// How often the connection's task was polled.
    turn: AtomicUsize,
    to_read: AtomicUsize,
    to_write: AtomicUsize,
    to_decide: AtomicUsize,
    task: OnceLock<Waker>,
    has_waiting: AtomicBool,
    /// Whether the quantum began with requests that had waited for it.
    resumes: AtomicBool,
    /// At most one for each stream.
    waiting: Mutex<VecDeque<(Waker, usize)>>,
}

// === impl Quantum ===

impl Quantum {
    pub(crate) fn new(bytes: usize, busy: Arc<BusyQueue>) -> Quantum {
        Quantum {
            bytes,
            busy,
            ticket: Ticket::default(),
            is_multiplexed: AtomicBool::new(false),
            has_waited: AtomicBool::new(false),
            is_drained: AtomicBool::new(true),
            counts_ciphertext: AtomicBool::new(false),
            turn: AtomicUsize::new(0),
            to_read: AtomicUsize::new(bytes),
            to_write: AtomicUsize::new(bytes * WRITTEN_FOR_READ),
            to_decide: AtomicUsize::new(bytes),
            task: OnceLock::new(),
            has_waiting: AtomicBool::new(false),
            resumes: AtomicBool::new(false),
            waiting: Mutex::default(),
        }
    }

    /// The task of the connection is polled. A new quantum begins, unless the last one goes on, or
    /// it has to wait for its turn: whatever else has woken the task does not make it more than
    /// others get.
    pub(crate) fn begin(&self, cx: &Context<'_>) {
        self.task.get_or_init(|| cx.waker().clone());
        // Only the connection's own task counts.
        let turn = self.turn();
        self.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
        if self.busy.is_waiting(&self.ticket) {
            return;
        }
        let is_drained = self.is_drained.swap(false, Ordering::Relaxed);
        match self.has_waited.swap(false, Ordering::Relaxed) {
            true => self.renew(self.bytes, self.bytes),
            false if is_drained => {
                let part = self.bytes.div_ceil(FIRST_PART);
                let is_multiplexed = self.is_multiplexed();
                self.renew(part, if is_multiplexed { part } else { ONE_REQUEST });
            }
            false => {}
        }
    }

    /// The task is polled before there are requests to serve. What comes before them has one
    /// quantum without a wait, so that a handshake is seldom delayed by those who are busy.
    pub(crate) fn begin_early(&self, cx: &Context<'_>) {
        if self.has_waited.load(Ordering::Relaxed) {
            self.begin(cx);
        }
    }

    /// Begins a quantum with so many bytes to read, eight times as many to write, and so many of
    /// requests to decide on.
    fn renew(&self, bytes: usize, to_decide: usize) {
        self.to_read.store(bytes, Ordering::Relaxed);
        self.to_write
            .store(bytes * WRITTEN_FOR_READ, Ordering::Relaxed);
        self.to_decide.store(to_decide, Ordering::Relaxed);
        let resumes = self.has_waiting.load(Ordering::Acquire);
        self.resumes.store(resumes, Ordering::Relaxed);
        if resumes {
            self.wake_waiting(to_decide);
        }
    }

    /// From now on, requests are answered side by side, as those of HTTP/2 are.
    pub(crate) fn set_multiplexed(&self) {
        self.is_multiplexed.store(true, Ordering::Relaxed);
    }

    /// Whether requests are answered side by side.
    pub(crate) fn is_multiplexed(&self) -> bool {
        self.is_multiplexed.load(Ordering::Relaxed)
    }

    /// There is nothing more to read now. The next poll of the task begins a new quantum.
    pub(crate) fn record_drained(&self) {
        self.is_drained.store(true, Ordering::Relaxed);
    }

    /// The number of the present poll of the connection's task.
    pub(crate) fn turn(&self) -> usize {
        self.turn.load(Ordering::Relaxed)
    }

    /// Whether the quantum began with requests that had waited for it: the connection sends more of
    /// them than one has room for, without waiting for answers.
    pub(crate) fn resumes_requests(&self) -> bool {
        self.resumes.load(Ordering::Relaxed)
    }

    /// Wakes waiting requests, as many as fit so many bytes.
    fn wake_waiting(&self, bytes: usize) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut woken = 0;
        while woken < bytes
            && let Some((waker, its)) = waiting.pop_front()
        {
            woken += its.max(1);
            waker.wake();
        }
        self.has_waiting
            .store(!waiting.is_empty(), Ordering::Release);
        // The others need another quantum, even if the peer sends nothing.
        if !waiting.is_empty() {
            self.wake_task();
        }
    }

    /// Ready if the quantum has bytes left to read; otherwise the task is polled again later.
    pub(crate) fn poll_read(&self, cx: &Context<'_>) -> Poll<()> {
        self.poll_left(&self.to_read, cx)
    }

    /// Counts bytes that were read, unless they have been counted as ciphertext.
    pub(crate) fn record_read(&self, bytes: usize) {
        if !self.counts_ciphertext.load(Ordering::Relaxed) {
            take(&self.to_read, bytes);
        }
    }

    /// Counts encrypted bytes that were read. From now on, only such bytes count.
    pub(crate) fn record_ciphertext(&self, bytes: usize) {
        self.counts_ciphertext.store(true, Ordering::Relaxed);
        take(&self.to_read, bytes);
    }

    /// Ready if the quantum has bytes left to write; otherwise the task is polled again later.
    pub(crate) fn poll_write(&self, cx: &Context<'_>) -> Poll<()> {
        self.poll_left(&self.to_write, cx)
    }

    /// Counts bytes that were written.
    pub(crate) fn record_written(&self, bytes: usize) {
        take(&self.to_write, bytes);
    }

    fn poll_left(&self, left: &AtomicUsize, cx: &Context<'_>) -> Poll<()> {
        if left.load(Ordering::Relaxed) > 0 {
            return Poll::Ready(());
        }
        self.wait_for_turn(cx.waker());
        Poll::Pending
    }

    /// Waits until a request of so many bytes fits. The first one of a quantum always does.
    pub(crate) fn poll_decide(&self, bytes: usize, cx: &Context<'_>) -> Poll<()> {
        if take(&self.to_decide, bytes) {
            return Poll::Ready(());
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push_back((cx.waker().clone(), bytes));
        self.has_waiting.store(true, Ordering::Release);
        drop(waiting);
        self.wake_task();
        Poll::Pending
    }

    fn wake_task(&self) {
        if let Some(task) = self.task.get() {
            self.wait_for_turn(task);
        }
    }

    fn wait_for_turn(&self, task: &Waker) {
        self.has_waited.store(true, Ordering::Relaxed);
        self.busy.enqueue(&self.ticket, task);
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
    use std::sync::atomic::AtomicU32;
    use std::task::Wake;

    use tokio::task::yield_now;

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

    /// Lets the busy queue call those that wait.
    async fn call() {
        yield_now().await;
        yield_now().await;
    }

    #[tokio::test]
    async fn what_does_not_fit_a_quantum_waits_for_the_next() {
        let quantum = Quantum::new(100, Arc::default());
        quantum.set_multiplexed();
        let (task, stream) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
        let (task_waker, stream_waker) = (Arc::clone(&task).into(), Arc::clone(&stream).into());
        let of_task = Context::from_waker(&task_waker);
        let of_stream = Context::from_waker(&stream_waker);
        quantum.begin(&of_task);
        // The first part has room for seven bytes.
        assert!(quantum.poll_decide(6, &of_stream).is_ready());
        assert!(quantum.poll_decide(60, &of_stream).is_ready());
        for _ in 0..5 {
            assert!(quantum.poll_decide(60, &of_stream).is_pending());
        }
        // Woken by something else before its turn, it has no new quantum.
        quantum.begin(&of_task);
        assert_eq!((task.times(), stream.times()), (0, 0));
        call().await;
        assert_eq!((task.times(), stream.times()), (1, 0));
        assert!(!quantum.resumes_requests());
        // Each quantum wakes two requests of sixty bytes; the task is polled again for the others.
        quantum.begin(&of_task);
        assert!(quantum.resumes_requests());
        assert_eq!((task.times(), stream.times()), (1, 2));
        call().await;
        quantum.begin(&of_task);
        call().await;
        quantum.begin(&of_task);
        call().await;
        assert_eq!((task.times(), stream.times()), (3, 5));
        quantum.record_drained();
        quantum.begin(&of_task);
        assert!(!quantum.resumes_requests());
    }

    #[tokio::test]
    async fn one_request_of_a_pipeline_is_decided_before_others_have_their_turn() {
        let quantum = Quantum::new(100, Arc::default());
        let task = Arc::new(Woken::default());
        let waker = Arc::clone(&task).into();
        let cx = Context::from_waker(&waker);
        let decided = |quantum: &Quantum| {
            (0..100)
                .take_while(|_| quantum.poll_decide(10, &cx).is_ready())
                .count()
        };
        quantum.begin(&cx);
        assert_eq!(decided(&quantum), 1);
        // The next ones have a whole quantum, however often the task is polled meanwhile.
        call().await;
        quantum.begin(&cx);
        assert!(quantum.resumes_requests());
        for _ in 0..5 {
            assert!(quantum.poll_decide(10, &cx).is_ready());
        }
        quantum.begin(&cx);
        assert!(quantum.resumes_requests());
        assert_eq!(decided(&quantum), 5);
        // Without a pipeline, each request finds a new quantum.
        call().await;
        for _ in 0..20 {
            quantum.record_drained();
            quantum.begin(&cx);
            assert!(quantum.poll_decide(10, &cx).is_ready());
        }
        assert!(!quantum.resumes_requests());
    }

    #[tokio::test]
    async fn what_was_counted_as_ciphertext_does_not_count_again() {
        let quantum = Quantum::new(160, Arc::default());
        let waker = Arc::new(Woken::default()).into();
        let cx = Context::from_waker(&waker);
        // A handshake has a whole quantum, however often its task is polled.
        for _ in 0..159 {
            quantum.begin_early(&cx);
            quantum.record_ciphertext(1);
        }
        quantum.record_read(100);
        assert!(quantum.poll_read(&cx).is_ready());
        quantum.record_ciphertext(1);
        assert!(quantum.poll_read(&cx).is_pending());
        quantum.begin_early(&cx);
        assert!(quantum.poll_read(&cx).is_pending());
        call().await;
        quantum.begin_early(&cx);
        assert!(quantum.poll_read(&cx).is_ready());
    }

    #[tokio::test]
    async fn reading_and_writing_stop_at_the_end_of_a_quantum_and_continue_in_the_next() {
        type Poll = fn(&Quantum, &Context<'_>) -> std::task::Poll<()>;
        let read: (Poll, fn(&Quantum, usize), usize) = (
            |quantum, cx| quantum.poll_read(cx),
            Quantum::record_read,
            160,
        );
        let written: (Poll, fn(&Quantum, usize), usize) = (
            |quantum, cx| quantum.poll_write(cx),
            Quantum::record_written,
            1280,
        );
        for (poll, record, whole) in [read, written] {
            let quantum = Quantum::new(160, Arc::default());
            let task = Arc::new(Woken::default());
            let waker = Arc::clone(&task).into();
            let cx = Context::from_waker(&waker);
            // Without a wait, the first part of a quantum; after one, a whole one; then without
            // one again.
            for (turn, bytes) in (0..).zip([whole / FIRST_PART, whole, whole]) {
                quantum.begin(&cx);
                record(&quantum, bytes - 1);
                assert!(poll(&quantum, &cx).is_ready());
                record(&quantum, whole * 10);
                assert!(poll(&quantum, &cx).is_pending());
                quantum.begin(&cx);
                assert!(poll(&quantum, &cx).is_pending());
                call().await;
                assert_eq!(task.times(), turn + 1);
            }
            quantum.begin(&cx);
            quantum.record_drained();
            quantum.begin(&cx);
            record(&quantum, whole / FIRST_PART);
            assert!(poll(&quantum, &cx).is_pending());
        }
    }
}
