//! Who waits for a key, in order of arrival.
//!
//! A line for each key that somebody waits for. Only the first in a line asks the limit and sleeps;
//! the others are not woken before they are first. Leaving, whether served or dropped, wakes the
//! next. A lock is held for as long as it takes to look at a line, and while the one who comes to
//! an empty line asks: otherwise two who come at once could overtake each other.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use tollgate_core::Key;

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

/// Those who wait for one key; never empty.
#[derive(Default)]
struct Line {
    waiters: VecDeque<Waiter>,
    tickets: u64,
}

struct Waiter {
    ticket: u64,
    /// Whom to wake when this one is first; `None` until it was asked.
    waker: Option<Waker>,
}

/// A place in the line of a key; dropping it leaves the line.
pub(crate) struct Place<'q> {
    seat: Seat<'q>,
    key: Key,
    ticket: u64,
}

/// One of [`WAITING_MAX`]; dropping it gives it back.
struct Seat<'q>(&'q Queues);

/// What came of entering a line.
pub(crate) enum Entered<'q, T, P> {
    /// Nobody was waiting, and the first attempt was enough.
    Done(T),
    /// Nobody was waiting, and there is something to wait for.
    First(Place<'q>, P),
    /// Others wait already.
    Behind(Place<'q>),
    /// As many wait as may: this many. What the first attempt came to, if there was one, is undone
    /// by whoever made it.
    Full(usize, Option<P>),
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
        // Relaxed: who joins at the same moment has not come earlier.
        self.waiting.load(Ordering::Relaxed) == 0
    }

    /// Makes the first attempt if nobody waits for `key`, and otherwise joins the line.
    pub(crate) fn enter<T, P>(
        &self,
        key: Key,
        attempt: impl FnOnce() -> ControlFlow<T, P>,
    ) -> Entered<'_, T, P> {
        let mut lines = self.lines(key);
        let before = lines.get(&key).map_or(0, |line| line.waiters.len());
        let pending = match before {
            0 => match attempt() {
                ControlFlow::Break(done) => return Entered::Done(done),
                ControlFlow::Continue(pending) => Some(pending),
            },
            _ => None,
        };
        if before >= self.waiting_per_key_max {
            return Entered::Full(self.waiting_per_key_max, pending);
        }
        let Some(seat) = self.seat() else {
            return Entered::Full(WAITING_MAX, pending);
        };
        let ticket = lines.entry(key).or_default().join();
        let place = Place { seat, key, ticket };
        match pending {
            Some(pending) => Entered::First(place, pending),
            None => Entered::Behind(place),
        }
    }

    fn seat(&self) -> Option<Seat<'_>> {
        // Relaxed: a count that publishes nothing.
        let taken = self
            .waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
                (waiting < WAITING_MAX).then_some(waiting + 1)
            });
        taken.ok().map(|_| Seat(self))
    }

    fn lines(&self, key: Key) -> MutexGuard<'_, HashMap<Key, Line>> {
        let [byte, ..] = key.bits().to_le_bytes();
        let shard = &self.shards[usize::from(byte) % SHARDS];
        // A panic elsewhere leaves every line whole: each change of one is a single call.
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Line ===

impl Line {
    fn join(&mut self) -> u64 {
        let ticket = self.tickets;
        self.tickets += 1;
        self.waiters.push_back(Waiter {
            ticket,
            waker: None,
        });
        ticket
    }

    /// Takes one out; the waker of the next if it was the first.
    fn leave(&mut self, ticket: u64) -> Option<Waker> {
        // Tickets ascend, so the line is sorted.
        let place = self
            .waiters
            .binary_search_by_key(&ticket, |waiter| waiter.ticket);
        let place = place.ok()?;
        self.waiters.remove(place);
        let next = self.waiters.front_mut().filter(|_| place == 0);
        next.and_then(|next| next.waker.take())
    }
}

// === impl Place ===

impl Place<'_> {
    /// Waits until nobody is in front.
    pub(crate) async fn first(&self) {
        poll_fn(|context| {
            let mut lines = self.seat.0.lines(self.key);
            let Some(line) = lines.get_mut(&self.key) else {
                return Poll::Ready(());
            };
            if line
                .waiters
                .front()
                .is_none_or(|first| first.ticket == self.ticket)
            {
                return Poll::Ready(());
            }
            let own = line
                .waiters
                .binary_search_by_key(&self.ticket, |waiter| waiter.ticket);
            if let Ok(own) = own {
                line.waiters[own].waker = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = self.seat.0.lines(self.key);
        let Some(line) = lines.get_mut(&self.key) else {
            return;
        };
        let next = line.leave(self.ticket);
        if line.waiters.is_empty() {
            lines.remove(&self.key);
        }
        drop(lines);
        // Not under the lock: a waker may run anything.
        if let Some(next) = next {
            next.wake();
        }
    }
}

// === impl Seat ===

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
