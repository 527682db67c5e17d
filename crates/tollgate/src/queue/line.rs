//! The waiters for one key: in line until they are allowed, then held until their turn.

use std::collections::VecDeque;
use std::task::{Context, Waker};

use tollgate_core::Moment;

/// All waiters for one key.
#[derive(Default)]
pub(super) struct Line {
    /// Not allowed yet, first come first.
    waiting: VecDeque<Waiter>,
    /// Allowed by a leaky bucket and held until their turn, in the order of their turns.
    held: VecDeque<Held>,
    tickets: u64,
    /// Whether units came back since the first in line asked last.
    has_refund: bool,
    /// The moment as of which the last one left the line, allowed.
    served: Moment,
}

/// A turn in a leaky bucket: when it comes, and which units it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// When the request may go on, by the limiter's clock.
    pub(crate) due: Moment,
    /// When the units of this turn have left the bucket; at most one clock reading too early.
    pub(crate) ends: Moment,
    /// The units taken.
    pub(crate) units: u64,
}

struct Waiter {
    ticket: u64,
    arrived: Moment,
    /// Woken when this waiter is first, or units come back; `None` until it was polled.
    waker: Option<Waker>,
}

struct Held {
    ticket: u64,
    turn: Turn,
    /// Woken when the turn comes earlier; `None` until it was polled.
    waker: Option<Waker>,
}

/// Wakers that are to be called, or dropped, once the lock is released: both may run anything.
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

    /// A place at the end of the line.
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

    /// Takes one out of the line; the next is woken if it was the first.
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

    /// Whether `ticket` is the first in line; if not, `context` is woken when it is.
    pub(super) fn is_first(&mut self, ticket: u64, context: &Context<'_>) -> (bool, Released) {
        let mut released = Released::default();
        let is_first = self.first().is_none_or(|first| first == ticket);
        if !is_first {
            released.drop_later(self.watch(ticket, context));
        }
        (is_first, released)
    }

    /// Whether units came back since the first in line asked last; if not, `context` is woken when
    /// they do.
    pub(super) fn has_refund(&mut self, ticket: u64, context: &Context<'_>) -> (bool, Released) {
        let mut released = Released::default();
        if !self.has_refund {
            released.drop_later(self.watch(ticket, context));
        }
        (self.has_refund, released)
    }

    /// The moment from which on the first in line, which has this ticket, may take units: they may
    /// have been there before it was woken, but not before it came nor before the one in front took
    /// its own.
    pub(super) fn served_from(&self, ticket: u64) -> Moment {
        let first = self.waiting.front().filter(|first| first.ticket == ticket);
        first.map_or(self.served, |first| first.arrived.max(self.served))
    }

    /// The first in line leaves it, allowed as of this moment.
    pub(super) fn serve_next_from(&mut self, served: Moment) {
        self.served = self.served.max(served);
    }

    /// The first in line is about to ask: what comes back from now on is news to it.
    pub(super) fn forget_refund(&mut self) {
        self.has_refund = false;
    }

    /// Units came back: the first in line asks again.
    pub(super) fn refund(&mut self) -> Released {
        let mut released = Released::default();
        if let Some(first) = self.waiting.front_mut() {
            self.has_refund = true;
            released.wake_later(first.waker.take());
        }
        released
    }

    /// The turn of a held request, which may have come nearer; `context` is woken when it does.
    pub(super) fn turn(&mut self, ticket: u64, context: &Context<'_>) -> (Option<Turn>, Released) {
        let mut released = Released::default();
        let held = self.held_at(ticket).and_then(|at| self.held.get_mut(at));
        let turn = held.map(|held| {
            let former = held.waker.replace(context.waker().clone());
            released.drop_later(former);
            held.turn
        });
        (turn, released)
    }

    /// A held request goes on, its units spent.
    pub(super) fn go(&mut self, ticket: u64) -> Released {
        let mut released = Released::default();
        let own = self.held_at(ticket).and_then(|at| self.held.remove(at));
        released.drop_later(own.and_then(|own| own.waker));
        released
    }

    /// A held request is gone before its turn: each behind it that takes as many units moves up to
    /// the turn before its own. The turn that is free then is returned, if it is still to come.
    ///
    /// Turns change hands and no unit goes back to the bucket meanwhile, so that the next
    /// request cannot be given a turn that is taken.
    pub(super) fn cancel(&mut self, ticket: u64, now: Moment) -> (Option<Turn>, Released) {
        let mut released = Released::default();
        let Some(at) = self.held_at(ticket) else {
            return (None, released);
        };
        let Some(Held { turn, waker, .. }) = self.held.remove(at) else {
            return (None, released);
        };
        released.drop_later(waker);
        if turn.due <= now {
            return (None, released);
        }
        let mut free = turn;
        for behind in self.held.range_mut(at..) {
            if behind.turn.units != free.units {
                break;
            }
            std::mem::swap(&mut behind.turn, &mut free);
            released.wake_later(behind.waker.take());
        }
        (Some(free), released)
    }

    fn first(&self) -> Option<u64> {
        self.waiting.front().map(|first| first.ticket)
    }

    fn held_at(&self, ticket: u64) -> Option<usize> {
        self.held
            .binary_search_by_key(&ticket, |held| held.ticket)
            .ok()
    }

    /// Wakes `context` from now on; the waker that it replaces.
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

    /// Wakes and drops them; call it with no lock held.
    pub(super) fn release(self) {
        self.to_wake.into_iter().for_each(Waker::wake);
        drop(self.to_drop);
    }
}
