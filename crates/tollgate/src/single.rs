//! A limiter without keys: one counter.

use std::time::Duration;

use tollgate_core::{Clock, Decision, Denial, Grant, Limit};
use tollgate_memory::SystemClock;

use crate::limiter::reservation::Reservation;
use crate::limiter::{Limiter, NotReady};

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
    pub fn single(limit: Limit) -> SingleLimiter {
        SingleLimiter {
            limiter: Limiter::builder(limit).max_keys(1).build(),
        }
    }
}

// === impl SingleLimiter ===

impl<C: Clock> SingleLimiter<C> {
    /// The single counter of a limiter from a [`Builder`](crate::Builder), for another clock or
    /// more memory.
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
    #[cfg(feature = "async")]
    pub async fn until_ready(&self) -> Result<Grant, NotReady> {
        self.limiter.until_ready(&()).await
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
}
