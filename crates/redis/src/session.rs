//! One open connection at work.
//!
//! Questions that wait when the connection can be written to go out together: in as few script
//! calls as the batch allows, and in one write. While a call is on its way the next questions
//! gather, so a batch grows with the load and nobody waits for a batch to fill.
//!
//! Replies come in the order of the calls. A question is sent once: it is put back into the queue
//! only if the server says that it did nothing with it. When an answer does not come in time, or
//! the connection breaks, nobody knows whether the units were taken; the asker is told so, and
//! asking again is not ours to decide. (The other way, a request id remembered in Redis for a
//! while, would cost a second key and a second write for every decision, to save a few units of a
//! few requests on the rare day when a connection breaks, always to the caller's disadvantage.)
//!
//! Patience is one timer for the connection, set for the oldest question that somebody waits for.
//! Those do not come in order: what a request asks second is as old as the request. After
//! [`LOST_MAX`] answers in a row that were not in time, the breaker opens: questions are refused
//! at once, and a probe goes out now and then. The first probe that is answered in time closes the
//! breaker.

mod replies;

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant, Sleep, sleep_until};

use crate::connection::{Connection, Stream};
use crate::driver::Driver;
use crate::failure::Failure;
use crate::lane::{Asked, Pending, Shared};
use crate::question::{General, Plain, Question};
use crate::resp::{self, Reply};

/// The most questions that are on their way.
const IN_FLIGHT_MAX: usize = 16 * 1024;
/// The most keys in one call of the general script.
const KEYS_MAX: usize = 256;
/// Bytes that are written before more questions are taken.
const OUT_BYTES_MAX: usize = 1 << 20;
/// Answers in a row that are not in time before the breaker opens.
const LOST_MAX: u32 = 8;
/// How often a server that does not answer is probed.
const PROBE_EVERY: Duration = Duration::from_millis(50);
/// How long a server may be silent before the connection is given up.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// One open connection at work.
pub(crate) struct Session<'d> {
    driver: &'d Driver,
    shared: &'d Shared,
    read: ReadHalf<Box<dyn Stream>>,
    write: WriteHalf<Box<dyn Stream>>,
    input: BytesMut,
    out: BytesMut,
    sent: VecDeque<Call>,
    questions: usize,
    taken: Vec<Asked>,
    timer: Pin<Box<Sleep>>,
    /// When the timer rings: no later than the first who waits loses patience.
    rings_at: Option<Instant>,
    /// Answers in a row that were not in time.
    lost: u32,
    is_broken: bool,
    heard_at: Instant,
    probed_at: Instant,
}

/// What was sent, and when.
struct Call {
    sent: Sent,
    at: Instant,
}

enum Sent {
    Plain(Vec<Pending>),
    General(Vec<Pending>),
    Command(oneshot::Sender<Reply>),
    /// A script, to be loaded.
    Load,
    /// `ASKING`.
    Asking,
    Probe,
}

// === impl Session ===

