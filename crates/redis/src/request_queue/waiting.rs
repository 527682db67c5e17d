//! The entries that wait for a connection, and the order in which they are sent.

use std::collections::{BTreeMap, VecDeque};

use tokio::time::{Duration, Instant};

use super::{Pending, QueueEntry};
use crate::failure::Failure;

/// Requests and commands that are not sent yet.
///
/// Requests that the server did not execute go first, since they were sent before all others; then
/// last steps and commands. If more requests wait than may be sent, the newest go first:
/// under a sustained overload, the oldest are close to their deadlines, so serving them first would
/// make every reply too late. Those of one batch, which have the same deadline, keep their order:
/// each takes the place of the newest of them.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Requests that were sent, and that the server did not execute, in their order.
    returned: VecDeque<Pending>,
    /// Commands, and the last steps of two-phase commits, whose other steps would be wasted if they
    /// were late.
    first: VecDeque<QueueEntry>,
    requests: VecDeque<Place>,
    /// The requests of each batch, by their start time, in their order.
    batches: BTreeMap<Instant, VecDeque<Pending>>,
    /// A lower bound of the start times of all callers; exact only after [`Waiting::expire`], so
    /// that it needs no search.
    oldest: Option<Instant>,
    /// Whether the task has ended.
    is_closed: bool,
}

/// The place of a request in the queue.
#[derive(Debug)]
enum Place {
    Alone(Pending),
    /// That of the oldest request of the batch that began then.
    OfBatch(Instant),
}

// === impl Waiting ===

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.returned.len() + self.first.len() + self.requests.len()
    }

    pub(super) fn push(&mut self, entry: QueueEntry) {
        self.oldest = [self.oldest, entry.since()].into_iter().flatten().min();
        match entry {
            QueueEntry::ScriptRequest(pending) if !pending.request.is_last_step() => {
                self.push_request(pending);
            }
            urgent => self.first.push_back(urgent),
        }
    }

    fn push_request(&mut self, pending: Pending) {
        let place = match pending.keeps_order {
            true => {
                let since = pending.since;
                self.batches.entry(since).or_default().push_back(pending);
                Place::OfBatch(since)
            }
            false => Place::Alone(pending),
        };
        self.requests.push_back(place);
    }

    /// Puts requests back that were sent, and that the server did not execute: behind those that it
    /// did not execute before them.
    pub(super) fn put_back(&mut self, requests: Vec<Pending>) {
        let since = requests.iter().map(|pending| pending.since);
        self.oldest = since.chain(self.oldest).min();
        self.returned.extend(requests);
    }

    /// Takes at most `most` entries.
    pub(super) fn take(&mut self, most: usize, into: &mut Vec<QueueEntry>) {
        let returned = self.returned.len().min(most);
        let sent_again = self.returned.drain(..returned);
        into.extend(sent_again.map(QueueEntry::ScriptRequest));
        let room = most - returned;
        let urgent = self.first.len().min(room);
        into.extend(self.first.drain(..urgent));
        let newest = self.requests.len().saturating_sub(room - urgent);
        for place in self.requests.drain(newest..) {
            let request = place.request(&mut self.batches);
            into.extend(request.map(QueueEntry::ScriptRequest));
        }
    }

    /// Fails all entries.
    pub(super) fn fail_all(&mut self, failure: &Failure) {
        let mut all = Vec::new();
        self.take(self.len(), &mut all);
        for entry in all {
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
        let is_late = |since: Instant| since + reply_timeout <= now;
        self.returned.retain_mut(|pending| {
            let is_late = is_late(pending.since);
            if is_late {
                pending.fail(failure);
            }
            !is_late
        });
        self.first.retain_mut(|entry| match entry {
            QueueEntry::ScriptRequest(pending) if is_late(pending.since) => {
                pending.fail(failure);
                false
            }
            _ => true,
        });
        self.requests.retain_mut(|place| {
            let is_late = is_late(place.since());
            if is_late {
                place.fail(&mut self.batches, failure);
            }
            !is_late
        });
        let returned = self.returned.iter().map(|pending| pending.since);
        let first = self.first.iter().filter_map(QueueEntry::since);
        let requests = self.requests.iter().map(Place::since);
        self.oldest = returned.chain(first).chain(requests).min();
    }
}

