//! One open connection at work.
//!
//! Requests that wait when the connection can be written to go out together: in as few script
//! calls as the batch allows, and in one write. While a call is on its way the next requests
//! gather, so a batch grows with the load and nobody waits for a batch to fill.
//!
//! Replies come in the order of the calls. A request is sent once: it is put back into the queue
//! only if the server says that it did nothing with it. If the connection breaks, or a reply does
//! not come in time, the outcome is unknown, which is what the caller gets. (To send it again,
//! Redis would have to remember request ids: a second key and a second write for every decision,
//! to save a few units on the rare day when a connection breaks.)
//!
//! One timer for the connection is set for the oldest request that a caller waits for.
//! Those do not come in order: what a request asks second is as old as the request. After
//! [`LOST_MAX`] answers in a row that were not in time, the breaker opens: requests are denied
//! at once, and a probe goes out now and then. The first probe that is answered in time closes the
//! breaker.

mod calls;

mod health;

mod replies;

mod timers;

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant, Sleep, sleep_until};

use crate::connection::Connection;
use crate::connection_task::ConnectionTask;
use crate::environment::Stream;
use crate::failure::Failure;
use crate::request_queue::{Pending, QueueEntry, Shared};
use crate::resp::Reply;
use crate::script_request::ScriptRequest;
use crate::window::{Bounds, Window};
use health::{CHECK_EVERY, Trial};

/// Requests that are on their way: at least twice as many as open the breaker; and at first so many
/// that a burst of some thousand requests is answered in time from 5 ms away.
const IN_FLIGHT: Bounds = Bounds {
    least: 16,
    first: 512,
    most: 16 * 1024,
};
/// Bytes that are written before more requests are taken.
const OUT_BYTES_MAX: usize = 1 << 20;
/// Answers in a row that are not in time before the breaker opens.
const LOST_MAX: u32 = 8;
/// How often a server that does not answer is probed.
const PROBE_EVERY: Duration = Duration::from_millis(50);
/// How long a server may be silent before the connection is given up.
const SILENCE_MAX: Duration = Duration::from_secs(1);
/// How long a server has to prove that it was not silent: what it sent may not have been read while
/// this process was stopped.
const LAST_CHANCE: Duration = Duration::from_millis(1);

/// One open connection at work.
pub(crate) struct Session<'d> {
    task: &'d ConnectionTask,
    shared: &'d Shared,
    read: ReadHalf<Box<dyn Stream>>,
    write: WriteHalf<Box<dyn Stream>>,
    input: BytesMut,
    out: BytesMut,
    sent: VecDeque<Call>,
    /// Requests that are on their way, and how many may be.
    requests: usize,
    window: Window,
    taken: Vec<QueueEntry>,
    timer: Pin<Box<Sleep>>,
    /// When the timer rings: no later than when the first that waits times out.
    rings_at: Option<Instant>,
    /// Answers in a row that were not in time.
    lost: u32,
    is_broken: bool,
    /// The server was silent for too long when the timer rang last.
    is_suspect: bool,
    heard_at: Instant,
    probed_at: Instant,
    /// Something was written, and not yet pushed out.
    needs_flush: bool,
    /// The server's.
    address: Arc<str>,
    /// Calls in a row that were answered with errors.
    errors: u32,
    /// How the server is tried, as long as it replies with errors.
    trial: Option<Trial>,
    /// When the server is asked who it is.
    check_at: Instant,
    /// A request was answered.
    was_useful: bool,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The sentinels name another server.
    Superseded,
    /// The connection broke, or was of no use any more.
    Broken {
        /// A request was answered on it.
        was_useful: bool,
    },
}

/// What was sent, and when.
struct Call {
    sent: Sent,
    at: Instant,
}

enum Sent {
    Plain(Vec<Pending>),
    General(Vec<Pending>),
    Command(oneshot::Sender<Result<Reply, Failure>>),
    /// A script, to be loaded.
    Load,
    /// `ASKING`.
    Asking,
    Probe,
    /// Asks the server who it is.
    Check,
    Trial,
}

// === impl Session ===

impl<'d> Session<'d> {
    /// A session that has sent nothing yet, over a connection that is open.
    pub(crate) fn new(
        task: &'d ConnectionTask,
        shared: &'d Shared,
        connection: Connection,
        address: &Arc<str>,
    ) -> Session<'d> {
        let (read, write) = tokio::io::split(connection.stream);
        let now = Instant::now();
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
            timer: Box::pin(sleep_until(now)),
            rings_at: None,
            lost: 0,
            is_broken: false,
            is_suspect: false,
            heard_at: now,
            probed_at: now,
            needs_flush: false,
            address: Arc::clone(address),
            errors: 0,
            trial: None,
            check_at: now + CHECK_EVERY,
            was_useful: false,
        }
    }

    /// Works until the connection breaks; then all requests on their way fail.
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
        // Whatever its errors were, the next connection shows whether they are still there.
        self.shared.set_failing(None);
        for call in self.sent {
            if let Sent::Plain(requests) | Sent::General(requests) = call.sent {
                // Those that waited too long have failed, and were counted, already.
                for mut pending in requests.into_iter().filter(Pending::is_wanted) {
                    self.shared.stats.count_lost();
                    pending.fail(&Failure::Lost);
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

    /// Until the connection breaks, or there is no use for it. Whatever may take long is waited for
    /// beside the timer, never instead of it.
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
                () = self.task.place.wait_until_superseded(&self.address) => return Ok(()),
                () = self.shared.filled.notified() => {
                    // Lets others that are about to ask do so, and go along.
                    tokio::task::yield_now().await;
                }
                () = self.timer.as_mut(), if self.rings_at.is_some() => {
                    self.rings_at = None;
                    self.look_at_the_clock()?;
                    // Before anything is sent, whose deadlines would be all that it rings for.
                    self.arm();
                }
            }
        }
    }

    fn has_output(&self) -> bool {
        self.needs_flush || !self.out.is_empty()
    }

    /// How many more requests may be sent.
    fn room(&self) -> usize {
        match self.out.len() < OUT_BYTES_MAX {
            true => self.window.room(self.requests),
            false => 0,
        }
    }

    /// Takes what waits in the queue, and writes it out as script calls.
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
                // No caller waits any more: what is not sent is not charged.
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

/// What was done with output.
enum Push {
    Written,
    Flushed,
}

/// Writes some of `out`, or flushes what was written of it. Nothing is lost if it is given up.
async fn push(write: &mut WriteHalf<Box<dyn Stream>>, out: &mut BytesMut) -> io::Result<Push> {
    if out.is_empty() {
        return write.flush().await.map(|()| Push::Flushed);
    }
    write.write_buf(out).await.map(|_| Push::Written)
}

#[cfg(test)]
mod tests;
