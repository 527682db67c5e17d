//! Waiting for one's turn.
//!
//! Whoever waits for a key stands in a line, and only the first in it sleeps: exactly until its
//! turn, as the limit's own refusal or delay says. Nothing is charged before the first is admitted,
//! and then at once; only a leaky bucket admits and holds, and whoever leaves while it is held
//! gives its units back. So dropping the future at any point costs nothing, and the next takes
//! over.

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::ops::ControlFlow;
use std::time::Duration;

use tollgate_core::{Algorithm, Clock, Cost, Decision, Grant, Key, Span, StoreError, Wait};

use super::Limiter;
use crate::queue::{Entered, Place};

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

/// What the first in a line has to wait for.
enum Pending {
    /// Its units are not there yet.
    Refused(Span),
    /// It is admitted and charged, and held until its turn.
    Held(Grant),
}

/// Units that were charged for a request that is still held.
struct Held<'l, C: Clock> {
    limiter: &'l Limiter<C>,
    key: Key,
    units: u64,
}

// === impl Limiter ===

impl<C: Clock> Limiter<C> {
    /// Takes one unit for `key` as soon as it is there; on tokio's timer.
    ///
    /// * **Fair**: first come, first served among those who wait for a key, counted from the first
    ///   poll that found nothing. A [`Limiter::check`] does not wait and may come between.
    /// * **Cancel-safe**: a future that is dropped before it is ready has charged nothing, and its
    ///   place goes to the next.
    /// * **No polling**: the first sleeps until its turn, the others until they are first.
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
        let key = self.keys.of(key);
        if self.queues.are_empty()
            && self.limit.algorithm() != Algorithm::LeakyBucket
            && let ControlFlow::Break(done) = self.attempt(key, units)
        {
            return done;
        }
        let (_place, mut pending): (Place<'_>, Pending) =
            match self.queues.enter(key, || self.attempt(key, units)) {
                Entered::Done(done) => return done,
                Entered::First(place, pending) => (place, pending),
                Entered::Full(max, pending) => {
                    drop(pending.and_then(|pending| self.held(key, units, &pending)));
                    return Err(NotReady::TooManyWaiting { max });
                }
                Entered::Behind(place) => {
                    place.first().await;
                    match self.attempt(key, units) {
                        ControlFlow::Break(done) => return done,
                        ControlFlow::Continue(pending) => (place, pending),
                    }
                }
            };
        loop {
            // Declared after the place, so that units go back before the next one asks.
            let held = self.held(key, units, &pending);
            match pending {
                Pending::Refused(wait) => sleep(wait.into()).await,
                Pending::Held(grant) => {
                    sleep(grant.delay.into()).await;
                    held.into_iter().for_each(Held::spend);
                    return Ok(grant);
                }
            }
            match self.attempt(key, units) {
                ControlFlow::Break(done) => return done,
                ControlFlow::Continue(next) => pending = next,
            }
        }
    }

    fn attempt(&self, key: Key, units: u64) -> ControlFlow<Result<Grant, NotReady>, Pending> {
        match self.store.check(&self.charge_of(key, Cost::Take(units))) {
            Err(error) => ControlFlow::Break(Err(NotReady::Store(error))),
            Ok(Decision::Allow(grant)) if grant.delay.is_zero() => ControlFlow::Break(Ok(grant)),
            Ok(Decision::Allow(grant)) => ControlFlow::Continue(Pending::Held(grant)),
            Ok(Decision::Deny(denial)) => match denial.wait {
                Wait::Never => ControlFlow::Break(Err(NotReady::NeverFits)),
                Wait::For(wait) => ControlFlow::Continue(Pending::Refused(wait)),
            },
        }
    }

    fn held(&self, key: Key, units: u64, pending: &Pending) -> Option<Held<'_, C>> {
        matches!(pending, Pending::Held(_)).then(|| Held {
            limiter: self,
            key,
            units,
        })
    }
}

// === impl Held ===

impl<C: Clock> Held<'_, C> {
    /// The request's turn has come: its units are gone.
    fn spend(self) {
        std::mem::forget(self);
    }
}

impl<C: Clock> Drop for Held<'_, C> {
    fn drop(&mut self) {
        let refund = self.limiter.charge_of(self.key, Cost::Refund(self.units));
        // Counted if it fails; a drop has nobody to tell.
        let _refunded = self.limiter.told(self.limiter.store.check(&refund));
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
