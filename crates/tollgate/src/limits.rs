//! Several limits that apply to every request.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use smol_str::SmolStr;
#[cfg(feature = "tower")]
use tollgate_core::{Algorithm, Key};
use tollgate_core::{CHARGES_MAX, Clock, Cost, Limit, PerCharge};
use tollgate_memory::SystemClock;

#[cfg(feature = "tower")]
use crate::joint::JointDenial;
use crate::joint::reservation::{JointReservation, NotReserved};
use crate::joint::{Ask, JointDecision, Names};
use crate::limiter::reservation::Owner;
use crate::limiter::{BuildError, Builder, Limiter};

/// Several limits over the same keys: a request is allowed only if all of them allow it, and only
/// then are they charged.
///
/// # Example
///
/// ```
/// use tollgate::{Limit, Limits};
///
/// let limits = Limits::builder()
///     .limit("second", Limit::per_second(10))
///     .limit("hour", Limit::per_hour(12))
///     .max_keys(10_000)
///     .build();
/// assert_eq!(limits.check_n("alice", 10).remaining(), Some(0));
/// let decision = limits.check("alice");
/// assert_eq!(decision.denied_by(), Some("second"));
/// assert_eq!(limits.limiter("hour").unwrap().peek("alice", 1).remaining(), 2);
/// ```
pub struct Limits<C = SystemClock> {
    /// Shared with reservations that are owned.
    limiters: Arc<[Limiter<C>]>,
    names: Names,
}

/// Builds [`Limits`].
#[derive(Debug)]
pub struct LimitsBuilder<C = SystemClock> {
    limits: Vec<(SmolStr, Limit)>,
    max_keys: usize,
    /// The builder of the first limiter, without its limit, name and size.
    first: Builder<C>,
}

/// The default maximum of live keys.
const KEYS: usize = 1_000_000;

// === impl Limits ===

impl Limits {
    /// Starts to build limits.
    pub fn builder() -> LimitsBuilder {
        LimitsBuilder {
            limits: Vec::new(),
            max_keys: KEYS,
            first: Limiter::builder(Limit::per_second(0)),
        }
    }
}

impl<C: Clock> Limits<C> {
    /// Consumes one unit of `key` in every limit if it fits in all; see [`Limiter::check`].
    pub fn check<K: Hash + ?Sized>(&self, key: &K) -> JointDecision {
        self.check_n(key, 1)
    }

    /// Consumes `units` of `key` in every limit, all or none; 0 is answered as by [`Limits::peek`].
    pub fn check_n<K: Hash + ?Sized>(&self, key: &K, units: u64) -> JointDecision {
        JointDecision::of(&self.names, &self.asks(key, Cost::Take(units)))
    }

    /// Consumes an estimate of `units` of `key` in every limit, all or none, to be settled when the
    /// actual number is known; see [`Limiter::reserve`].
    ///
    /// # Errors
    ///
    /// [`NotReserved::Denied`], as [`Limits::check_n`] would answer, also if the store fails;
    /// nothing was charged.
    ///
    /// # Example
    ///
    /// ```
    /// use tollgate::{Limit, Limits, NotReserved};
    ///
    /// let builder = Limits::builder().limit("minute", Limit::per_minute(5_000));
    /// let tokens = builder.limit("day", Limit::per_day(100_000)).build();
    /// let reservation = tokens.reserve("alice", 4_000)?;
    /// let Err(NotReserved::Denied(denial)) = tokens.reserve("alice", 4_000) else {
    ///     panic!("5 000 a minute");
    /// };
    /// assert_eq!(denial.denied_by(), Some("minute"));
    /// reservation.settle(1_200);
    /// assert_eq!(tokens.limiter("day").unwrap().peek("alice", 1).remaining(), 98_800);
    /// # Ok::<(), NotReserved>(())
    /// ```
    pub fn reserve<K: Hash + ?Sized>(
        &self,
        key: &K,
        units: u64,
    ) -> Result<JointReservation<'_, C>, NotReserved> {
        let asks = self.asks(key, Cost::Take(units));
        let owner = |index: usize| Owner::Borrowed(&self.limiters[index]);
        Ok(JointReservation::of(&self.names, &asks, owner)?)
    }

    /// As [`Limits::reserve`], for a reservation that is stored or moved to another task: it shares
    /// the limits.
    ///
    /// # Errors
    ///
    /// As [`Limits::reserve`].
    ///
    /// # Example
    ///
    /// ```
    /// use tollgate::{JointReservation, Limit, Limits, NotReserved};
    ///
    /// struct Job {
    ///     reservation: JointReservation<'static>,
    /// }
    ///
    /// let builder = Limits::builder().limit("minute", Limit::per_minute(10));
    /// let limits = builder.limit("day", Limit::per_day(100)).build();
    /// let job = Job { reservation: limits.reserve_owned("alice", 4)? };
    /// std::thread::spawn(move || job.reservation.settle(3)).join().expect("it does not panic");
    /// assert_eq!(limits.peek("alice", 1).remaining(), Some(7));
    /// # Ok::<(), NotReserved>(())
    /// ```
    pub fn reserve_owned<K: Hash + ?Sized>(
        &self,
        key: &K,
        units: u64,
    ) -> Result<JointReservation<'static, C>, NotReserved> {
        let asks = self.asks(key, Cost::Take(units));
        let owner = |index| Owner::OneOf(Arc::clone(&self.limiters), index);
        Ok(JointReservation::of(&self.names, &asks, owner)?)
    }

    /// What [`Limits::check_n`] would decide; charges nothing.
    pub fn peek<K: Hash + ?Sized>(&self, key: &K, units: u64) -> JointDecision {
        JointDecision::of(&self.names, &self.asks(key, Cost::Peek(units)))
    }

    /// Refunds units to every limit; see [`Limiter::refund`].
    pub fn refund<K: Hash + ?Sized>(&self, key: &K, units: u64) {
        for limiter in &*self.limiters {
            limiter.refund(key, units);
        }
    }

    /// Refunds everything that `key` consumed of every limit.
    pub fn reset<K: Hash + ?Sized>(&self, key: &K) {
        self.refund(key, u64::MAX);
    }

    /// The limiter of the limit with this name, to inspect or replace it.
    pub fn limiter(&self, name: &str) -> Option<&Limiter<C>> {
        self.limiters.iter().find(|limiter| limiter.name() == name)
    }

    fn asks<K: Hash + ?Sized>(&self, key: &K, cost: Cost) -> PerCharge<Ask<'_, Limiter<C>>> {
        let limiters = self.limiters.iter();
        limiters
            .map(|limiter| Ask::new(limiter, limiter.key_of(key), cost))
            .collect()
    }
}

