//! The waiters for each key, in order of arrival.
//!
//! Each key with waiters has a line. Only the first in line asks the limit and sleeps; the others
//! are woken when they become first. A waiter that leaves the line, allowed or dropped, wakes the
//! next; a refund wakes the first. A waiter that a leaky bucket allows leaves the line and is held
//! until its turn, while the next one asks, so several can be held at once. The lock of a line is
//! held for short accesses, and while the limit is asked: by an attempt, so that nobody overtakes
//! another, and for a turn that is given back, so that nobody gets the same one meanwhile.

mod line;

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tollgate_core::{Key, Moment};

use line::{Line, Released};

pub(crate) use line::Turn;

/// The default maximum number of waiters for one key.
pub(crate) const WAITING_PER_KEY: usize = 1024;
/// The maximum number of waiters of one limiter, over all keys.
pub const WAITING_MAX: usize = 1 << 16;
/// The number of locks: enough that two keys seldom share one.
const SHARDS: usize = 16;

/// The lines of one limiter.
pub(crate) struct Queues {
    shards: [Mutex<HashMap<Key, Line>>; SHARDS],
    waiting: AtomicUsize,
    waiting_per_key_max: usize,
}

/// The outcome of asking the limit.
pub(crate) enum Attempt<T> {
    /// Allowed at once, or waiting would not help.
    Done(T),
    /// Allowed and charged, to be held until its turn.
    Held(T, Turn),
    /// Denied; the next attempt is worth making at this moment.
    Denied(Moment),
}

/// A place in a key's line. Dropping it leaves the line.
pub(crate) struct Place<'q> {
    seat: Option<Seat<'q>>,
    key: Key,
    ticket: u64,
}

/// A turn in a leaky bucket, held for an allowed request.
pub(crate) struct HeldPlace<'q> {
    seat: Seat<'q>,
    key: Key,
    ticket: u64,
}

/// One of the [`WAITING_MAX`] permits to wait. Dropping it returns it.
struct Seat<'q>(&'q Queues);

/// The result of entering a line.
pub(crate) enum Entry<'q, T> {
    /// The line was empty, and the first attempt settled it.
    Done(T),
    /// The line was empty, and the first attempt was allowed, to be held until its turn.
    Held(T, HeldPlace<'q>),
    /// The first attempt was denied, or others are waiting already.
    Behind(Place<'q>),
    /// The maximum number of waiters, which is this, has been reached.
    Full(usize),
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

    /// Whether all lines are empty, read without a lock and so possibly outdated.
    pub(crate) fn are_empty(&self) -> bool {
        // Relaxed: a waiter that joins concurrently has not arrived earlier.
        self.waiting.load(Ordering::Relaxed) == 0
    }

    /// Makes the first attempt if `key` has no waiters; otherwise joins the line.
    ///
    /// If there is no place to be held in, `give_back` gets the turn before anyone else in line is
    /// given the next one, and says whether it refunded its units.
    pub(crate) fn enter<T>(
        &self,
        key: Key,
        arrived: Moment,
        attempt: impl FnOnce() -> Attempt<T>,
        give_back: impl FnOnce(Turn) -> bool,
    ) -> Entry<'_, T> {
        // Taken before the attempt: see `refund`.
        let seat = self.seat();
        let mut lines = self.lines(key);
        let line = lines.get(&key);
        let before = line.map_or(0, Line::len);
        let turn = match line.is_some_and(Line::has_waiters) {
            true => None,
            false => match attempt() {
                Attempt::Done(done) => return Entry::Done(done),
                Attempt::Held(held, turn) => Some((held, turn)),
                Attempt::Denied(_) => None,
            },
        };
        let seat = match self.seat_behind(seat, before) {
            Ok(seat) => seat,
            Err(max) => {
                let turn = turn.map(|(_, turn)| turn);
                self.unlock_without_place(lines, key, turn, give_back);
                return Entry::Full(max);
            }
        };
        let line = lines.entry(key).or_default();
        match turn {
            Some((held, turn)) => {
                let ticket = line.hold(turn);
                Entry::Held(held, HeldPlace { seat, key, ticket })
            }
            None => {
                let (ticket, seat) = (line.join(arrived), Some(seat));
                Entry::Behind(Place { seat, key, ticket })
            }
        }
    }

    /// Makes an attempt that does not wait for units, and holds the turn that it is given. It may
    /// come before those in line, as every check may. `give_back` is that of [`Queues::enter`].
    ///
    /// # Errors
    ///
    /// The maximum number of waiters, if it is reached.
    #[cfg(feature = "tower")]
    pub(crate) fn enter_now<T>(
        &self,
        key: Key,
        attempt: impl FnOnce() -> (T, Option<Turn>),
        give_back: impl FnOnce(Turn) -> bool,
    ) -> Result<(T, Option<HeldPlace<'_>>), usize> {
        let seat = self.seat();
        let mut lines = self.lines(key);
        let (answer, turn) = attempt();
        let Some(turn) = turn else {
            return Ok((answer, None));
        };
        let others = lines.get(&key).map_or(0, Line::len);
        match self.seat_behind(seat, others) {
            Ok(seat) => {
                let ticket = lines.entry(key).or_default().hold(turn);
                Ok((answer, Some(HeldPlace { seat, key, ticket })))
            }
            Err(max) => {
                self.unlock_without_place(lines, key, Some(turn), give_back);
                Err(max)
            }
        }
    }

    /// Gives back the turn for which there is no place, and then unlocks the lines.
    fn unlock_without_place(
        &self,
        lines: MutexGuard<'_, HashMap<Key, Line>>,
        key: Key,
        turn: Option<Turn>,
        give_back: impl FnOnce(Turn) -> bool,
    ) {
        let is_refunded = turn.is_some_and(give_back);
        drop(lines);
        self.wake_if(is_refunded, key);
    }

    /// [`Queues::refund`], if units were refunded.
    fn wake_if(&self, is_refunded: bool, key: Key) {
        if is_refunded {
            self.refund(key);
        }
    }

    /// The seat, if it may be used behind so many others; otherwise the maximum.
    fn seat_behind<'q>(&self, seat: Option<Seat<'q>>, others: usize) -> Result<Seat<'q>, usize> {
        match seat {
            None => Err(WAITING_MAX),
            Some(_) if others >= self.waiting_per_key_max => Err(self.waiting_per_key_max),
            Some(seat) => Ok(seat),
        }
    }

    /// Units of `key` were refunded: wakes the first in its line to ask again.
    ///
    /// No wake-up is missed: a waiter takes its seat before its attempt, a refund looks for seats
    /// after refunding, and both have a fence in between. So either the refund sees the seat, or
    /// the attempt sees the units.
    pub(crate) fn refund(&self, key: Key) {
        fence(Ordering::SeqCst);
        if !self.are_empty() {
            self.change(key, |line| ((), line.refund()));
        }
    }

    /// The limit has changed: wakes the first in every line to ask again.
    pub(crate) fn wake_all(&self) {
        for shard in &self.shards {
            let mut lines = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let woken: Vec<Released> = lines.values_mut().map(Line::refund).collect();
            drop(lines);
            woken.into_iter().for_each(Released::release);
        }
    }

    fn seat(&self) -> Option<Seat<'_>> {
        // Relaxed: the fence orders this count with the store's accesses.
        let taken = self
            .waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
                (waiting < WAITING_MAX).then_some(waiting + 1)
            });
        fence(Ordering::SeqCst);
        taken.ok().map(|_| Seat(self))
    }

    /// Changes the line of `key`, if there is one, and removes it if that empties it.
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
        // A poisoned lock is harmless: each change of a line is a single call.
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Place ===

