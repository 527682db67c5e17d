//! The waiters for each key, in order of arrival.
//!
//! There is a line for each key that has waiters. Only the first in a line asks the limit and
//! sleeps; the others are not woken before they are first. Leaving the line, allowed or dropped,
//! wakes the next, and so do units that come back. Whoever is allowed by a leaky bucket leaves the
//! line and is held beside the others until its turn, so that turns cost no more than one timer
//! together. A lock is held for as long as it takes to look at a line, and during the first attempt
//! of a waiter that comes to an empty line: otherwise two that come at once could overtake each
//! other.

mod line;

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tollgate_core::{Key, Moment};

use line::{Line, Released};

pub(crate) use line::Turn;

/// The most that wait for one key unless the limiter says otherwise.
pub(crate) const WAITING_PER_KEY: usize = 1024;
/// The most that wait in one limiter, for all keys together.
pub const WAITING_MAX: usize = 1 << 16;
/// Locks, so that keys seldom meet at one.
const SHARDS: usize = 16;

/// The lines of one limiter.
pub(crate) struct Queues {
    shards: [Mutex<HashMap<Key, Line>>; SHARDS],
    waiting: AtomicUsize,
    waiting_per_key_max: usize,
}

/// What asking the limit came to.
pub(crate) enum Attempt<T> {
    /// Allowed at once, or there is no use in waiting.
    Done(T),
    /// Allowed and charged, to be held until the turn comes.
    Held(T, Turn),
    /// Denied: worth another attempt at this moment.
    Denied(Moment),
}

/// A place in the line of a key; dropping it leaves the line.
pub(crate) struct Place<'q> {
    seat: Option<Seat<'q>>,
    key: Key,
    ticket: u64,
}

/// A turn in a leaky bucket, held for the request that was allowed.
pub(crate) struct HeldPlace<'q> {
    seat: Seat<'q>,
    key: Key,
    ticket: u64,
}

/// One of [`WAITING_MAX`]; dropping it gives it back.
struct Seat<'q>(&'q Queues);

/// The result of entering a line.
pub(crate) enum Entered<'q, T> {
    /// The line was empty, and the first attempt was enough.
    Done(T),
    /// The line was empty; allowed, and held until its turn.
    Held(T, HeldPlace<'q>),
    /// The first attempt was denied, or others wait already.
    Behind(Place<'q>),
    /// As many wait as may: this many. A turn that the first attempt was given is the caller's to
    /// give back.
    Full(usize, Option<Turn>),
}

// === impl Queues ===

impl Queues {
    pub(crate) fn new(waiting_per_key_max: usize) -> Queues {
        Queues {
            shards: Default::default(),
            waiting: AtomicUsize::new(0),
            waiting_per_key_max,
        }
    }

    pub(crate) const fn waiting_per_key_max(&self) -> usize {
        self.waiting_per_key_max
    }

    /// Whether all lines are empty, as far as this thread can see without a lock.
    pub(crate) fn are_empty(&self) -> bool {
        // Relaxed: a waiter that joins at the same moment has not come earlier.
        self.waiting.load(Ordering::Relaxed) == 0
    }

    /// Makes the first attempt if `key` has no waiters, and otherwise joins the line.
    pub(crate) fn enter<T>(
        &self,
        key: Key,
        arrived: Moment,
        attempt: impl FnOnce() -> Attempt<T>,
    ) -> Entered<'_, T> {
        // Taken before the attempt: see `refund`.
        let seat = self.seat();
        let mut lines = self.lines(key);
        let line = lines.get(&key);
        let before = line.map_or(0, Line::len);
        let turn = match line.is_some_and(Line::has_waiters) {
            true => None,
            false => match attempt() {
                Attempt::Done(done) => return Entered::Done(done),
                Attempt::Held(held, turn) => Some((held, turn)),
                Attempt::Denied(_) => None,
            },
        };
        let max = match &seat {
            None => WAITING_MAX,
            Some(_) if before >= self.waiting_per_key_max => self.waiting_per_key_max,
            Some(_) => usize::MAX,
        };
        let (Some(seat), true) = (seat, before < max) else {
            return Entered::Full(max, turn.map(|(_, turn)| turn));
        };
        let line = lines.entry(key).or_default();
        match turn {
            Some((held, turn)) => {
                let ticket = line.hold(turn);
                Entered::Held(held, HeldPlace { seat, key, ticket })
            }
            None => {
                let (ticket, seat) = (line.join(arrived), Some(seat));
                Entered::Behind(Place { seat, key, ticket })
            }
        }
    }

    /// Units of `key` came back: the first in its line asks again.
    ///
    /// Either this sees the seat of a waiter, or the waiter's attempt sees the units: a seat is
    /// taken before the attempt and looked for after the refund, with a fence between in both.
    pub(crate) fn refund(&self, key: Key) {
        fence(Ordering::SeqCst);
        if !self.are_empty() {
            self.change(key, |line| ((), line.refund()));
        }
    }

    /// The limit has changed: the first in every line asks again.
    pub(crate) fn wake_all(&self) {
        for shard in &self.shards {
            let mut lines = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let woken: Vec<Released> = lines.values_mut().map(Line::refund).collect();
            drop(lines);
            woken.into_iter().for_each(Released::release);
        }
    }

    fn seat(&self) -> Option<Seat<'_>> {
        // Relaxed: a count that publishes nothing; its order with the store's is the fence's.
        let taken = self
            .waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
                (waiting < WAITING_MAX).then_some(waiting + 1)
            });
        fence(Ordering::SeqCst);
        taken.ok().map(|_| Seat(self))
    }

    /// Changes the line of `key`, if there is one, and removes it if it is empty then.
    fn change<T>(&self, key: Key, change: impl FnOnce(&mut Line) -> (T, Released)) -> Option<T> {
        let mut lines = self.lines(key);
        let line = lines.get_mut(&key)?;
        let (answer, released) = change(line);
        if line.is_empty() {
            lines.remove(&key);
        }
        drop(lines);
        released.release();
        Some(answer)
    }

    fn lines(&self, key: Key) -> MutexGuard<'_, HashMap<Key, Line>> {
        let [byte, ..] = key.bits().to_le_bytes();
        let shard = &self.shards[usize::from(byte) % SHARDS];
        // A panic elsewhere leaves every line whole: each change of one is a single call.
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Place ===

