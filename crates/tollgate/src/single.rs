//! A limiter without keys: one counter.

use std::time::Duration;

use tollgate_core::{Clock, Decision, Denial, Grant, Limit, StoreError};
use tollgate_memory::{Stats, SystemClock};

use crate::limiter::reservation::Reservation;
use crate::limiter::{BuildError, Builder, Limiter, NotReady};

/// A limiter with a single counter, for instance for all calls to one upstream; made by
/// [`Limiter::single`].
///
/// # Example
///
/// ```
/// use tollgate::{Limit, Limiter};
///
/// let upstream = Limiter::single(Limit::per_second(100));
/// assert_eq!(upstream.check().remaining(), 99);
/// assert!(upstream.check_n(99).is_allowed());
/// assert!(!upstream.check().is_allowed());
/// ```
#[derive(Debug)]
pub struct SingleLimiter<C = SystemClock> {
    limiter: Limiter<C>,
}

// === impl Limiter ===

impl Limiter {
    /// A limiter with a single counter, without keys. It reserves 16 MB of address space for a
    /// large log, but uses only what the state needs: a few kilobytes for a token bucket.
    ///
    /// Use [`Builder::build_single`] for another name or clock.
    ///
    /// # Panics
    ///
    /// If the system does not have the memory.
    pub fn single(limit: Limit) -> SingleLimiter {
        Limiter::builder(limit).build_single()
    }
}

// === impl Builder ===

impl<C: Clock> Builder<C> {
    /// Builds a limiter with a single counter, as [`Limiter::single`] does, with this name and
    /// clock. Whatever [`Builder::max_keys`] says, there is room for one key.
    ///
    /// # Panics
    ///
    /// If the system does not have the memory; [`Builder::try_build_single`] returns that as an
    /// error.
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter, ManualClock};
    ///
    /// let clock = Arc::new(ManualClock::default());
    /// let builder = Limiter::builder(Limit::per_second(1)).clock(Arc::clone(&clock));
    /// let upstream = builder.build_single();
    /// assert!(upstream.check().is_allowed());
    /// assert!(!upstream.check().is_allowed());
    /// clock.advance(Duration::from_secs(1));
    /// assert!(upstream.check().is_allowed());
    /// ```
    pub fn build_single(self) -> SingleLimiter<C> {
        SingleLimiter::of(self.max_keys(1).build())
    }

    /// As [`Builder::build_single`], or fails if there is not enough memory.
    ///
    /// # Errors
    ///
    /// [`BuildError::TooLarge`].
    pub fn try_build_single(self) -> Result<SingleLimiter<C>, BuildError> {
        self.max_keys(1).try_build().map(SingleLimiter::of)
    }
}

// === impl SingleLimiter ===

impl<C: Clock> SingleLimiter<C> {
    /// A single counter of a limiter: that of the key `()`. A limiter that [`Builder::build`] makes
    /// has room for a million keys; [`Builder::build_single`] has room for this one.
    pub const fn of(limiter: Limiter<C>) -> SingleLimiter<C> {
        SingleLimiter { limiter }
    }

    /// Consumes one unit if it fits; see [`Limiter::check`].
    #[inline(always)]
    pub fn check(&self) -> Decision {
        self.limiter.check(&())
    }

    /// Consumes `units`, all or none; see [`Limiter::check_n`].
    #[inline(always)]
    pub fn check_n(&self, units: u64) -> Decision {
        self.limiter.check_n(&(), units)
    }

    /// As [`SingleLimiter::check_n`], but returns an error if the store fails; see
    /// [`Limiter::try_check`].
    ///
    /// # Errors
    ///
    /// As [`Limiter::try_check`]; nothing was charged.
    pub fn try_check(&self, units: u64) -> Result<Decision, StoreError> {
        self.limiter.try_check(&(), units)
    }

    /// Consumes an estimate of `units`, to be settled when the actual number is known; see
    /// [`Limiter::reserve`].
    ///
    /// # Errors
    ///
    /// The [`Denial`], as [`SingleLimiter::check_n`] would deny it.
    pub fn reserve(&self, units: u64) -> Result<Reservation<'_, C>, Denial> {
        self.limiter.reserve(&(), units)
    }

    /// What [`SingleLimiter::check_n`] would decide; charges nothing.
    pub fn peek(&self, units: u64) -> Decision {
        self.limiter.peek(&(), units)
    }

    /// Refunds units; see [`Limiter::refund`].
    pub fn refund(&self, units: u64) -> u32 {
        self.limiter.refund(&(), units)
    }

    /// Refunds everything that was consumed.
    pub fn reset(&self) {
        self.limiter.reset(&());
    }

    /// Consumes one unit as soon as it fits, on tokio's timer; see [`Limiter::until_ready`].
    ///
    /// # Errors
    ///
    /// [`NotReady`] if waiting would not help.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with an enabled timer.
    #[cfg(feature = "async")]
    pub async fn until_ready(&self) -> Result<Grant, NotReady> {
        self.limiter.until_ready(&()).await
    }

    /// Consumes `units` as soon as they fit, on tokio's timer; see [`Limiter::until_n_ready`].
    ///
    /// # Errors
    ///
    /// [`NotReady`] if waiting would not help.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with an enabled timer.
    #[cfg(feature = "async")]
    pub async fn until_n_ready(&self, units: u64) -> Result<Grant, NotReady> {
        self.limiter.until_n_ready(&(), units).await
    }

    /// Consumes `units` as soon as they fit, on any timer; see [`Limiter::until_n_ready_with`].
    ///
    /// # Errors
    ///
    /// [`NotReady`] if waiting would not help.
    pub async fn until_n_ready_with<S: Future>(
        &self,
        units: u64,
        sleep: impl Fn(Duration) -> S,
    ) -> Result<Grant, NotReady> {
        self.limiter.until_n_ready_with(&(), units, sleep).await
    }

    /// Replaces the limit; see [`Limiter::set_limit`].
    pub fn set_limit(&self, limit: Limit) {
        self.limiter.set_limit(limit);
    }

    /// The limit in effect.
    pub fn limit(&self) -> Limit {
        self.limiter.limit()
    }

    /// What is stored; see [`Limiter::stats`].
    pub fn stats(&self) -> Stats {
        self.limiter.stats()
    }

    /// The limiter whose key `()` this is, for what else it can do: `limiter.ask(&())` for
    /// [`check_all`](crate::check_all), [`Limiter::failures`], [`Limiter::clock`].
    pub const fn limiter(&self) -> &Limiter<C> {
        &self.limiter
    }
}
