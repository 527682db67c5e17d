//! Waiting for units instead of being denied.
//!
//! The waiters for a key form a line. Only the first sleeps, until its units are due or until a
//! refund. Nothing is charged before it is allowed.
//!
//! Timers fire late, by a millisecond or more. For a token bucket, the decision for the first in
//! line is therefore made as of the moment at which its units were due, not the moment at which its
//! timer fired, and the next in line is due one interval later. So a late timer delays a request
//! but loses no units, and the limit's full rate is reached whatever the timer's resolution.
//! [`LATENESS_MAX`] bounds how far a decision is backdated: after a longer stall, the units that
//! fell due in the meantime are lost, as they would be without waiters.
//!
//! A leaky bucket allows as many requests as its queue holds. They leave the line, and each is held
//! until its turn by the limiter's clock. If a held request is cancelled, those behind it move up
//! by one turn, and the last turn is refunded to the bucket. So dropping the future costs nothing,
//! with the exceptions that `until_ready` lists, and no two held requests share a turn, unless a
//! [`Limiter::refund`] frees one that is held.

mod held;
#[cfg(feature = "tower")]
mod in_turn;

use std::future::Future;
use std::future::poll_fn;
use std::hash::Hash;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tollgate_core::{
    Algorithm, Clock, Cost, Decision, Grant, Key, Limit, Moment, Now, Span, StoreError, Wait,
};

use super::{Limiter, NotReady, Terms};
use crate::queue::{Attempt, Entry, Place, Turn};

/// The maximum by which a decision is backdated to the moment at which its units were due: several
/// timer ticks.
const LATENESS_MAX: Span = Span::from_millis(10);

// === impl Limiter ===

