//! The waiters for one key: in line until they are allowed, then held until their turn.

use std::collections::VecDeque;
use std::task::{Context, Waker};

use tollgate_core::Moment;

/// All waiters for one key.
#[derive(Default)]
pub(super) struct Line {
    /// Not allowed yet, in order of arrival.
    waiting: VecDeque<Waiter>,
    /// Allowed by a leaky bucket and held until their turn, in the order of their turns. One that
    /// never was in line may stand before one from the line that was given an earlier turn.
    held: VecDeque<Held>,
    tickets: u64,
    /// Whether units were refunded since the last attempt of the first in line.
    has_refund: bool,
    /// The moment as of which the last waiter that left the line was allowed.
    served: Moment,
}

/// A turn in a leaky bucket: when it comes, and which units it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// When the request may proceed, by the limiter's clock.
    pub(crate) due: Moment,
    /// When the units of this turn will have left the bucket.
    pub(crate) ends: Moment,
    /// The units consumed.
    pub(crate) units: u64,
    /// The revision of the limit that gave it.
    pub(crate) revision: u8,
}

struct Waiter {
    ticket: u64,
    arrived: Moment,
    /// Woken when this waiter becomes first or units are refunded; `None` until the first poll.
    waker: Option<Waker>,
}

struct Held {
    ticket: u64,
    turn: Turn,
    /// Woken when the turn moves nearer; `None` until the first poll.
    waker: Option<Waker>,
}

/// Wakers to wake or drop after the lock is released, because either may run arbitrary code.
#[derive(Default)]
#[must_use = "a waker that is not called leaves its task asleep"]
pub(super) struct Released {
    to_wake: Vec<Waker>,
    to_drop: Vec<Waker>,
}

