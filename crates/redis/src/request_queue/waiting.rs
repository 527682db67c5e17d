//! The entries that wait for a connection, and the order in which they are sent.

use std::collections::VecDeque;

use tokio::time::{Duration, Instant};

use super::{Pending, QueueEntry};
use crate::failure::Failure;

/// Requests and commands that are not sent yet.
///
/// Last steps and commands go first. If more requests wait than may be sent, the newest go first:
/// under a sustained overload, the oldest are close to their deadlines, so serving them first would
/// make every reply too late.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Commands, and the last steps of requests that other calls have begun.
    first: VecDeque<QueueEntry>,
    requests: VecDeque<QueueEntry>,
    /// A lower bound of the start times of all callers; exact only after [`Waiting::expire`], so
    /// that it needs no search.
    oldest: Option<Instant>,
    /// Whether the task has ended.
    is_closed: bool,
}

// === impl Waiting ===

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.first.len() + self.requests.len()
    }

    pub(super) fn push(&mut self, entry: QueueEntry) {
        self.oldest = [self.oldest, entry.since()].into_iter().flatten().min();
        match entry.is_urgent() {
            true => self.first.push_back(entry),
            false => self.requests.push_back(entry),
        }
    }

    /// Puts a request back that was sent, and that the server did not execute.
    pub(super) fn put_back(&mut self, pending: Pending) {
        let since = Some(pending.since);
        self.oldest = [self.oldest, since].into_iter().flatten().min();
        self.first.push_front(QueueEntry::ScriptRequest(pending));
    }

    /// Takes at most `most` entries.
    pub(super) fn take(&mut self, most: usize, into: &mut Vec<QueueEntry>) {
        let urgent = self.first.len().min(most);
        into.extend(self.first.drain(..urgent));
        let newest = self.requests.len().saturating_sub(most - urgent);
        into.extend(self.requests.drain(newest..));
    }

    /// Fails all entries.
    pub(super) fn fail_all(&mut self, failure: &Failure) {
        for entry in self.first.drain(..).chain(self.requests.drain(..)) {
            match entry {
                QueueEntry::ScriptRequest(mut pending) => pending.fail(failure),
                QueueEntry::Command { reply, .. } => {
                    let _caller_has_gone = reply.send(Err(failure.clone()));
                }
            }
        }
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    pub(super) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// No caller here has waited since before this time.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.oldest.filter(|_| self.len() > 0)
    }

    /// Fails the requests past their deadline.
    pub(super) fn expire(&mut self, now: Instant, reply_timeout: Duration, failure: &Failure) {
        for queue in [&mut self.first, &mut self.requests] {
            queue.retain_mut(|entry| match entry {
                QueueEntry::ScriptRequest(pending) if pending.since + reply_timeout <= now => {
                    pending.fail(failure);
                    false
                }
                _ => true,
            });
        }
        let all = self.first.iter().chain(&self.requests);
        self.oldest = all.filter_map(QueueEntry::since).min();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tollgate_core::{Bill, Charge, Cost, Key, Limit, Span};

    use super::*;
    use crate::fit::FittedLimit;
    use crate::request_queue::Redirected;
    use crate::script_request::{ScriptRequest, Step};

    const TIMEOUT: Duration = Duration::from_millis(12);

    fn pending(number: u64, step: Step, since: Instant) -> QueueEntry {
        let limit = Limit::fixed_window(9, Span::DAY).expect("a day is a window");
        let fitted = FittedLimit::new(&limit).expect("a day is whole microseconds");
        let charge = Charge::new(Key::from_bits(u128::from(number)), &limit, Cost::ONE);
        let bill = Bill::new(&[charge]).expect("one charge is not too many");
        QueueEntry::ScriptRequest(Pending {
            request: ScriptRequest::step(step, &[(&bill.lines()[0], &fitted)]),
            slot: Some(0),
            redirected: Redirected::No,
            since,
            reply: Some(oneshot::channel().0),
        })
    }

    /// The keys of the entries taken.
    fn take(waiting: &mut Waiting, most: usize) -> Vec<Key> {
        let mut taken = Vec::new();
        waiting.take(most, &mut taken);
        let keys = taken.iter().map(|entry| match entry {
            QueueEntry::ScriptRequest(pending) => pending.request.keys()[0],
            QueueEntry::Command { .. } => Key::from_bits(0),
        });
        keys.collect()
    }

    #[test]
    fn the_newest_go_first_if_too_many_wait_and_last_steps_before_them() {
        let now = Instant::now();
        let mut waiting = Waiting::default();
        for number in 1..=4 {
            waiting.push(pending(number, Step::Decide, now));
        }
        waiting.push(pending(5, Step::Confirm { name: 1 }, now));
        assert_eq!(waiting.len(), 5);
        assert_eq!(take(&mut waiting, 3), [5, 3, 4].map(Key::from_bits));
        assert_eq!(take(&mut waiting, 3), [1, 2].map(Key::from_bits));
        assert_eq!(waiting.len(), 0);
    }

    #[test]
    fn those_who_waited_too_long_expire_wherever_they_wait() {
        let now = Instant::now();
        let mut waiting = Waiting::default();
        waiting.push(pending(1, Step::Decide, now));
        waiting.push(pending(2, Step::Confirm { name: 1 }, now));
        waiting.push(pending(3, Step::Decide, now + TIMEOUT));
        assert_eq!(waiting.oldest(), Some(now));
        waiting.expire(now + TIMEOUT, TIMEOUT, &Failure::OutcomeUnknown);
        assert_eq!(waiting.oldest(), Some(now + TIMEOUT));
        assert_eq!(take(&mut waiting, 3), [Key::from_bits(3)]);
        assert_eq!(waiting.oldest(), None);
    }
}