// === impl Place ===

impl Place {
    const fn since(&self) -> Instant {
        match self {
            Place::Alone(pending) => pending.since,
            Place::OfBatch(since) => *since,
        }
    }

    /// The request whose turn it is here.
    fn request(self, batches: &mut BTreeMap<Instant, VecDeque<Pending>>) -> Option<Pending> {
        match self {
            Place::Alone(pending) => Some(pending),
            Place::OfBatch(since) => next_of_batch(batches, since),
        }
    }

    fn fail(&mut self, batches: &mut BTreeMap<Instant, VecDeque<Pending>>, failure: &Failure) {
        match self {
            Place::Alone(pending) => pending.fail(failure),
            Place::OfBatch(since) => {
                if let Some(mut pending) = next_of_batch(batches, *since) {
                    pending.fail(failure);
                }
            }
        }
    }
}

/// Takes the oldest request of the batch that began at `since`.
fn next_of_batch(
    batches: &mut BTreeMap<Instant, VecDeque<Pending>>,
    since: Instant,
) -> Option<Pending> {
    let batch = batches.get_mut(&since)?;
    let next = batch.pop_front();
    if batch.is_empty() {
        batches.remove(&since);
    }
    next
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
            keeps_order: false,
            reply: Some(oneshot::channel().0),
        })
    }

    /// The same, of a batch.
    fn of_batch(number: u64, since: Instant) -> QueueEntry {
        match pending(number, Step::Decide, since) {
            QueueEntry::ScriptRequest(pending) => QueueEntry::ScriptRequest(Pending {
                keeps_order: true,
                ..pending
            }),
            command @ QueueEntry::Command { .. } => command,
        }
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

    /// Requests of others come between, and go before the older batch as before any other request.
    #[test]
    fn a_batch_keeps_its_order_however_few_may_be_sent() {
        let now = Instant::now();
        let later = now + TIMEOUT / 4;
        let mut waiting = Waiting::default();
        for number in [1, 2] {
            waiting.push(of_batch(number, now));
        }
        waiting.push(pending(10, Step::Decide, later));
        for number in [3, 4] {
            waiting.push(of_batch(number, now));
        }
        for number in [20, 21] {
            waiting.push(of_batch(number, later));
        }
        assert_eq!(waiting.len(), 7);
        assert_eq!(take(&mut waiting, 1), [20].map(Key::from_bits));
        assert_eq!(take(&mut waiting, 2), [1, 21].map(Key::from_bits));
        assert_eq!(take(&mut waiting, 2), [10, 2].map(Key::from_bits));
        waiting.push(of_batch(5, now));
        assert_eq!(take(&mut waiting, 1), [3].map(Key::from_bits));
        waiting.push(of_batch(30, later));
        waiting.expire(now + TIMEOUT, TIMEOUT, &Failure::OutcomeUnknown);
        assert_eq!(waiting.oldest(), Some(later));
        assert_eq!(take(&mut waiting, 9), [30].map(Key::from_bits));
        assert!(waiting.batches.is_empty());
    }

    #[test]
    fn requests_that_are_sent_again_keep_their_order_and_go_first() {
        let now = Instant::now();
        let mut waiting = Waiting::default();
        waiting.push(pending(5, Step::Decide, now));
        for numbers in [[1, 2], [3, 4]] {
            let again = numbers.map(|number| pending(number, Step::Decide, now));
            let again = again.into_iter().filter_map(|entry| match entry {
                QueueEntry::ScriptRequest(pending) => Some(pending),
                QueueEntry::Command { .. } => None,
            });
            waiting.put_back(again.collect());
        }
        waiting.push(pending(6, Step::Confirm { name: 1 }, now));
        assert_eq!(take(&mut waiting, 3), [1, 2, 3].map(Key::from_bits));
        assert_eq!(take(&mut waiting, 2), [4, 6].map(Key::from_bits));
        waiting.expire(now + TIMEOUT, TIMEOUT, &Failure::OutcomeUnknown);
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
