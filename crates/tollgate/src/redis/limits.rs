//! Several limits that apply to every request, counted in Redis.

use std::fmt;
use std::num::NonZeroU32;

use tollgate_core::{
    CHARGES_MAX, Cost, Limit, Mode, OnStoreError, Sharing, StoreError, TooManyCharges,
};
#[cfg(feature = "tower")]
use tollgate_core::{Key, PerCharge, Span, Verdict};
use tollgate_redis::InvalidForRedis;

use super::key::{KeyParts, SharedKey};
#[cfg(feature = "tower")]
use super::limiter::refund;
use super::limiter::{Limiter, decide};
use super::store::Redis;
use crate::joint::{Ask, JointDecision, Names, without_answer};

/// What the keys of these limiters begin with, with a version.
const KIND: &[u8] = b"limits/1";

/// Several limits over the same keys, which all processes with the same Redis share: a request is
/// allowed only if all of them allow it, and only then are they charged. Made by [`Redis::limits`].
///
/// The methods are those of [`crate::Limits`], but for `.await`. A decision takes one round trip.
pub struct Limits {
    redis: Redis,
    limiters: Vec<Limiter>,
    names: Names,
}

/// Builds [`Limits`].
#[derive(Debug)]
pub struct LimitsBuilder {
    redis: Redis,
    name: Box<str>,
    limits: Vec<(Box<str>, Limit)>,
    sharing: Sharing,
}

/// Why limits cannot be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum LimitsError {
    /// Redis cannot keep one of the limits.
    Unfit {
        /// The name of the limit.
        name: Box<str>,
        /// Why not.
        source: InvalidForRedis,
    },
    /// There are more limits than one request can meet.
    TooMany(TooManyCharges),
    /// Two limits have the same name, so they would have the same counters.
    SameName {
        /// The name.
        name: Box<str>,
    },
}

// === impl Redis ===

impl Redis {
    /// Starts to build limits that apply to every request. `name` is part of their keys, as that of
    /// a limiter is, so that the limits of another part of the program may have the same names.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use tollgate::Limit;
    /// use tollgate::redis::Redis;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let redis = Redis::open("redis://localhost:6379")?;
    /// let limits = redis
    ///     .limits("api")
    ///     .limit("second", Limit::per_second(10))
    ///     .limit("hour", Limit::per_hour(1_000))
    ///     .build()?;
    /// let decision = limits.check("alice").await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn limits(&self, name: &str) -> LimitsBuilder {
        LimitsBuilder {
            redis: self.clone(),
            name: name.into(),
            limits: Vec::new(),
            sharing: self.sharing(),
        }
    }
}

// === impl Limits ===

impl Limits {
    /// Consumes one unit of `key` in every limit if it fits in all.
    ///
    /// There is always a decision, as [`Limiter::check`] describes. Without an answer of Redis,
    /// [`JointDecision::denied_by`] of a denial is `None`.
    pub async fn check<K: SharedKey + ?Sized>(&self, key: &K) -> JointDecision {
        self.check_n(key, 1).await
    }

    /// Consumes `units` of `key` in every limit, all or none; 0 is answered as by [`Limits::peek`].
    pub async fn check_n<K: SharedKey + ?Sized>(&self, key: &K, units: u64) -> JointDecision {
        self.decide(self.asks(key, Cost::Take(units))).await
    }

    /// What [`Limits::check_n`] would decide; charges nothing.
    pub async fn peek<K: SharedKey + ?Sized>(&self, key: &K, units: u64) -> JointDecision {
        self.decide(self.asks(key, Cost::Peek(units))).await
    }

    /// Refunds units to every limit at once; see [`Limiter::refund`].
    pub async fn refund<K: SharedKey + ?Sized>(&self, key: &K, units: u64) {
        let _refunded = self.decide(self.asks(key, Cost::Refund(units))).await;
    }

    /// As [`Limits::refund`], but returns an error if Redis does not answer.
    ///
    /// # Errors
    ///
    /// As [`Limiter::try_refund`].
    pub async fn try_refund<K: SharedKey + ?Sized>(
        &self,
        key: &K,
        units: u64,
    ) -> Result<(), StoreError> {
        let asks = self.asks(key, Cost::Refund(units));
        decide(&self.redis, &asks).await.map(drop)
    }

    /// Refunds everything that `key` consumed of every limit.
    pub async fn reset<K: SharedKey + ?Sized>(&self, key: &K) {
        self.refund(key, u64::MAX).await;
    }

    /// The limiter of the limit with this name, to inspect or replace it.
    pub fn limiter(&self, name: &str) -> Option<&Limiter> {
        self.limiters.iter().find(|limiter| limiter.name() == name)
    }

    fn asks<K: SharedKey + ?Sized>(&self, key: &K, cost: Cost) -> Vec<Ask<'_, Limiter>> {
        let parts = KeyParts::of(key);
        let limiters = self.limiters.iter();
        let asks = limiters.map(|limiter| Ask::new(limiter, limiter.key_of_parts(&parts), cost));
        asks.collect()
    }

    async fn decide(&self, asks: Vec<Ask<'_, Limiter>>) -> JointDecision {
        let verdict = decide(&self.redis, &asks).await.unwrap_or_else(|_| {
            self.limiters.iter().for_each(Limiter::count_failure);
            without_answer(asks.len())
        });
        JointDecision::new(self.names.clone(), verdict)
    }
}

