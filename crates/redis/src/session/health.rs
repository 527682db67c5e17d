//! Health checks: whether the server has the expected role, and whether it executes calls.
//!
//! Once a second its role is checked with `HELLO`: a demoted primary is left at once, and a
//! connection that a NAT or a firewall has dropped is noticed before a decision needs it.
//!
//! The circuit breaker opens when a server is silent ([`LOST_MAX`](super::LOST_MAX)), and when it
//! answered with errors only: [`ERRORS_MAX`] calls in a row, all for [`ERRORS_LAST`], or the first
//! call of a connection. Then writing requests are rejected with the server's error. Meanwhile
//! trial calls are sent: ordinary calls that take a unit of a reserved key in the slot that failed.
//! The first one that succeeds closes the circuit breaker; after silence, it must succeed in time.
//! No other reply does: a server may answer `HELLO` and execute nothing (`CLIENT PAUSE`, a disk
//! that does not take its append-only file).

use std::io;

use tokio::time::{Duration, Instant};
use tollgate_core::Key;

use super::{Sent, Session};
use crate::connection::{Hello, write_hello};
use crate::failure::{ErrorReply, Rejection};
use crate::resp::Reply;
use crate::script_request::Plain;

/// Calls in a row answered with errors before the circuit breaker opens.
const ERRORS_MAX: u32 = 8;
/// How long calls are answered with errors, however few they are, before it opens.
const ERRORS_LAST: Duration = Duration::from_secs(1);
/// The shortest pause between two trials, and the longest.
pub(super) const TRIAL_MIN: Duration = Duration::from_millis(50);
const TRIAL_MAX: Duration = Duration::from_millis(500);
/// The interval between checks of a server's role.
pub(super) const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The call that shows whether a server decides again.
pub(super) struct Trial {
    key: Key,
    /// When the next one is sent.
    pub(super) at: Instant,
    pause: Duration,
}

impl Trial {
    /// Trials on this key, the first at `at`.
    pub(super) const fn new(key: Key, at: Instant) -> Trial {
        Trial {
            key,
            at,
            pause: TRIAL_MIN,
        }
    }
}

impl Session<'_> {
    /// Sends the role check and the trial, if they are due.
    pub(super) fn check_health(&mut self, now: Instant) {
        let is_asked = self
            .sent
            .iter()
            .any(|call| matches!(call.sent, Sent::Check));
        if self.check_at <= now && !is_asked {
            write_hello(&mut self.out);
            self.push_call(Sent::Check);
        }
        if self.check_at <= now {
            self.check_at = now + CHECK_EVERY;
        }
        let is_tried = self
            .sent
            .iter()
            .any(|call| matches!(call.sent, Sent::Trial));
        match &mut self.trial {
            Some(trial) if trial.at <= now && !is_tried => {
                trial.at = now + trial.pause;
                let request = Plain::trial(trial.key);
                self.task
                    .caller
                    .call_plain(&mut self.out, &[request], false);
                self.push_call(Sent::Trial);
            }
            // One is in flight; a silent server is handled by the session.
            Some(trial) if trial.at <= now => trial.at = now + TRIAL_MIN,
            _ => {}
        }
    }

    /// Handles the reply to the role check.
    pub(super) fn check_identity(&self, reply: &Reply) -> io::Result<()> {
        match Hello::read(reply) {
            Ok(hello) => self.task.target.check(&hello),
            // An authenticated connection stays authenticated.
            Err(_) => Ok(()),
        }
    }

    /// Notes that a call that was sent at `sent_at` succeeded.
    pub(super) fn note_success(&mut self, sent_at: Instant, wrote: bool) {
        self.was_useful = true;
        if !wrote || self.shared.is_broken() && !self.is_in_time(sent_at) {
            return;
        }
        (self.errors, self.errors_since) = (0, None);
        if self.trial.take().is_some() {
            self.shared.set_failing(None);
            self.shared.stats.trouble.clear_failure(&self.address);
            self.shared.set_broken(false);
        }
    }

    /// Whether the reply that was just received came in time for a call sent at `sent_at`.
    pub(super) fn is_in_time(&self, sent_at: Instant) -> bool {
        self.received_at.saturating_duration_since(sent_at) <= self.shared.reply_timeout
    }

    /// Notes that a call on `key` was answered with an error.
    pub(super) fn note_error(&mut self, error: &ErrorReply, key: Key) {
        self.shared.stats.trouble.record_error(&self.address, error);
        let now = Instant::now();
        let since = *self.errors_since.get_or_insert(now);
        self.errors = self.errors.saturating_add(1);
        let lasts = now.saturating_duration_since(since) >= ERRORS_LAST;
        if self.was_useful && !lasts && self.errors < ERRORS_MAX {
            return;
        }
        self.reject_with(error);
        if self.trial.is_none() {
            self.trial = Some(Trial::new(key, Instant::now() + TRIAL_MIN));
            // The timer may be set for later.
            self.fires_at = None;
        }
    }

    /// Rejects writing requests with this error, from now on.
    fn reject_with(&self, error: &ErrorReply) {
        // Its text is in the log. Before the breaker opens, because the log asks why it has.
        let reason = format!("it replies with {}", error.code);
        self.shared
            .stats
            .trouble
            .record_failure(&self.address, &reason);
        self.shared.set_failing(Some(error.clone()));
    }

    /// Handles the reply to a trial that was sent at `sent_at`.
    pub(super) fn finish_trial(&mut self, sent_at: Instant, reply: &Reply) -> io::Result<()> {
        let Reply::Error(text) = reply else {
            self.note_success(sent_at, true);
            return Ok(());
        };
        match Rejection::read(text) {
            Rejection::NoScript => self.load(),
            // This node no longer serves the slot.
            Rejection::Elsewhere(_) => self.note_success(sent_at, true),
            Rejection::Unable(error) => self.fail_trial(sent_at, &error),
            Rejection::NotMaster(error) => {
                self.shared
                    .stats
                    .trouble
                    .record_error(&self.address, &error);
                return Err(io::Error::other(error.text.to_string()));
            }
        }
        Ok(())
    }

    /// Notes that a trial was answered with an error. A server that was silent is one that replies
    /// with errors now.
    fn fail_trial(&mut self, sent_at: Instant, error: &ErrorReply) {
        self.shared.stats.trouble.record_error(&self.address, error);
        if let Some(trial) = &mut self.trial {
            trial.pause = (trial.pause * 2).min(TRIAL_MAX);
            trial.at = Instant::now() + trial.pause;
        }
        if self.is_in_time(sent_at) {
            self.reject_with(error);
            self.shared.set_broken(false);
        }
    }
}
