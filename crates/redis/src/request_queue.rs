//! The queue of one connection: bounded, with a circuit breaker, and a task that sends from it.

mod waiting;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant};

use crate::failure::{ErrorReply, Failure};
use crate::resp::Reply;
use crate::script_reply::ScriptReply;
use crate::script_request::ScriptRequest;
use crate::sharded::lock;
use crate::stats::Stats;
use crate::turn::Turn;
use waiting::Waiting;

/// The most requests that wait for one connection. Any more are rejected at once: a connection
/// could not send them within the timeout of a decision.
pub(crate) const QUEUE_MAX: usize = 16 * 1024;

/// Why requests are rejected while the circuit breaker is open.
const SILENT: &str = "it has not replied recently";
/// Why requests are rejected once the connection's task has ended.
const ENDED: &str = "the Tokio runtime in which its connection was opened has ended";

/// A handle on one connection, whether it is open or not.
#[derive(Debug)]
pub(crate) struct RequestQueue {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// The state that callers share with the connection task.
#[derive(Debug)]
pub(crate) struct Shared {
    queue: Mutex<Waiting>,
    /// Notified when an entry is put into an empty queue, or has the earliest deadline.
    pub(crate) filled: Notify,
    /// Whether requests are rejected because the connection is closed or does not reply.
    is_broken: AtomicBool,
    /// The text of the server's errors while it replies with errors; then only requests that write
    /// nothing are accepted.
    failing: Mutex<Option<ErrorReply>>,
    /// Whether `failing` is set, to be read without the lock.
    is_failing: AtomicBool,
    /// Whether the server was found to accept keys of several slots in one call.
    shares_slots: AtomicBool,
    /// How long a caller waits for a reply.
    pub(crate) reply_timeout: Duration,
    pub(crate) stats: Arc<Stats>,
}

/// Closes a request queue when its task ends, also because its runtime ended: nothing else would
/// send or expire the queued requests.
struct CloseAtEnd(Arc<Shared>);

/// Receives the outcome of a request.
pub(crate) type Answer = oneshot::Receiver<Result<ScriptReply, Failure>>;

/// A queued request or command, with the channel for its reply.
#[derive(Debug)]
pub(crate) enum QueueEntry {
    /// A request for a script.
    ScriptRequest(Pending),
    /// Any command.
    Command {
        words: Vec<Vec<u8>>,
        reply: oneshot::Sender<Result<Reply, Failure>>,
    },
}

/// What a Cluster's node answered to a request before, if that matters to how it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Redirected {
    /// Nothing, or where the slot is. It may share a call.
    #[default]
    No,
    /// `TRYAGAIN`: the slot migrates, and some keys of the call are on the other node. Its own key
    /// is on one of them, so it is sent alone.
    TryAgain,
    /// `ASK`: the node is still importing the slot, so `ASKING` must precede it. It is sent alone:
    /// other keys may not have arrived.
    Ask,
}

/// A request without a reply yet.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) request: ScriptRequest,
    /// The slot of its keys, `None` if they are in several; without a Cluster all slots are 0.
    pub(crate) slot: Option<u16>,
    pub(crate) redirected: Redirected,
    pub(crate) since: Instant,
    /// Whether it is sent after the requests of the same `since` that were queued before it.
    keeps_order: bool,
    reply: Option<oneshot::Sender<Result<ScriptReply, Failure>>>,
}

// === impl RequestQueue ===

impl RequestQueue {
    /// A request queue with its task, which `drive` runs until the queue is dropped.
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
            shares_slots: AtomicBool::new(false),
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

    /// Whether requests are accepted and decided.
    pub(crate) fn is_up(&self) -> bool {
        self.shared.is_up()
    }

    /// Whether requests with keys in several slots may be tried.
    pub(crate) fn shares_slots(&self) -> bool {
        self.shared.shares_slots.load(Ordering::Relaxed)
    }

    /// Queues a request and waits for the reply, at most until its start plus the timeout.
    pub(crate) async fn ask(
        &self,
        request: ScriptRequest,
        slot: Option<u16>,
        redirected: Redirected,
        turn: impl Into<Turn>,
    ) -> Result<ScriptReply, Failure> {
        self.shared.check(request.writes())?;
        let (reply, answer) = oneshot::channel();
        let Turn { since, keeps_order } = turn.into();
        let pending = Pending {
            request,
            slot,
            redirected,
            since,
            keeps_order,
            reply: Some(reply),
        };
        self.shared.push(QueueEntry::ScriptRequest(pending))?;
        // If the task ends, the request is dropped with it, and may have been sent.
        answer.await.unwrap_or(Err(Failure::OutcomeUnknown))
    }