impl<'q> Place<'q> {
    /// Waits until this is the first in line; returns the moment from which on units may be taken.
    pub(crate) async fn first(&self) -> Moment {
        poll_fn(|context| self.poll(|line| line.is_first(self.ticket, context))).await;
        let mut from = Moment::ZERO;
        self.poll(|line| {
            from = line.served_from(self.ticket);
            (true, Released::default())
        })
        .is_ready();
        from
    }

    /// Called by the first in line when it was allowed as of `served`: the next one's units are
    /// due after that.
    pub(crate) fn serve_next_from(&self, served: Moment) {
        self.poll(|line| {
            line.serve_next_from(served);
            (true, Released::default())
        })
        .is_ready();
    }

    /// Ready once units have come back since [`Place::forget_refund`].
    pub(crate) fn poll_refund(&self, context: &Context<'_>) -> Poll<()> {
        self.poll(|line| line.has_refund(self.ticket, context))
    }

    /// Called by the first in line before it asks.
    pub(crate) fn forget_refund(&self) {
        self.poll(|line| {
            line.forget_refund();
            (true, Released::default())
        })
        .is_ready();
    }

    /// Leaves the line, allowed, to be held until its turn.
    pub(crate) fn hold(mut self, turn: Turn) -> Option<HeldPlace<'q>> {
        let (seat, key) = (self.seat.take()?, self.key);
        let (ticket, next) = {
            let mut lines = seat.0.lines(key);
            let line = lines.entry(key).or_default();
            // In this order, so that the next in line has a later turn.
            (line.hold(turn), line.leave(self.ticket))
        };
        next.release();
        Some(HeldPlace { seat, key, ticket })
    }

    fn poll(&self, look: impl FnOnce(&mut Line) -> (bool, Released)) -> Poll<()> {
        let seen = self
            .seat
            .as_ref()
            .and_then(|seat| seat.0.change(self.key, look));
        match seen {
            Some(false) => Poll::Pending,
            Some(true) | None => Poll::Ready(()),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(seat) = &self.seat {
            seat.0
                .change(self.key, |line| ((), line.leave(self.ticket)));
        }
    }
}

// === impl HeldPlace ===

impl HeldPlace<'_> {
    /// When the turn comes; `context` is woken if it comes nearer.
    pub(crate) fn due(&self, context: &Context<'_>) -> Option<Moment> {
        let queues = self.seat.0;
        let turn = queues.change(self.key, |line| line.turn(self.ticket, context));
        turn.flatten().map(|turn| turn.due)
    }

    /// The turn has come: the units are spent.
    pub(crate) fn go(&self) {
        let queues = self.seat.0;
        queues.change(self.key, |line| ((), line.go(self.ticket)));
    }

    /// Passes the turn on to those behind; returns the turn that is free then, if it is still to
    /// come.
    pub(crate) fn cancel(&self, now: Moment) -> Option<Turn> {
        let queues = self.seat.0;
        let free = queues.change(self.key, |line| line.cancel(self.ticket, now));
        free.flatten()
    }
}

// === impl Seat ===

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
