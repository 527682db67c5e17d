//! One open connection in use.
//!
//! Requests that are queued when the connection can be written to are sent together: in as few
//! script calls as the batch size allows, and in one write. While that is not the case, because a
//! write or the window of requests in flight is full, or this task has no processor, the next
//! requests accumulate: batches grow with the load, and no request waits for a batch to fill.
//!
//! In a Cluster, requests of all slots that the node serves share calls (`slot_sharing.rs`).
//!
//! Replies come in the order of the calls. A request is sent once: it goes back into the queue only
//! if the server says that it did not execute it. If the connection breaks, or a reply misses its
//! deadline, the outcome is unknown, and the caller gets that as an error. (To send it again, Redis
//! would have to store request ids: a second key and a second write for every decision, to save a
//! few units whenever a connection breaks.)
//!
//! The connection has one timer, set for the oldest request with a waiting caller. Deadlines
//! are not in order: the second call of a request has the deadline of the request. After
//! [`LOST_MAX`] replies in a row that missed their deadlines, the circuit breaker opens: requests
//! are rejected at once, and trial calls are sent (`health.rs`). The first that is answered in time
//! closes it.

mod calls;

mod health;

mod replies;

mod slot_sharing;

mod timers;

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant, Sleep, sleep_until};
use tollgate_core::Key;

use crate::connection::Connection;
use crate::connection_task::ConnectionTask;
use crate::environment::Stream;
use crate::failure::Failure;
use crate::request_queue::{Pending, QueueEntry, Shared};
use crate::resp::Reply;
use crate::script_request::ScriptRequest;
use crate::window::{Bounds, Window};
use health::{CHECK_EVERY, Trial};
use slot_sharing::SlotSharing;

/// Bounds of the requests in flight: the least is twice the number of losses that open the circuit
/// breaker; the first allows a burst of some thousand requests at a latency of 5 ms.
const IN_FLIGHT: Bounds = Bounds {
    least: 16,
    first: 512,
    most: 16 * 1024,
};
/// Output bytes at which no more requests are taken.
const OUT_BYTES_MAX: usize = 1 << 20;
/// Replies in a row that miss their deadlines before the circuit breaker opens.
const LOST_MAX: u32 = 8;
/// How long a server may be silent before the connection is closed; for a caller that waits for
/// longer, as long as that.
const SILENCE_MAX: Duration = Duration::from_secs(1);
/// How long to wait for unread replies after that: they may have arrived while this process was
/// stopped.
const LAST_CHANCE: Duration = Duration::from_millis(1);

/// One open connection in use.
pub(crate) struct Session<'d> {
    task: &'d ConnectionTask,
    shared: &'d Shared,
    read: ReadHalf<Box<dyn Stream>>,
    write: WriteHalf<Box<dyn Stream>>,
    input: BytesMut,
    out: BytesMut,
    sent: VecDeque<Call>,
    /// Requests in flight; `window` is how many there may be.
    requests: usize,
    window: Window,
    taken: Vec<QueueEntry>,
    slot_sharing: SlotSharing,
    /// The scripts whose `SCRIPT LOAD` was not answered yet.
    loading: usize,
    timer: Pin<Box<Sleep>>,
    /// When the timer fires: no later than the first deadline.
    fires_at: Option<Instant>,
    /// Replies in a row that missed their deadlines.
    lost: u32,
    /// The key of the last request that was lost, on this connection or an earlier one.
    last_lost: &'d mut Option<Key>,
    /// The server had been silent for too long when the timer last fired.
    is_suspect: bool,
    received_at: Instant,
    /// Whether there is written output to flush.
    needs_flush: bool,
    /// The server's address.
    address: Arc<str>,
    /// Calls in a row that were answered with errors.
    errors: u32,
    /// When the first of them was.
    errors_since: Option<Instant>,
    /// The trial calls, while the server is silent or replies with errors.
    trial: Option<Trial>,
    /// When the server's role is checked next.
    check_at: Instant,
    /// Whether a request was answered.
    was_useful: bool,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The sentinels name another server.
    Superseded,
    /// The connection broke, or was no longer useful.
    Broken {
        /// Whether a request was answered on it.
        was_useful: bool,
    },
}

/// A call in flight, and when it was sent.
struct Call {
    sent: Sent,
    at: Instant,
}

enum Sent {
    Plain(Vec<Pending>),
    General(Vec<Pending>),
    Command(oneshot::Sender<Result<Reply, Failure>>),
    /// `SCRIPT LOAD`.
    Load,
    /// `ASKING`.
    Asking,
    /// `HELLO`, to check the server's role.
    Check,
    Trial,
}

// === impl Session ===

