//! Waiting for one's turn.
//!
//! Whoever waits for a key stands in a line, and only the first in it sleeps: until the limit's own
//! retry time, or until units come back by a refund. Nothing is charged before the first is
//! allowed, and then at once. A leaky bucket allows as many as its queue holds: these leave the
//! line and are held beside each other, each until its turn by the limiter's own clock. Whoever
//! leaves while it is held passes its turn on to those behind it, and the last turn of them goes
//! back to the bucket. So dropping the future at any point costs nothing, and no two leave in one
//! turn.

use std::fmt;
use std::future::Future;
use std::future::poll_fn;
use std::hash::Hash;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tollgate_core::{Algorithm, Clock, Cost, Decision, Grant, Key, Moment, Span, StoreError, Wait};

use super::Limiter;
use crate::queue::{Attempt, Entered, HeldPlace, Place, Turn};

/// Why waiting would not help.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotReady {
    /// The units exceed the limit's capacity: ask for fewer, or raise the burst.
    NeverFits,
    /// As many wait already as may. Nothing was charged. Come back later, or raise
    /// [`super::Builder::max_waiting`], up to [`crate::WAITING_MAX`] for all keys together.
    TooManyWaiting {
        /// How many may wait.
        max: usize,
    },
    /// The store had no answer; nothing was charged.
    Store(StoreError),
}

/// An allowed request that is held until its turn; dropped before, it leaves its turn to others.
struct Held<'l, C: Clock> {
    limiter: &'l Limiter<C>,
    key: Key,
    place: Option<HeldPlace<'l>>,
}

// === impl Limiter ===

impl<C: Clock> Limiter<C> {
    /// Takes one unit for `key` as soon as it is there; on tokio's timer.
    ///
    /// * **Fair**: first come, first served among those who wait for a key, counted from the first
    ///   poll that found nothing. A [`Limiter::check`] does not wait and may come between.
    /// * **Cancel-safe**: a future that is dropped before it is ready has charged nothing, and its
    ///   place goes to the next.
    /// * **No polling**: the first sleeps until its units are due or a [`Limiter::refund`] brings
    ///   them, the others until they are first.
    ///
    /// With a leaky bucket the request is held until its turn, also if it was admitted at once.
    ///
    /// # Errors
    ///
    /// [`NotReady`] if waiting would not help.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with its timer enabled, as everything that waits on it.
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

    /// As [`Limiter::until_ready`], for `units` at once.
    ///
    /// # Errors
    ///
    /// [`NotReady`] if waiting would not help.
    #[cfg(feature = "async")]
    pub async fn until_n_ready<K: Hash + ?Sized>(
        &self,
        key: &K,
        units: u64,
    ) -> Result<Grant, NotReady> {
        self.until_n_ready_with(key, units, tokio::time::sleep)
            .await
    }

    /// Takes `units` for `key` as soon as they are there, on any timer: `sleep` makes a future that
    /// is ready after a time on this limiter's clock.
    ///
    /// A `sleep` that ends too early costs another one; a unit never passes too early.
    ///
    /// # Errors
    ///
    /// [`NotReady`] if waiting would not help.
    pub async fn until_n_ready_with<K, S>(
        &self,
        key: &K,
        units: u64,
        sleep: impl Fn(Duration) -> S,
    ) -> Result<Grant, NotReady>
    where
        K: Hash + ?Sized,
        S: Future<Output = ()>,
    {
        if units > u64::from(self.limit.capacity()) {
            return Err(NotReady::NeverFits);
        }
        let key = self.keys.of(key);
        if self.queues.are_empty()
            && self.limit.algorithm() != Algorithm::LeakyBucket
            && let (Attempt::Done(done), _) = self.attempt(key, units)
        {
            return done;
        }
        match self.queues.enter(key, || self.attempt(key, units).0) {
            Entered::Done(done) => done,
            Entered::Held(allowed, place) => {
                self.hold(key, place, &sleep).await;
                allowed
            }
            Entered::Behind(place) => self.stand_in_line(key, units, place, &sleep).await,
            Entered::Full(max, turn) => {
                turn.into_iter().for_each(|turn| self.give_back(key, turn));
                Err(NotReady::TooManyWaiting { max })
            }
        }
    }

    /// Waits to be first, then for the units, then for the turn.
    async fn stand_in_line<S: Future<Output = ()>>(
        &self,
        key: Key,
        units: u64,
        place: Place<'_>,
        sleep: &impl Fn(Duration) -> S,
    ) -> Result<Grant, NotReady> {
        place.first().await;
        loop {
            place.forget_refund();
            match self.attempt(key, units) {
                (Attempt::Done(done), _) => return done,
                (Attempt::Held(allowed, turn), _) => {
                    if let Some(place) = place.hold(turn) {
                        self.hold(key, place, sleep).await;
                    }
                    return allowed;
                }
                (Attempt::Denied, wait) => {
                    let units_are_back = |context: &Context<'_>| place.poll_refund(context);
                    sleep_unless(sleep(wait.into()), units_are_back).await;
                }
            }
        }
    }

