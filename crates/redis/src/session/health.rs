//! Whether the server still is what it was, and whether it does what it is asked.
//!
//! Once a second it is asked who it is: a primary that was demoted is left at once, and a
//! connection that a NAT or a firewall on the way has dropped is noticed before a
//! decision needs it.
//!
//! After [`ERRORS_MAX`] calls in a row that were answered with errors, requests that write are
//! turned away with the server's words, and a trial goes out now and then: a call like any other,
//! that takes a unit of a key of ours in the slot that failed. When it is answered, so are the
//! others.

use std::io;
use std::sync::Arc;

use tokio::time::{Duration, Instant};
use tollgate_core::Key;

use super::{Sent, Session};
use crate::connection::{Hello, write_hello};
use crate::failure::{ErrorReply, Rejection};
use crate::resp::Reply;
use crate::script_request::Plain;

/// Calls in a row that are answered with errors before the breaker opens.
const ERRORS_MAX: u32 = 8;
/// How long to wait before the first trial, and at most.
const TRIAL_MIN: Duration = Duration::from_millis(50);
const TRIAL_MAX: Duration = Duration::from_millis(500);
/// How often a server is asked who it is.
pub(super) const CHECK_EVERY: Duration = Duration::from_secs(1);

/// A call by which a server shows that it decides again.
pub(super) struct Trial {
    key: Key,
    /// When the next one goes out.
    pub(super) at: Instant,
    pause: Duration,
}

impl Session<'_> {
    /// Asks the server who it is, and tries it, if it is time for that.
    pub(super) fn check_up(&mut self, now: Instant) {
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
                trial.pause = (trial.pause * 2).min(TRIAL_MAX);
                trial.at = now + trial.pause;
                let request = Plain::trial(trial.key);
                self.task.caller.call_plain(&mut self.out, &[request]);
                self.push_call(Sent::Trial);
            }
            // It is on its way; the session gives up on a server that is silent.
            Some(trial) if trial.at <= now => trial.at = now + TRIAL_MIN,
            _ => {}
        }
    }

    /// The server says who it is.
    pub(super) fn check_identity(&self, reply: &Reply) -> io::Result<()> {
        match Hello::read(reply) {
            Ok(hello) => self.task.place.check(&hello),
            // A connection that was signed in stays so.
            Err(_) => Ok(()),
        }
    }

    /// A call was answered.
    pub(super) fn note_success(&mut self, wrote: bool) {
        self.was_useful = true;
        if wrote {
            self.errors = 0;
            if self.trial.take().is_some() {
                self.shared.set_failing(None);
            }
        }
    }

    /// A call on `key` was answered with an error.
    pub(super) fn note_error(&mut self, error: &ErrorReply, key: Key) {
        self.shared.stats.trouble.record_error(&self.address, error);
        self.errors = self.errors.saturating_add(1);
        if self.errors < ERRORS_MAX {
            return;
        }
        self.shared.set_failing(Some(Arc::clone(&error.text)));
        if self.trial.is_none() {
            self.trial = Some(Trial {
                key,
                at: Instant::now() + TRIAL_MIN,
                pause: TRIAL_MIN,
            });
            // The timer may be set for later.
            self.rings_at = None;
        }
    }

    /// What became of a trial.
    pub(super) fn finish_trial(&mut self, reply: &Reply) -> io::Result<()> {
        let Reply::Error(text) = reply else {
            self.note_success(true);
            return Ok(());
        };
        match Rejection::read(text) {
            Rejection::NoScript => self.load(),
            // The slot is no longer this node's concern.
            Rejection::Elsewhere(_) => self.note_success(true),
            Rejection::Unable(error) => self
                .shared
                .stats
                .trouble
                .record_error(&self.address, &error),
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
}
