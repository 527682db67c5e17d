//! The way to one connection: a bounded queue, a circuit breaker, and the task that drives them.

mod waiting;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant};

use crate::failure::Failure;
use crate::resp::Reply;
use crate::script_reply::ScriptReply;
use crate::script_request::ScriptRequest;
use crate::sharded::lock;
use crate::stats::Stats;
use waiting::Waiting;

/// The most requests that wait for one connection. More are denied at once: within the time that
/// a decision may take, no connection would get to them.
pub(crate) const QUEUE_MAX: usize = 16 * 1024;

/// Why nobody is let in.
const SILENT: &str = "it did not answer lately";
/// What is wrong with a connection whose task has ended.
const ENDED: &str = "the Tokio runtime in which its connection was opened has ended";

/// A handle on one connection, whether it is open or not.
#[derive(Debug)]
pub(crate) struct RequestQueue {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// What the callers and the driver of a request queue have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    queue: Mutex<Waiting>,
    /// Something was put into an empty queue, or is due earlier than its front.
    pub(crate) filled: Notify,
    /// While this is set, nobody is let in: the connection is gone, or does not answer.
    is_broken: AtomicBool,
    /// While the server replies with errors, what it says; only requests that change nothing are
    /// let in then.
    failing: Mutex<Option<Arc<str>>>,
    /// Whether there is such an error, for a look without the lock.
    is_failing: AtomicBool,
    /// How long a caller waits.
    pub(crate) reply_timeout: Duration,
    pub(crate) stats: Arc<Stats>,
}

/// Closes a request queue when the task that drives it ends, also with the runtime that it is part
/// of: no other task would answer or expire what waits in the queue.
struct CloseAtEnd(Arc<Shared>);

/// What becomes of a request.
pub(crate) type Answer = oneshot::Receiver<Result<ScriptReply, Failure>>;

/// A request and the caller that waits for its answer.
#[derive(Debug)]
pub(crate) enum QueueEntry {
    /// To be decided by a script.
    ScriptRequest(Pending),
    /// Any command.
    Command {
        words: Vec<Vec<u8>>,
        reply: oneshot::Sender<Result<Reply, Failure>>,
    },
}

/// A request that is not answered yet.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) request: ScriptRequest,
    /// Requests of one slot can share a call; alone and under Sentinel that is all of them.
    pub(crate) slot: u16,
    /// The node does not serve the slot yet: `ASKING` goes first, so that it answers all the same.
    pub(crate) is_asking: bool,
    pub(crate) since: Instant,
    reply: Option<oneshot::Sender<Result<ScriptReply, Failure>>>,
}

// === impl RequestQueue ===

impl RequestQueue {
    /// A request queue that `drive` drives for as long as the request queue is held.
    pub(crate) fn new<F>(
        reply_timeout: Duration,
        stats: Arc<Stats>,
        drive: impl FnOnce(Arc<Shared>) -> F,
    ) -> RequestQueue
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            filled: Notify::new(),
            is_broken: AtomicBool::new(false),
            failing: Mutex::default(),
            is_failing: AtomicBool::new(false),
            reply_timeout,
            stats,
        });
        let (driven, end) = (drive(Arc::clone(&shared)), CloseAtEnd(Arc::clone(&shared)));
        let task = tokio::spawn(async move {
            let _end = end;
            driven.await;
        });
        RequestQueue { shared, task }
    }

    /// Whether requests are let in, and decided on.
    pub(crate) fn is_up(&self) -> bool {
        !self.shared.is_broken.load(Ordering::Relaxed)
            && !self.shared.is_failing.load(Ordering::Relaxed)
    }

    /// Asks, and waits for the answer, but not longer than until `since` and the timeout.
    pub(crate) async fn ask(
        &self,
        request: ScriptRequest,
        slot: u16,
        is_asking: bool,
        since: Instant,
    ) -> Result<ScriptReply, Failure> {
        self.shared.check(request.writes())?;
        let (reply, answer) = oneshot::channel();
        let pending = Pending {
            request,
            slot,
            is_asking,
            since,
            reply: Some(reply),
        };
        self.shared.push(QueueEntry::ScriptRequest(pending))?;
        // A driver that goes takes the request along: nobody can say whether it was sent.
        answer.await.unwrap_or(Err(Failure::Lost))
    }

    /// Asks all of these, with their slots, so that they go out together; the answers come in any
    /// order.
    pub(crate) fn ask_together(
        &self,
        requests: impl Iterator<Item = (ScriptRequest, u16)>,
        since: Instant,
    ) -> Result<Vec<Answer>, Failure> {
        self.shared.check(true)?;
        let mut answers = Vec::new();
        let all = requests.map(|(request, slot)| {
            let (reply, answer) = oneshot::channel();
            answers.push(answer);
            QueueEntry::ScriptRequest(Pending {
                request,
                slot,
                is_asking: false,
                since,
                reply: Some(reply),
            })
        });
        let all: Vec<QueueEntry> = all.collect();
        self.shared.push_all(all)?;
        Ok(answers)
    }

    /// Any command and its reply; as patient as the connection is.
    pub(crate) async fn command(&self, words: &[&[u8]]) -> Result<Reply, Failure> {
        let (reply, answer) = oneshot::channel();
        let words = words.iter().map(|word| word.to_vec()).collect();
        self.shared.push(QueueEntry::Command { words, reply })?;
        answer.await.unwrap_or(Err(Failure::Lost))
    }
}