// === impl Line ===

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.held.is_empty()
    }

    pub(super) fn has_waiters(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.held.len()
    }

    /// Adds a waiter at the end of the line.
    pub(super) fn join(&mut self, arrived: Moment) -> u64 {
        if self.waiting.is_empty() {
            self.has_refund = false;
        }
        let ticket = self.ticket();
        let waker = None;
        self.waiting.push_back(Waiter {
            ticket,
            arrived,
            waker,
        });
        ticket
    }

    /// Holds an allowed request until its turn.
    pub(super) fn hold(&mut self, turn: Turn) -> u64 {
        let ticket = self.ticket();
        let waker = None;
        self.held.push_back(Held {
            ticket,
            turn,
            waker,
        });
        ticket
    }

    fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// Removes a waiter from the line; wakes the next if it was the first.
    pub(super) fn leave(&mut self, ticket: u64) -> Released {
        let mut released = Released::default();
        // Tickets ascend, so the line is sorted.
        let place = self
            .waiting
            .binary_search_by_key(&ticket, |waiter| waiter.ticket);
        if let Ok(place) = place {
            let own = self.waiting.remove(place);
            released.drop_later(own.and_then(|own| own.waker));
            let next = self.waiting.front_mut().filter(|_| place == 0);
            released.wake_later(next.and_then(|next| next.waker.take()));
        }
        released
    }

    /// Whether `ticket` is first in line; if not, wakes `context` when it is.
    pub(super) fn is_first(&mut self, ticket: u64, context: &Context<'_>) -> (bool, Released) {
        let mut released = Released::default();
        let is_first = self.first().is_none_or(|first| first == ticket);
        if !is_first {
            released.drop_later(self.watch(ticket, context));
        }
        (is_first, released)
    }

    /// Whether units were refunded since the last attempt of the first in line; if not, wakes
    /// `context` when they are.
    pub(super) fn has_refund(&mut self, ticket: u64, context: &Context<'_>) -> (bool, Released) {
        let mut released = Released::default();
        if !self.has_refund {
            released.drop_later(self.watch(ticket, context));
        }
        (self.has_refund, released)
    }

    /// The moment from which the first in line, which has this ticket, may consume units. They may
    /// have been available before it was woken, but this is not before it arrived, nor before the
    /// waiter in front of it was served.
    pub(super) fn start_of_service(&self, ticket: u64) -> Moment {
        let first = self.waiting.front().filter(|first| first.ticket == ticket);
        first.map_or(self.served, |first| first.arrived.max(self.served))
    }

    /// Records that the first in line was allowed as of this moment.
    pub(super) fn serve_next_from(&mut self, served: Moment) {
        self.served = self.served.max(served);
    }

    /// Called before an attempt: only refunds from now on need another one.
    pub(super) fn forget_refund(&mut self) {
        self.has_refund = false;
    }

    /// Units were refunded: wakes the first in line to ask again.
    pub(super) fn refund(&mut self) -> Released {
        let mut released = Released::default();
        if let Some(first) = self.waiting.front_mut() {
            self.has_refund = true;
            released.wake_later(first.waker.take());
        }
        released
    }

    /// The turn of a held request, which may have moved nearer; wakes `context` when it does.
    pub(super) fn turn(&mut self, ticket: u64, context: &Context<'_>) -> (Option<Turn>, Released) {
        let mut released = Released::default();
        let held = self
            .position_of_held(ticket)
            .and_then(|at| self.held.get_mut(at));
        let turn = held.map(|held| {
            let former = held.waker.replace(context.waker().clone());
            released.drop_later(former);
            held.turn
        });
        (turn, released)
    }

    /// Removes a held request that proceeds; its units are spent.
    pub(super) fn go(&mut self, ticket: u64) -> Released {
        let mut released = Released::default();
        let own = self
            .position_of_held(ticket)
            .and_then(|at| self.held.remove(at));
        released.drop_later(own.and_then(|own| own.waker));
        released
    }

    /// Removes a held request that was cancelled. Before its turn, each request behind it with the
    /// same number of units and of the same limit moves up by one turn; once its turn has come,
    /// they keep theirs, because the next would otherwise follow too soon. Returns the turn that
    /// becomes free, if it has not ended.
    ///
    /// Nothing is refunded to the bucket while turns move, so that no new request is given a turn
    /// that is taken.
    pub(super) fn cancel(&mut self, ticket: u64, now: Moment) -> (Option<Turn>, Released) {
        let mut released = Released::default();
        let Some(at) = self.position_of_held(ticket) else {
            return (None, released);
        };
        let Some(Held { turn, waker, .. }) = self.held.remove(at) else {
            return (None, released);
        };
        released.drop_later(waker);
        if turn.due <= now {
            let is_last = at == self.held.len();
            let free = Some(turn).filter(|turn| is_last && now < turn.ends);
            return (free, released);
        }
        let mut free = turn;
        for behind in self.held.range_mut(at..) {
            let is_like = |turn: &Turn| (turn.units, turn.revision) == (free.units, free.revision);
            if !is_like(&behind.turn) {
                break;
            }
            if behind.turn.due < free.due {
                continue;
            }
            std::mem::swap(&mut behind.turn, &mut free);
            released.wake_later(behind.waker.take());
        }
        (Some(free), released)
    }

    fn first(&self) -> Option<u64> {
        self.waiting.front().map(|first| first.ticket)
    }

    fn position_of_held(&self, ticket: u64) -> Option<usize> {
        self.held
            .binary_search_by_key(&ticket, |held| held.ticket)
            .ok()
    }

    /// Sets the waker of `context`; returns the one it replaces.
    fn watch(&mut self, ticket: u64, context: &Context<'_>) -> Option<Waker> {
        let own = self
            .waiting
            .binary_search_by_key(&ticket, |waiter| waiter.ticket);
        let own = own.ok().and_then(|own| self.waiting.get_mut(own))?;
        own.waker.replace(context.waker().clone())
    }
}

// === impl Released ===

impl Released {
    fn wake_later(&mut self, waker: Option<Waker>) {
        self.to_wake.extend(waker);
    }

    fn drop_later(&mut self, waker: Option<Waker>) {
        self.to_drop.extend(waker);
    }

    /// Wakes and drops the wakers; call it without holding the lock.
    pub(super) fn release(self) {
        self.to_wake.into_iter().for_each(Waker::wake);
        drop(self.to_drop);
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::Span;

    use super::*;

    fn turn(second: u64) -> Turn {
        let due = Moment::ZERO + Span::from_secs(second);
        let ends = due + Span::SECOND;
        Turn {
            due,
            ends,
            units: 1,
            revision: 0,
        }
    }

    #[test]
    fn no_turn_moves_later() {
        let mut line = Line::default();
        // The second is from the line, and was given its turn before the first came in between.
        let tickets = [6, 5, 7].map(|second| line.hold(turn(second)));
        let (free, _) = line.cancel(tickets[0], Moment::ZERO);
        assert_eq!(free, Some(turn(7)));
        let turns: Vec<Turn> = line.held.iter().map(|held| held.turn).collect();
        assert_eq!(turns, [turn(5), turn(6)]);
    }
}