/// What the middleware needs, which knows keys before it asks.
#[cfg(feature = "tower")]
impl Limits {
    pub(crate) fn limiters(&self) -> impl Iterator<Item = &Limiter> {
        self.limiters.iter()
    }

    pub(crate) const fn redis(&self) -> &Redis {
        &self.redis
    }

    /// The key in each limit.
    pub(crate) fn keys_of(&self, parts: &KeyParts) -> PerCharge<Key> {
        let limiters = self.limiters.iter();
        limiters
            .map(|limiter| limiter.key_of_parts(parts))
            .collect()
    }

    /// The revision of each limit in effect.
    pub(crate) fn revisions(&self) -> PerCharge<u8> {
        self.limiters.iter().map(Limiter::revision).collect()
    }

    pub(crate) async fn decide_keys(&self, keys: &[Key]) -> Result<Verdict, StoreError> {
        let asks = self.limiters.iter().zip(keys);
        let asks: Vec<_> = asks
            .map(|(limiter, key)| Ask::new(limiter, *key, Cost::ONE))
            .collect();
        decide(&self.redis, &asks).await
    }

    /// Refunds the unit of a request that was held for so long to the leaky buckets in which its
    /// turn had not come: until then it counts. Units of other limits stay charged: those of a
    /// window may be of an earlier one by now, and the refund would be of units of others. So may
    /// those of a limit whose revision was another one when it was asked.
    pub(crate) async fn give_up(
        &self,
        keys: &[Key],
        revisions: &[u8],
        verdict: &Verdict,
        held: Span,
    ) {
        let charged = self.limiters.iter().zip(revisions).zip(keys);
        let charged = charged.zip(&verdict.decisions);
        let left = charged.filter(|(((limiter, revision), _), decision)| {
            decision.delay() > held.into() && limiter.revision() == **revision
        });
        let asks = left.map(|(((limiter, _), key), _)| Ask::new(limiter, *key, Cost::Refund(1)));
        // If it fails, the units stay charged until they decay.
        let _refunded = refund(&self.redis, &asks.collect::<Vec<_>>(), verdict.decided_by).await;
    }
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.limiters).finish()
    }
}

// === impl LimitsBuilder ===

impl LimitsBuilder {
    /// Adds a limit under a name, which distinguishes it from the others.
    #[must_use]
    pub fn limit(mut self, name: &str, limit: Limit) -> LimitsBuilder {
        self.limits.push((name.into(), limit));
        self
    }

    /// Sets how the instances share the limits; see [`Limiter::mode`]. With more than one limit,
    /// Redis decides every request in [`Mode::Leased`] too.
    #[must_use]
    pub const fn mode(mut self, mode: Mode) -> LimitsBuilder {
        self.sharing.mode = mode;
        self
    }

    /// Sets what the limits do while Redis does not answer; see [`Limiter::on_store_error`].
    #[must_use]
    pub const fn on_store_error(mut self, on_store_error: OnStoreError) -> LimitsBuilder {
        self.sharing.on_store_error = on_store_error;
        self
    }

    /// Sets the number of instances that share the limits; see [`Limiter::instances`].
    #[must_use]
    pub const fn instances(mut self, instances: NonZeroU32) -> LimitsBuilder {
        self.sharing.instances = Some(instances);
        self
    }

    /// Builds the limits.
    ///
    /// # Errors
    ///
    /// [`LimitsError`].
    pub fn build(self) -> Result<Limits, LimitsError> {
        if self.limits.len() > CHARGES_MAX {
            return Err(LimitsError::TooMany(TooManyCharges(self.limits.len())));
        }
        let mut limiters: Vec<Limiter> = Vec::with_capacity(self.limits.len());
        for (name, limit) in &self.limits {
            if limiters.iter().any(|limiter| limiter.name() == &**name) {
                return Err(LimitsError::SameName { name: name.clone() });
            }
            let identity = identity(&self.name, name);
            let limiter = Limiter::new(&self.redis, name, *limit, KIND, &identity);
            let limiter = limiter.map_err(|source| LimitsError::Unfit {
                name: name.clone(),
                source,
            })?;
            limiters.push(limiter.shared(self.sharing));
        }
        let names = limiters.iter();
        let names = names.map(Limiter::name_copy);
        Ok(Limits {
            names: names.collect(),
            redis: self.redis,
            limiters,
        })
    }
}

/// Both names, in a form in which no two pairs are equal.
fn identity(limits: &str, limit: &str) -> Vec<u8> {
    let length = u64::try_from(limits.len()).unwrap_or(u64::MAX);
    let length = length.to_be_bytes();
    [&length[..], limits.as_bytes(), limit.as_bytes()].concat()
}

// === impl LimitsError ===

impl fmt::Display for LimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitsError::Unfit { name, .. } => write!(f, "Redis cannot keep the limit `{name}`"),
            LimitsError::TooMany(_) => f.write_str("the limits cannot be asked together"),
            LimitsError::SameName { name } => {
                write!(f, "two limits have the name `{name}`: give each its own")
            }
        }
    }
}

impl std::error::Error for LimitsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LimitsError::Unfit { source, .. } => Some(source),
            LimitsError::TooMany(source) => Some(source),
            LimitsError::SameName { .. } => None,
        }
    }
}