impl<C: Clock> Limiter<C> {
    /// Consumes one unit of `key` as soon as it fits, on tokio's timer.
    ///
    /// * **Fair**: first come, first served among the waiters for a key, counted from the first
    ///   poll that was denied. A [`Limiter::check`] does not wait and may come in between.
    /// * **Cancel-safe**: a future that is dropped before it is ready charges nothing, and the next
    ///   in line moves up. A leaky bucket has exceptions, which are listed below.
    /// * **No polling**: the first in line sleeps until its units are due or a [`Limiter::refund`]
    ///   provides them, the others until they are first.
    /// * **At the limit's full rate**: a timer that fires up to 10 ms late loses no units of a
    ///   token bucket, nor of a leaky bucket with a queue of 2 or more.
    /// * **Bounded**: 1 024 may wait for a key unless [`super::Builder::max_waiting`] says
    ///   otherwise, and [`crate::WAITING_MAX`] for all keys of a limiter; the next one gets
    ///   [`NotReady::TooManyWaiting`].
    ///
    /// # Leaky buckets
    ///
    /// The request is held until its turn, even if it is allowed at once; the grant that is
    /// returned then has no delay left. If a request is dropped while it is held, those behind it
    /// move up by one turn, and the last turn is free again. Its units stay charged if
    ///
    /// * a [`Limiter::check`] was given a later turn,
    /// * a request for another number of units is held behind it,
    /// * its turn has come, and it was not polled since, and another request is held behind it, or
    /// * the limit was replaced since it was allowed.
    ///
    /// # Errors
    ///
    /// [`NotReady`] if waiting would not help.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with an enabled timer.
    ///
    /// # Example
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), tollgate::NotReady> {
    /// use tollgate::{Limit, Limiter, TokioClock};
    ///
    /// let limiter = Limiter::builder(Limit::per_second(2)).clock(TokioClock::new()).build();
    /// for _page in 0..5 {
    ///     limiter.until_ready("crawler").await?;
    ///     // fetch
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "async")]
    pub async fn until_ready<K: Hash + ?Sized>(&self, key: &K) -> Result<Grant, NotReady> {
        self.until_n_ready_with(key, 1, tokio::time::sleep).await
    }

    /// As [`Limiter::until_ready`], for `units` at once; 0 waits until one unit fits, and consumes
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`NotReady`] if waiting would not help.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with an enabled timer.
    #[cfg(feature = "async")]
    pub async fn until_n_ready<K: Hash + ?Sized>(
        &self,
        key: &K,
        units: u64,
    ) -> Result<Grant, NotReady> {
        self.until_n_ready_with(key, units, tokio::time::sleep)
            .await
    }

    /// As `until_ready`, on any timer; see [`Limiter::until_n_ready_with`].
    ///
    /// # Errors
    ///
    /// [`NotReady`] if waiting would not help.
    pub async fn until_ready_with<K, S>(
        &self,
        key: &K,
        sleep: impl Fn(Duration) -> S,
    ) -> Result<Grant, NotReady>
    where
        K: Hash + ?Sized,
        S: Future,
    {
        self.until_n_ready_with(key, 1, sleep).await
    }

    /// Consumes `units` of `key` as soon as they fit, on any timer: `sleep` returns a future that
    /// is ready after a span on this limiter's clock, such as tokio's `sleep` or smol's
    /// `Timer::after`. 0 units are as in `until_n_ready`: it waits until one fits, and consumes
    /// nothing.
    ///
    /// A `sleep` that ends too early is repeated; no unit is consumed too early.
    ///
    /// # Errors
    ///
    /// [`NotReady`] if waiting would not help.
    ///
    /// # Example
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), tollgate::NotReady> {
    /// use tollgate::{Limit, Limiter, ManualClock};
    ///
    /// let limiter = Limiter::builder(Limit::per_second(2)).clock(ManualClock::default()).build();
    /// for _page in 0..5 {
    ///     // Advances the clock instead of sleeping.
    ///     let sleep = |span| std::future::ready(limiter.clock().advance(span));
    ///     limiter.until_ready_with("crawler", sleep).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn until_n_ready_with<K, S>(
        &self,
        key: &K,
        units: u64,
        sleep: impl Fn(Duration) -> S,
    ) -> Result<Grant, NotReady>
    where
        K: Hash + ?Sized,
        S: Future,
    {
        let key = self.keys.of(key);
        match self.take_at_once(key, units) {
            Some(done) => done,
            // Boxed, so that the future of a call that does not wait is small.
            None => Box::pin(self.enter_line(key, units, sleep)).await,
        }
    }

    /// Consumes `units` once they fit, after those who came before.
    async fn enter_line<S: Future>(
        &self,
        key: Key,
        units: u64,
        sleep: impl Fn(Duration) -> S,
    ) -> Result<Grant, NotReady> {
        let arrived = self.store.clock().now().monotonic;
        let first_attempt = || self.attempt(key, units, None);
        let give_back = |turn| self.give_back(key, turn);
        match self.queues.enter(key, arrived, first_attempt, give_back) {
            Entry::Done(done) => done,
            Entry::Held(allowed, place) => {
                self.hold(key, place, &sleep).await;
                allowed
            }
            Entry::Behind(place) => self.wait_in_line(key, units, place, &sleep).await,
            Entry::Full(max) => Err(NotReady::TooManyWaiting { max }),
        }
    }

    /// Consumes `units` if they fit now and nobody waits. `None` if there may be something to wait
    /// for, and then nothing was charged.
    ///
    /// Nearly every call of a limiter that keeps up with its callers ends here. It is therefore
    /// inlined, and costs one decision at one reading of the clock.
    #[inline(always)]
    fn take_at_once(&self, key: Key, units: u64) -> Option<Result<Grant, NotReady>> {
        match self.terms.first() {
            Some(terms) => self.take_under(terms, key, units),
            None => self.take_under_replaced(key, units),
        }
    }

    #[inline(never)]
    fn take_under_replaced(&self, key: Key, units: u64) -> Option<Result<Grant, NotReady>> {
        self.take_under(&self.terms.load(), key, units)
    }

    #[inline(always)]
    fn take_under(&self, terms: &Terms, key: Key, units: u64) -> Option<Result<Grant, NotReady>> {
        if units > u64::from(terms.limit.available()) {
            return Some(Err(NotReady::NeverFits));
        }
        // What a leaky bucket allows may have to be held, which takes a place.
        if terms.limit.algorithm() == Algorithm::LeakyBucket || !self.queues.are_empty() {
            return None;
        }
        match self.store.check(&terms.charge(key, Cost::Take(units))) {
            Ok(Decision::Allow(grant)) => Some(Ok(grant)),
            Ok(Decision::Deny(_)) | Err(StoreError::Superseded) => None,
            Err(error) => Some(Err(NotReady::Store(error))),
        }
    }

    /// Waits to be first in line, then for the units, then for its turn.
    async fn wait_in_line<S: Future>(
        &self,
        key: Key,
        units: u64,
        mut place: Place<'_>,
        sleep: &impl Fn(Duration) -> S,
    ) -> Result<Grant, NotReady> {
        let mut due = place.first().await;
        loop {
            place.forget_refund();
            let (attempted, held) = place.attempt(|| self.attempt(key, units, Some(due)));
            match attempted {
                Attempt::Done(done) => {
                    place.serve_next_from(due);
                    return done;
                }
                Attempt::Held(allowed, _) => {
                    if let Some(place) = held {
                        self.hold(key, place, sleep).await;
                    }
                    return allowed;
                }
                Attempt::Denied(at) => {
                    due = at;
                    let wait = due.since(self.now(&self.limit()));
                    // Due already: its units were available before the timer of the waiter in
                    // front.
                    if !wait.is_zero() {
                        let has_changed = |context: &Context<'_>| place.poll_refund(context);
                        sleep_unless(sleep(wait.into()), has_changed).await;
                    }
                }
            }
        }
    }

    /// Makes one decision; for a token bucket, as of `due`.
    ///
    /// No decision is dated in the future, nor backdated by more than [`LATENESS_MAX`].
    fn attempt(
        &self,
        key: Key,
        units: u64,
        due: Option<Moment>,
    ) -> Attempt<Result<Grant, NotReady>> {
        let terms = self.terms.load();
        let mut now = self.store.clock().now();
        if let (Algorithm::TokenBucket, Some(due)) = (terms.limit.algorithm(), due) {
            now.monotonic = due.min(now.monotonic).max(now.monotonic - LATENESS_MAX);
        }
        // For a leaky bucket too, so that the end of its turn is exact; see `give_back`.
        let as_of = terms.limit.is_bucket().then_some(now);
        let decision = self.try_decide(key, Cost::Take(units), as_of);
        self.outcome_of(decision, units, &terms, now)
    }

    /// What a decision made at `now` or, for a window, slightly later means for the waiter. `terms`
    /// were in effect before it, so that no turn is of an earlier limit than it says.
    fn outcome_of(
        &self,
        decision: Result<Decision, StoreError>,
        units: u64,
        terms: &Terms,
        now: Now,
    ) -> Attempt<Result<Grant, NotReady>> {
        match decision {
            Err(error) => Attempt::Done(Err(NotReady::Store(error))),
            Ok(Decision::Allow(grant)) if grant.delay.is_zero() => Attempt::Done(Ok(grant)),
            Ok(Decision::Allow(mut grant)) => {
                let turn = Turn {
                    due: now.monotonic + grant.delay,
                    ends: now.monotonic + grant.reset,
                    units,
                    revision: terms.revision(),
                };
                // It is returned after the hold.
                grant.delay = Span::ZERO;
                Attempt::Held(Ok(grant), turn)
            }
            Ok(Decision::Deny(denial)) => match denial.wait {
                Wait::Never => Attempt::Done(Err(NotReady::NeverFits)),
                Wait::For(wait) => Attempt::Denied(match terms.limit.is_bucket() {
                    true => now.monotonic + wait,
                    false => self.now(&terms.limit) + wait,
                }),
            },
        }
    }

    /// The time on the clock of this limit.
    fn now(&self, limit: &Limit) -> Moment {
        self.store.clock().on(limit.timeline())
    }
}

/// Sleeps until `timer` fires or `is_over` is ready.
pub(crate) async fn sleep_unless(timer: impl Future, is_over: impl Fn(&Context<'_>) -> Poll<()>) {
    let mut timer = pin!(timer);
    poll_fn(|context| match timer.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(()),
        Poll::Pending => is_over(context),
    })
    .await;
}
