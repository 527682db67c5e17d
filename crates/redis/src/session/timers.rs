//! Deadlines of requests, and servers that do not reply.

use std::io;

use tokio::time::Instant;

use super::health::{TRIAL_MIN, Trial};
use super::{LAST_CHANCE, LOST_MAX, SILENCE_MAX, Sent, Session};
use crate::failure::Failure;
use crate::request_queue::Pending;

impl Session<'_> {
    /// Sets the timer, if it is not set.
    pub(super) fn arm(&mut self) {
        if self.fires_at.is_some() {
            return;
        }
        let first = self.oldest().map(|since| since + self.shared.reply_timeout);
        // Nearly always later; but a report in flight may have a later deadline than a queued
        // request.
        let queued = self.shared.first_deadline();
        let first = [first, queued].into_iter().flatten().min();
        let now = Instant::now();
        // No caller waits, but whether the server is healthy is still open.
        let is_doubtful = self.shared.is_broken() || !self.sent.is_empty();
        let look = is_doubtful.then(|| now + TRIAL_MIN);
        let due = first.or(look).unwrap_or(self.check_at);
        let trial = self.trial.as_ref().map_or(due, |trial| trial.at);
        self.set_timer(due.min(trial).min(self.check_at));
    }

    /// The start time of the oldest request in flight with a waiting caller.
    fn oldest(&self) -> Option<Instant> {
        let requests = self.sent.iter().flat_map(|call| match &call.sent {
            Sent::Plain(requests) | Sent::General(requests) => &requests[..],
            _ => &[],
        });
        let wanted = requests.filter(|pending| pending.is_wanted());
        wanted.map(|pending| pending.since).min()
    }

    /// Makes the timer fire no later than the first deadline of these requests, and than the next
    /// check of the server's role: the timeout of a request may be longer than until then.
    pub(super) fn watch(&mut self, requests: &[Pending]) {
        let oldest = requests.iter().map(|pending| pending.since).min();
        if let Some(deadline) = oldest.map(|since| since + self.shared.reply_timeout)
            && self.fires_at.is_none_or(|at| deadline < at)
        {
            self.set_timer(deadline.min(self.check_at));
        }
    }

    /// Makes the timer fire no later than the first deadline in the queue.
    pub(super) fn watch_queue(&mut self) {
        if let Some(deadline) = self.shared.first_deadline()
            && self.fires_at.is_none_or(|at| deadline < at)
        {
            self.set_timer(deadline.min(self.check_at));
        }
    }

    fn set_timer(&mut self, at: Instant) {
        self.timer.as_mut().reset(at);
        self.fires_at = Some(at);
    }

    /// Fails requests past their deadlines; opens the circuit breaker, sends a trial call, or
    /// closes the connection.
    pub(super) fn on_timer(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let reply_timeout = self.shared.reply_timeout;
        for call in &mut self.sent {
            let (Sent::Plain(requests) | Sent::General(requests)) = &mut call.sent else {
                continue;
            };
            let late = requests
                .iter_mut()
                .filter(|pending| pending.is_wanted() && pending.since + reply_timeout <= now);
            for pending in late {
                pending.fail(&Failure::OutcomeUnknown);
                self.shared.stats.count_lost();
                self.lost += 1;
                *self.last_lost = Some(pending.request.keys()[0]);
                self.window.on_loss(call.at, now, self.requests);
            }
        }
        self.shared.expire(now);
        // A server that replies late may be overloaded: then the window shrinks first.
        let is_silent = self.received_at + reply_timeout <= now;
        let is_out = is_silent || self.window.is_least();
        if self.lost >= LOST_MAX && is_out && !self.shared.is_broken() {
            self.shared.set_broken(true);
            let lost = *self.last_lost;
            self.trial = self.trial.take().or(lost.map(|key| Trial::new(key, now)));
        }
        self.check_silence(now)?;
        self.check_health(now);
        Ok(())
    }

    /// Closes the connection if the server has been silent for too long twice in a row: the first
    /// time, a reply may have arrived and not been read yet. Not while a caller may still have its
    /// reply: the silence may be a slow script, or that of a machine that is overloaded.
    fn check_silence(&mut self, now: Instant) -> io::Result<()> {
        let silence_max = match self.oldest() {
            Some(_) => SILENCE_MAX.max(self.shared.reply_timeout),
            None => SILENCE_MAX,
        };
        let silent_since = self
            .sent
            .front()
            .map(|call| call.at.max(self.received_at))
            .filter(|since| *since + silence_max < now);
        if silent_since.is_none() {
            return Ok(());
        }
        if self.is_suspect {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.is_suspect = true;
        self.set_timer(now + LAST_CHANCE);
        Ok(())
    }
}