impl Drop for RequestQueue {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// === impl Shared ===

impl Shared {
    /// Lets requests in again, or denies them from now on and those that wait.
    pub(crate) fn set_broken(&self, is_broken: bool) {
        let was_broken = self.is_broken.swap(is_broken, Ordering::Relaxed);
        if is_broken && !was_broken {
            self.stats.count_breaker_opening();
        }
        if is_broken {
            self.queue().fail_all(&Failure::unreachable(SILENT));
        }
    }

    /// Lets no request in any more, and denies those that wait.
    fn close(&self) {
        // Relaxed: the queue itself, under its lock, rejects what comes after this.
        self.is_broken.store(true, Ordering::Relaxed);
        let mut queue = self.queue();
        queue.close();
        queue.fail_all(&Failure::unreachable(ENDED));
    }

    /// The server replies with errors, or does so no longer.
    pub(crate) fn set_failing(&self, text: Option<Arc<str>>) {
        let is_failing = text.is_some();
        *lock(&self.failing) = text;
        // Relaxed: it only says where to look.
        let was_failing = self.is_failing.swap(is_failing, Ordering::Relaxed);
        if is_failing && !was_failing {
            self.stats.count_breaker_opening();
        }
    }

    /// Whether a request is let in.
    fn check(&self, writes: bool) -> Result<(), Failure> {
        if self.is_broken.load(Ordering::Relaxed) {
            return Err(Failure::unreachable(SILENT));
        }
        if writes && self.is_failing.load(Ordering::Relaxed) {
            let failing = lock(&self.failing);
            return failing
                .as_ref()
                .map_or(Ok(()), |text| Err(Failure::Unreachable(Arc::clone(text))));
        }
        Ok(())
    }

    /// Takes what waits, up to `most`.
    pub(crate) fn take(&self, most: usize, into: &mut Vec<QueueEntry>) {
        self.queue().take(most, into);
    }

    /// Puts requests back in front that are known to be unanswered.
    pub(crate) fn put_back(&self, requests: Vec<Pending>) {
        let mut queue = self.queue();
        for pending in requests.into_iter().rev() {
            queue.put_back(pending);
        }
    }

    /// When the first that waits in the queue times out.
    pub(crate) fn first_deadline(&self) -> Option<Instant> {
        let oldest = self.queue().oldest();
        oldest.map(|since| since + self.reply_timeout)
    }

    /// Tells those who waited too long that they were never sent.
    pub(crate) fn expire(&self, now: Instant) {
        let failure = Failure::unreachable("it was too busy");
        self.queue().expire(now, self.reply_timeout, &failure);
    }

    fn push(&self, entry: QueueEntry) -> Result<(), Failure> {
        self.push_all([entry])
    }

    /// Puts all of these into the queue, or none; wakes the driver if it sleeps for too long now.
    fn push_all(
        &self,
        all: impl AsRef<[QueueEntry]> + IntoIterator<Item = QueueEntry>,
    ) -> Result<(), Failure> {
        let mut queue = self.queue();
        if queue.is_closed() {
            return Err(Failure::unreachable(ENDED));
        }
        if queue.len() + all.as_ref().len() > QUEUE_MAX {
            return Err(Failure::unreachable("too many wait for it"));
        }
        // The driver sleeps until the first deadline of the queue: it is woken for an earlier one,
        // and for what it can send at once. A report is due later than a request that came after
        // it, and commands have no deadline here.
        let oldest = queue.oldest();
        let first = all.as_ref().iter().filter_map(QueueEntry::since).min();
        let is_due_earlier = match (oldest, first) {
            (Some(oldest), Some(first)) => first < oldest,
            (None, _) => true,
            (Some(_), None) => false,
        };
        all.into_iter().for_each(|entry| queue.push(entry));
        drop(queue);
        if is_due_earlier {
            self.filled.notify_one();
        }
        Ok(())
    }

    fn queue(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.queue)
    }
}

// === impl CloseAtEnd ===

impl Drop for CloseAtEnd {
    fn drop(&mut self) {
        self.0.close();
    }
}

// === impl QueueEntry ===

impl QueueEntry {
    /// The moment that a caller's timeout is counted from; nothing, if it has no deadline here.
    const fn since(&self) -> Option<Instant> {
        match self {
            QueueEntry::ScriptRequest(pending) => Some(pending.since),
            QueueEntry::Command { .. } => None,
        }
    }

    /// Whether it goes out before requests that came earlier: a command, or the last step of what
    /// other calls have begun, which would have been for nothing.
    const fn is_urgent(&self) -> bool {
        match self {
            QueueEntry::ScriptRequest(pending) => pending.request.is_last_step(),
            QueueEntry::Command { .. } => true,
        }
    }
}

// === impl Pending ===

impl Pending {
    /// Whether the caller still waits.
    pub(crate) fn is_wanted(&self) -> bool {
        self.reply.as_ref().is_some_and(|reply| !reply.is_closed())
    }

    pub(crate) fn answer(&mut self, reply: Result<ScriptReply, Failure>) {
        if let Some(caller) = self.reply.take() {
            let _nobody_waits_any_more = caller.send(reply);
        }
    }

    pub(crate) fn fail(&mut self, failure: &Failure) {
        self.answer(Err(failure.clone()));
    }
}