impl<'d> Session<'d> {
    pub(crate) fn new(
        driver: &'d Driver,
        shared: &'d Shared,
        connection: Connection,
    ) -> Session<'d> {
        let (read, write) = tokio::io::split(connection.stream);
        let now = Instant::now();
        Session {
            driver,
            shared,
            read,
            write,
            input: connection.input,
            out: BytesMut::new(),
            sent: VecDeque::new(),
            questions: 0,
            taken: Vec::new(),
            timer: Box::pin(sleep_until(now)),
            rings_at: None,
            lost: 0,
            is_broken: false,
            heard_at: now,
            probed_at: now,
        }
    }

    /// Works until the connection breaks; then everybody on their way is told.
    pub(crate) async fn run(mut self) {
        let _why_is_the_breaker_s_business = self.work().await;
        for call in self.sent {
            if let Sent::Plain(questions) | Sent::General(questions) = call.sent {
                for mut pending in questions {
                    self.shared.stats.lost();
                    pending.fail(&Failure::Lost);
                }
            }
        }
    }

    async fn work(&mut self) -> io::Result<()> {
        loop {
            self.fill();
            self.arm();
            let has_room = self.has_room();
            tokio::select! {
                biased;
                read = self.read.read_buf(&mut self.input) => {
                    if read? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    self.hear()?;
                }
                written = self.write.write_buf(&mut self.out), if !self.out.is_empty() => {
                    written?;
                    self.shared.stats.wrote();
                    if self.out.is_empty() {
                        self.write.flush().await?;
                    }
                }
                () = self.shared.filled.notified(), if has_room => {
                    // Lets others that are about to ask do so, and go along.
                    tokio::task::yield_now().await;
                }
                () = self.timer.as_mut(), if self.rings_at.is_some() => {
                    self.rings_at = None;
                    self.look_at_the_clock()?;
                }
            }
        }
    }

    fn has_room(&self) -> bool {
        self.questions < IN_FLIGHT_MAX && self.out.len() < OUT_BYTES_MAX
    }

    /// Takes what waits in the queue, and writes it out as script calls.
    fn fill(&mut self) {
        if !self.has_room() {
            return;
        }
        let mut taken = std::mem::take(&mut self.taken);
        self.shared.take(IN_FLIGHT_MAX - self.questions, &mut taken);
        let (mut plain, mut general) = (Vec::new(), Vec::new());
        for asked in taken.drain(..) {
            match asked {
                Asked::Command { words, reply } => self.send_command(&words, reply),
                // Nobody waits any more: whoever does not ask is not charged.
                Asked::Question(pending) if !pending.is_wanted() => {}
                Asked::Question(pending) => match pending.question {
                    Question::Plain(_) => plain.push(pending),
                    Question::General(_) => general.push(pending),
                },
            }
        }
        self.taken = taken;
        self.send_in_groups(plain, Session::send_plain);
        self.send_in_groups(general, Session::send_general);
    }

    /// Calls `send` with as many questions at once as may share a call.
    fn send_in_groups(
        &mut self,
        mut questions: Vec<Pending>,
        send: impl Fn(&mut Self, Vec<Pending>),
    ) {
        if questions.is_empty() {
            return;
        }
        let place = |pending: &Pending| (pending.is_asking, pending.slot);
        questions.sort_by_key(place);
        let mut group: Vec<Pending> = Vec::new();
        let mut keys = 0;
        for pending in questions {
            let count = pending.question.keys().len();
            let shares = group
                .first()
                .is_none_or(|first| place(first) == place(&pending));
            let is_full = group.len() >= self.driver.batch || keys + count > KEYS_MAX;
            if !shares || is_full && !group.is_empty() {
                send(self, std::mem::take(&mut group));
                keys = 0;
            }
            keys += count;
            group.push(pending);
        }
        send(self, group);
    }

    fn send_plain(&mut self, mut group: Vec<Pending>) {
        group.sort_by_key(|pending| pending.question.is_leasing());
        self.send_asking(&group);
        let plain: Vec<Plain> = group
            .iter()
            .filter_map(|pending| match &pending.question {
                Question::Plain(plain) => Some(*plain),
                Question::General(_) => None,
            })
            .collect();
        self.driver.caller.call_plain(&mut self.out, &plain);
        self.questions += group.len();
        self.shared.stats.called(group.len());
        self.watch(&group);
        self.sent(Sent::Plain(group));
    }

    fn send_general(&mut self, group: Vec<Pending>) {
        self.send_asking(&group);
        let requests: Vec<&General> = group
            .iter()
            .filter_map(|pending| match &pending.question {
                Question::Plain(_) => None,
                Question::General(general) => Some(general),
            })
            .collect();
        self.driver.caller.call_general(&mut self.out, &requests);
        self.questions += group.len();
        self.shared.stats.called(group.len());
        self.watch(&group);
        self.sent(Sent::General(group));
    }

    fn send_asking(&mut self, group: &[Pending]) {
        if group.first().is_some_and(|pending| pending.is_asking) {
            resp::command(&mut self.out, 1);
            resp::word(&mut self.out, b"ASKING");
            self.sent(Sent::Asking);
        }
    }

    fn send_command(&mut self, words: &[Vec<u8>], reply: oneshot::Sender<Reply>) {
        resp::command(&mut self.out, words.len());
        words
            .iter()
            .for_each(|word| resp::word(&mut self.out, word));
        self.sent(Sent::Command(reply));
    }

    fn sent(&mut self, sent: Sent) {
        let at = Instant::now();
        self.sent.push_back(Call { sent, at });
    }

    /// Sends the scripts, unless they are on their way.
    fn load(&mut self) {
        if self.sent.iter().any(|call| matches!(call.sent, Sent::Load)) {
            return;
        }
        self.shared.stats.scripts_loaded();
        self.driver.opener.load(&mut self.out);
        self.sent(Sent::Load);
        self.sent(Sent::Load);
    }

    /// Sets the timer, if it is not set.
    fn arm(&mut self) {
        if self.rings_at.is_some() {
            return;
        }
        let first = self.oldest().map(|since| since + self.shared.patience);
        let first = first.or_else(|| self.shared.first_deadline());
        if let Some(deadline) = first {
            self.ring_at(deadline);
        } else if self.is_broken || !self.sent.is_empty() {
            // Everybody was told; whether the server is well is still to be seen.
            self.ring_at(Instant::now() + PROBE_EVERY);
        }
    }

    /// When the oldest question that is on its way, and that somebody waits for, was asked.
    fn oldest(&self) -> Option<Instant> {
        let questions = self.sent.iter().flat_map(|call| match &call.sent {
            Sent::Plain(questions) | Sent::General(questions) => &questions[..],
            _ => &[],
        });
        let wanted = questions.filter(|pending| pending.is_wanted());
        wanted.map(|pending| pending.since).min()
    }

    /// Has the timer ring no later than one of these loses patience.
    fn watch(&mut self, questions: &[Pending]) {
        let oldest = questions.iter().map(|pending| pending.since).min();
        if let Some(deadline) = oldest.map(|since| since + self.shared.patience)
            && self.rings_at.is_none_or(|at| deadline < at)
        {
            self.ring_at(deadline);
        }
    }

    fn ring_at(&mut self, at: Instant) {
        self.timer.as_mut().reset(at);
        self.rings_at = Some(at);
    }

    /// Tells those who waited too long; opens the breaker, probes, or gives the connection up.
    fn look_at_the_clock(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let patience = self.shared.patience;
        for call in &mut self.sent {
            let (Sent::Plain(questions) | Sent::General(questions)) = &mut call.sent else {
                continue;
            };
            let late = questions
                .iter_mut()
                .filter(|pending| pending.is_wanted() && pending.since + patience <= now);
            for pending in late {
                pending.fail(&Failure::Lost);
                self.shared.stats.lost();
                self.lost += 1;
            }
        }
        self.shared.expire(now);
        if self.lost >= LOST_MAX && !self.is_broken {
            self.is_broken = true;
            self.shared.set_broken(true);
        }
        let waits = self
            .sent
            .front()
            .is_some_and(|call| call.at + SILENCE_MAX < now);
        if waits && self.heard_at + SILENCE_MAX < now {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let is_probing = self
            .sent
            .iter()
            .any(|call| matches!(call.sent, Sent::Probe));
        if self.is_broken && !is_probing && self.probed_at + PROBE_EVERY <= now {
            self.probed_at = now;
            resp::command(&mut self.out, 1);
            resp::word(&mut self.out, b"PING");
            self.sent(Sent::Probe);
        }
        Ok(())
    }
}