/// What the middleware needs, which knows keys before it asks.
#[cfg(feature = "tower")]
impl<C: Clock> Limits<C> {
    pub(crate) fn limiters(&self) -> impl Iterator<Item = &Limiter<C>> {
        self.limiters.iter()
    }

    /// The clock of all limits; `None` if there are no limits.
    pub(crate) fn clock(&self) -> Option<&C> {
        self.limiters.first().map(Limiter::clock)
    }

    /// The key in each limit.
    pub(crate) fn keys_of<K: Hash + ?Sized>(&self, key: &K) -> PerCharge<Key> {
        self.limiters
            .iter()
            .map(|limiter| limiter.key_of(key))
            .collect()
    }

    /// Whether one of the limits is a leaky bucket.
    pub(crate) fn may_delay(&self) -> bool {
        let mut limits = self.limiters.iter().map(Limiter::limit);
        limits.any(|limit| limit.algorithm() == Algorithm::LeakyBucket)
    }

    pub(crate) fn decide_keys(&self, keys: &[Key]) -> JointDecision {
        JointDecision::of(&self.names, &self.asks_of(keys))
    }

    pub(crate) fn reserve_keys(
        &self,
        keys: &[Key],
    ) -> Result<JointReservation<'static, C>, JointDenial> {
        let owner = |index| Owner::OneOf(Arc::clone(&self.limiters), index);
        JointReservation::of(&self.names, &self.asks_of(keys), owner)
    }

    fn asks_of(&self, keys: &[Key]) -> PerCharge<Ask<'_, Limiter<C>>> {
        let limiters = self.limiters.iter().zip(keys);
        limiters
            .map(|(limiter, key)| Ask::new(limiter, *key, Cost::ONE))
            .collect()
    }
}

impl<C> fmt::Debug for Limits<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&*self.limiters).finish()
    }
}

// === impl LimitsBuilder ===

impl<C: Clock> LimitsBuilder<C> {
    /// Adds a limit under a name, which distinguishes it from the others.
    pub fn limit(mut self, name: &str, limit: Limit) -> LimitsBuilder<C> {
        self.limits.push((name.into(), limit));
        self
    }

    /// Room for this many live keys under each limit. Default: a million.
    pub fn max_keys(self, max_keys: usize) -> LimitsBuilder<C> {
        LimitsBuilder { max_keys, ..self }
    }

    /// Replaces the system's clock, for instance with a [`crate::ManualClock`] in tests.
    pub fn clock<D: Clock>(self, clock: D) -> LimitsBuilder<D> {
        LimitsBuilder {
            limits: self.limits,
            max_keys: self.max_keys,
            first: self.first.clock(clock),
        }
    }

    /// Builds the limits and allocates their memory.
    ///
    /// # Panics
    ///
    /// Where [`LimitsBuilder::try_build`] returns an error.
    pub fn build(self) -> Limits<C> {
        match self.try_build() {
            Ok(limits) => limits,
            Err(error) => panic!("{error}"),
        }
    }

    /// Builds the limits and allocates their memory, or fails if there is not enough.
    ///
    /// # Errors
    ///
    /// [`BuildError`]: too little memory, more than 128 limits, or two limits with the same name.
    pub fn try_build(self) -> Result<Limits<C>, BuildError> {
        if self.limits.len() > CHARGES_MAX {
            return Err(BuildError::TooManyLimits {
                limits: self.limits.len(),
                max: CHARGES_MAX,
            });
        }
        for (index, (name, _)) in self.limits.iter().enumerate() {
            if self.limits[..index].iter().any(|(other, _)| other == name) {
                return Err(BuildError::SameName {
                    name: name.as_str().into(),
                });
            }
        }
        let limits: Vec<Limit> = self.limits.iter().map(|(_, limit)| *limit).collect();
        let max_keys = self.max_keys.saturating_mul(limits.len().max(1));
        let first = self.first.max_keys(max_keys).sibling_limits(&limits);
        let memory = first.try_build()?;
        let sibling = |(name, limit): &(SmolStr, Limit)| memory.sibling(name, *limit);
        let limiters = self.limits.iter().map(sibling).collect();
        Ok(Limits {
            limiters,
            names: self.limits.into_iter().map(|(name, _)| name).collect(),
        })
    }
}