    /// Holds an allowed request until its turn, by the limiter's own clock: a timer may ring early.
    async fn hold<'l, S: Future<Output = ()>>(
        &'l self,
        key: Key,
        place: HeldPlace<'l>,
        sleep: &impl Fn(Duration) -> S,
    ) {
        let mut held = Held {
            limiter: self,
            key,
            place: Some(place),
        };
        while let Some(due) = held.due().await {
            let wait = due.since(self.now());
            if wait.is_zero() {
                break;
            }
            let has_moved = |context: &Context<'_>| match held.due_in(context) {
                Some(now_due) if now_due == due => Poll::Pending,
                _ => Poll::Ready(()),
            };
            sleep_unless(sleep(wait.into()), has_moved).await;
        }
        held.go();
    }

    /// One question to the limit; with a denial, how long until the units are there.
    fn attempt(&self, key: Key, units: u64) -> (Attempt<Result<Grant, NotReady>>, Span) {
        // Read first, so that a turn seems to end too early if anything, never too late.
        let now = match self.limit.algorithm() {
            Algorithm::LeakyBucket => self.now(),
            _ => Moment::ZERO,
        };
        let attempt = match self.store.check(&self.charge_of(key, Cost::Take(units))) {
            Err(error) => Attempt::Done(Err(NotReady::Store(error))),
            Ok(Decision::Allow(grant)) if grant.delay.is_zero() => Attempt::Done(Ok(grant)),
            Ok(Decision::Allow(grant)) => {
                let turn = Turn {
                    // Read again, so that nobody leaves early.
                    due: self.now() + grant.delay,
                    ends: now + grant.reset,
                    units,
                };
                Attempt::Held(Ok(grant), turn)
            }
            Ok(Decision::Deny(denial)) => match denial.wait {
                Wait::Never => Attempt::Done(Err(NotReady::NeverFits)),
                Wait::For(wait) => return (Attempt::Denied, wait),
            },
        };
        (attempt, Span::ZERO)
    }

    /// Gives the units of a turn back to the bucket, if nobody has been given a later one.
    ///
    /// If somebody has, by a `check`, the units stay taken until the turn is over: were they given
    /// back, the next request would be told to leave together with the last one.
    fn give_back(&self, key: Key, turn: Turn) {
        let newest = self.told(self.store.check(&self.charge_of(key, Cost::Peek(1))));
        let ends = self.now() + newest.reset();
        let interval = self.limit.interval().unwrap_or(Span::ZERO);
        if ends.since(turn.ends) >= interval {
            return;
        }
        let refund = self.charge_of(key, Cost::Refund(turn.units));
        // Counted if it fails; a drop has nobody to tell.
        let _refunded = self.told(self.store.check(&refund));
        self.queues.refund(key);
    }

    fn now(&self) -> Moment {
        self.store.clock().on(self.limit.timeline())
    }
}

/// Sleeps until `timer` rings or `is_over` says that there is no need to.
async fn sleep_unless(timer: impl Future<Output = ()>, is_over: impl Fn(&Context<'_>) -> Poll<()>) {
    let mut timer = pin!(timer);
    poll_fn(|context| match timer.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => is_over(context),
    })
    .await;
}

// === impl Held ===

impl<C: Clock> Held<'_, C> {
    async fn due(&self) -> Option<Moment> {
        poll_fn(|context| Poll::Ready(self.due_in(context))).await
    }

    fn due_in(&self, context: &Context<'_>) -> Option<Moment> {
        self.place.as_ref().and_then(|place| place.due(context))
    }

    /// The request's turn has come: its units are spent.
    fn go(&mut self) {
        if let Some(place) = self.place.take() {
            place.go();
        }
    }
}

impl<C: Clock> Drop for Held<'_, C> {
    fn drop(&mut self) {
        let place = self.place.take();
        let free = place.and_then(|place| place.cancel(self.limiter.now()));
        if let Some(turn) = free {
            self.limiter.give_back(self.key, turn);
        }
    }
}

// === impl NotReady ===

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotReady::NeverFits => f.write_str("more units than the limit ever holds"),
            NotReady::TooManyWaiting { max } => write!(f, "{max} wait already, and no more may"),
            NotReady::Store(_) => f.write_str("the store had no answer"),
        }
    }
}

impl std::error::Error for NotReady {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            NotReady::Store(source) => Some(source),
            _ => None,
        }
    }
}