impl<'q> Place<'q> {
    /// Waits until this is first in line; returns the moment from which it may consume units.
    pub(crate) async fn first(&self) -> Moment {
        poll_fn(|context| self.poll(|line| line.is_first(self.ticket, context))).await;
        let mut from = Moment::ZERO;
        self.poll(|line| {
            from = line.start_of_service(self.ticket);
            (true, Released::default())
        })
        .is_ready();
        from
    }

    /// Called by the first in line when it was allowed as of `served`. The next one's units are due
    /// after that moment.
    pub(crate) fn serve_next_from(&self, served: Moment) {
        self.poll(|line| {
            line.serve_next_from(served);
            (true, Released::default())
        })
        .is_ready();
    }

    /// Ready once units have been refunded since [`Place::forget_refund`].
    pub(crate) fn poll_refund(&self, context: &Context<'_>) -> Poll<()> {
        self.poll(|line| line.has_refund(self.ticket, context))
    }

    /// Called by the first in line before each attempt.
    pub(crate) fn forget_refund(&self) {
        self.poll(|line| {
            line.forget_refund();
            (true, Released::default())
        })
        .is_ready();
    }

    /// Makes an attempt of the first in line while nobody else's turn moves. If it is given a turn,
    /// it leaves the line as allowed, for the place in which it is held until then.
    pub(crate) fn attempt<T>(
        &mut self,
        attempt: impl FnOnce() -> Attempt<T>,
    ) -> (Attempt<T>, Option<HeldPlace<'q>>) {
        let Some(Seat(queues)) = self.seat.as_ref() else {
            return (attempt(), None);
        };
        let key = self.key;
        let mut lines = queues.lines(key);
        let attempted = attempt();
        let Attempt::Held(_, turn) = &attempted else {
            return (attempted, None);
        };
        let line = lines.entry(key).or_default();
        // In this order, so that the next in line gets a later turn.
        let (ticket, next) = (line.hold(*turn), line.leave(self.ticket));
        drop(lines);
        next.release();
        let seat = self.seat.take();
        (attempted, seat.map(|seat| HeldPlace { seat, key, ticket }))
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
    /// The moment of the turn; wakes `context` if it moves nearer.
    pub(crate) fn due(&self, context: &Context<'_>) -> Option<Moment> {
        let queues = self.seat.0;
        let turn = queues.change(self.key, |line| line.turn(self.ticket, context));
        turn.flatten().map(|turn| turn.due)
    }

    /// Ends the hold because the turn has come; its units are spent.
    pub(crate) fn go(&self) {
        let queues = self.seat.0;
        queues.change(self.key, |line| ((), line.go(self.ticket)));
    }

    /// Passes the turn on to the requests behind. `give_back`, which is that of [`Queues::enter`],
    /// gets the turn that becomes free, if it has not ended.
    pub(crate) fn cancel(&self, now: Moment, give_back: impl FnOnce(Turn) -> bool) {
        let queues = self.seat.0;
        let is_refunded = queues.change(self.key, |line| {
            let (free, released) = line.cancel(self.ticket, now);
            (free.is_some_and(give_back), released)
        });
        queues.wake_if(is_refunded == Some(true), self.key);
    }
}

// === impl Seat ===

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