impl<'d> Session<'d> {
    /// A session over an open connection, with nothing sent yet. If the circuit breaker is open,
    /// trial calls on the key that was lost last find out whether the server decides again.
    pub(crate) fn new(
        task: &'d ConnectionTask,
        shared: &'d Shared,
        connection: Connection,
        address: &Arc<str>,
        last_lost: &'d mut Option<Key>,
    ) -> Session<'d> {
        let (read, write) = tokio::io::split(connection.stream);
        let now = Instant::now();
        shared.set_shares_slots(connection.checks_keys);
        let trial = last_lost.filter(|_| shared.is_broken());
        let trial = trial.map(|key| Trial::new(key, now));
        Session {
            task,
            shared,
            read,
            write,
            input: connection.input,
            out: BytesMut::new(),
            sent: VecDeque::new(),
            requests: 0,
            window: Window::new(IN_FLIGHT, shared.reply_timeout, now),
            taken: Vec::new(),
            slot_sharing: SlotSharing::new(connection.checks_keys),
            loading: 0,
            timer: Box::pin(sleep_until(now)),
            fires_at: None,
            lost: 0,
            last_lost,
            is_suspect: false,
            received_at: now,
            needs_flush: false,
            address: Arc::clone(address),
            errors: 0,
            errors_since: None,
            trial,
            check_at: now + CHECK_EVERY,
            was_useful: false,
        }
    }

    /// Runs until the connection breaks; then all requests in flight fail.
    pub(crate) async fn run(mut self) -> End {
        let ended = self.work().await;
        if let Err(error) = &ended
            && !self.was_useful
        {
            self.shared
                .stats
                .trouble
                .record_failure(&self.address, error);
            self.shared.set_broken(true);
        }
        // The next connection finds out whether the errors persist.
        self.shared.set_failing(None);
        for call in self.sent {
            if let Sent::Plain(requests) | Sent::General(requests) = call.sent {
                // Requests past their deadlines have failed, and were counted, already.
                for mut pending in requests.into_iter().filter(Pending::is_wanted) {
                    self.shared.stats.count_lost();
                    *self.last_lost = Some(pending.request.keys()[0]);
                    pending.fail(&Failure::OutcomeUnknown);
                }
            }
        }
        match ended {
            Ok(()) => End::Superseded,
            Err(_) => End::Broken {
                was_useful: self.was_useful,
            },
        }
    }

    /// Runs until the connection breaks or is superseded. Everything that may take long is awaited
    /// together with the timer, never in place of it.
    async fn work(&mut self) -> io::Result<()> {
        loop {
            self.fill();
            self.arm();
            tokio::select! {
                biased;
                read = self.read.read_buf(&mut self.input) => {
                    if read? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    self.read_replies()?;
                }
                pushed = push(&mut self.write, &mut self.out), if self.has_output() => {
                    match pushed? {
                        Push::Written => {
                            self.shared.stats.count_write();
                            self.needs_flush = true;
                        }
                        Push::Flushed => self.needs_flush = false,
                    }
                }
                () = self.task.target.wait_until_superseded(&self.address) => return Ok(()),
                () = self.shared.filled.notified() => {
                    // Lets other tasks that are about to queue a request do so, to join the batch.
                    tokio::task::yield_now().await;
                }
                () = self.timer.as_mut(), if self.fires_at.is_some() => {
                    self.fires_at = None;
                    self.on_timer()?;
                    // Before anything is sent: a new call would otherwise set the timer for its own
                    // deadline only.
                    self.arm();
                }
            }
        }
    }

    fn has_output(&self) -> bool {
        self.needs_flush || !self.out.is_empty()
    }

    /// How many more requests may be sent. None until the server has the scripts: it may reject
    /// more of those in flight, and they are sent again before all others.
    fn room(&self) -> usize {
        match self.out.len() < OUT_BYTES_MAX && self.loading == 0 {
            true => self.window.room(self.requests),
            false => 0,
        }
    }

    /// Takes requests from the queue, and writes them as script calls.
    fn fill(&mut self) {
        let room = self.room();
        if room == 0 {
            return self.watch_queue();
        }
        let mut taken = std::mem::take(&mut self.taken);
        self.shared.take(room, &mut taken);
        let (mut plain, mut general) = (Vec::new(), Vec::new());
        for entry in taken.drain(..) {
            match entry {
                QueueEntry::Command { words, reply } => self.send_command(&words, reply),
                // The caller has given up: a request that is not sent is not charged.
                QueueEntry::ScriptRequest(pending) if !pending.is_wanted() => {}
                QueueEntry::ScriptRequest(pending) => match pending.request {
                    ScriptRequest::Plain(_) => plain.push(pending),
                    ScriptRequest::General(_) => general.push(pending),
                },
            }
        }
        self.taken = taken;
        self.send_in_groups(plain, Session::send_plain);
        self.send_in_groups(general, Session::send_general);
        if self.room() == 0 {
            self.watch_queue();
        }
    }
}

/// The kind of progress on the output.
enum Push {
    Written,
    Flushed,
}

/// Writes some of `out`, or flushes it. Cancelling the future loses nothing.
async fn push(write: &mut WriteHalf<Box<dyn Stream>>, out: &mut BytesMut) -> io::Result<Push> {
    if out.is_empty() {
        return write.flush().await.map(|()| Push::Flushed);
    }
    write.write_buf(out).await.map(|_| Push::Written)
}

#[cfg(test)]
mod tests;