    /// Queues all of these, with their slots, so that they share one write; the replies may come in
    /// any order.
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
                slot: Some(slot),
                redirected: Redirected::No,
                since,
                keeps_order: false,
                reply: Some(reply),
            })
        });
        let all: Vec<QueueEntry> = all.collect();
        self.shared.push_all(all)?;
        Ok(answers)
    }

    /// Runs any command; waits until it is answered or the connection fails.
    pub(crate) async fn command(&self, words: &[&[u8]]) -> Result<Reply, Failure> {
        let (reply, answer) = oneshot::channel();
        let words = words.iter().map(|word| word.to_vec()).collect();
        self.shared.push(QueueEntry::Command { words, reply })?;
        answer.await.unwrap_or(Err(Failure::OutcomeUnknown))
    }
}

impl Drop for RequestQueue {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// === impl Shared ===

impl Shared {
    fn is_up(&self) -> bool {
        !self.is_broken() && !self.is_failing.load(Ordering::Relaxed)
    }

    /// Whether requests are rejected because the connection is closed or does not reply.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// Opens the circuit breaker, which fails all queued requests, or closes it.
    pub(crate) fn set_broken(&self, is_broken: bool) {
        let was_up = self.is_up();
        self.is_broken.store(is_broken, Ordering::Relaxed);
        if is_broken && was_up {
            self.stats.count_breaker_opening();
        }
        if is_broken {
            self.queue().fail_all(&Failure::unreachable(SILENT));
        }
    }

    /// Notes whether the server accepts keys of several slots in one call.
    pub(crate) fn set_shares_slots(&self, shares: bool) {
        // Relaxed: a request that is queued nevertheless is rejected when its turn comes.
        self.shares_slots.store(shares, Ordering::Relaxed);
    }

    /// Rejects requests from now on, and fails the queued ones.
    fn close(&self) {
        // Relaxed: the queue itself, under its lock, rejects whatever comes after this.
        self.is_broken.store(true, Ordering::Relaxed);
        let mut queue = self.queue();
        queue.close();
        queue.fail_all(&Failure::unreachable(ENDED));
    }

    /// Sets the error text of a server that replies with errors, or clears it.
    pub(crate) fn set_failing(&self, error: Option<ErrorReply>) {
        let was_up = self.is_up();
        let is_failing = error.is_some();
        *lock(&self.failing) = error;
        // Relaxed: the text itself is behind the lock.
        self.is_failing.store(is_failing, Ordering::Relaxed);
        if is_failing && was_up {
            self.stats.count_breaker_opening();
        }
    }

    /// Rejects a request if the circuit breaker is open.
    fn check(&self, writes: bool) -> Result<(), Failure> {
        if self.is_broken() {
            return Err(Failure::unreachable(SILENT));
        }
        if writes && self.is_failing.load(Ordering::Relaxed) {
            let failing = lock(&self.failing);
            return failing
                .as_ref()
                .map_or(Ok(()), |error| Err(error.failure()));
        }
        Ok(())
    }

    /// Takes at most `most` entries.
    pub(crate) fn take(&self, most: usize, into: &mut Vec<QueueEntry>) {
        self.queue().take(most, into);
    }

    /// Puts requests back that are known not to be executed: before all others.
    pub(crate) fn put_back(&self, requests: Vec<Pending>) {
        self.queue().put_back(requests);
    }

    /// The earliest deadline in the queue.
    pub(crate) fn first_deadline(&self) -> Option<Instant> {
        let oldest = self.queue().oldest();
        oldest.map(|since| since + self.reply_timeout)
    }

    /// Fails the requests past their deadline: they were never sent.
    pub(crate) fn expire(&self, now: Instant) {
        let failure = Failure::unreachable("it was too busy to get the request in time");
        self.queue().expire(now, self.reply_timeout, &failure);
    }

    fn push(&self, entry: QueueEntry) -> Result<(), Failure> {
        self.push_all([entry])
    }

    /// Queues all of these, or none; wakes the task if it would sleep past the new deadline.
    fn push_all(
        &self,
        all: impl AsRef<[QueueEntry]> + IntoIterator<Item = QueueEntry>,
    ) -> Result<(), Failure> {
        let mut queue = self.queue();
        if queue.is_closed() {
            return Err(Failure::unreachable(ENDED));
        }
        if queue.len() + all.as_ref().len() > QUEUE_MAX {
            return Err(Failure::unreachable("its request queue is full"));
        }
        // The task sleeps until the first deadline of the queue: it is woken for an earlier one,
        // and when the queue was empty. A report can be due later than a request queued after it,
        // and commands have no deadline here.
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
    /// The start of a caller's timeout; `None` if it has no deadline here.
    const fn since(&self) -> Option<Instant> {
        match self {
            QueueEntry::ScriptRequest(pending) => Some(pending.since),
            QueueEntry::Command { .. } => None,
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
            let _caller_has_gone = caller.send(reply);
        }
    }

    pub(crate) fn fail(&mut self, failure: &Failure) {
        self.answer(Err(failure.clone()));
    }
}
