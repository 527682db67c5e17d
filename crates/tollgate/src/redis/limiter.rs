//! One limit over any number of keys, counted in Redis.

mod state;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use smol_str::SmolStr;
use tollgate_core::{
    Cost, DecidedBy, Decision, Key, Limit, Mode, OnStoreError, RESOLUTIONS_MAX, Resolution,
    Sharing, StoreError, Verdict,
};
use tollgate_redis::InvalidForRedis;

use super::key::{KeyParts, SharedKey};
use super::store::Redis;
use crate::joint::Ask;
use crate::limiter::{LoadedTerms, denial_without_answer};

pub(super) use state::State;

/// What the keys of limiters begin with, with a version: a change of what a key is made of needs a
/// new version.
const KIND: &[u8] = b"limiter/1";

/// One limit over any number of keys, which all processes with the same Redis share; made by
/// [`Redis::limiter`].
///
/// The methods are those of [`crate::Limiter`], but for `.await`. The
/// [module's documentation](super) says which keys are equal, and what happens without Redis.
pub struct Limiter {
    redis: Redis,
    state: Arc<State>,
    sharing: Sharing,
    name: SmolStr,
    identity: Identity,
}

/// What tells the counters of a limiter from those of others.
struct Identity {
    kind: &'static [u8],
    name: Box<[u8]>,
}

// === impl Redis ===

impl Redis {
    /// A limiter whose counters are in this Redis. Limiters with the same name count together; see
    /// [the module's documentation](super#names-and-limits).
    ///
    /// # Errors
    ///
    /// [`InvalidForRedis`] if Redis cannot keep the limit.
    pub fn limiter(&self, name: &str, limit: Limit) -> Result<Limiter, InvalidForRedis> {
        Limiter::new(self, name, limit, KIND, name.as_bytes())
    }
}

// === impl Limiter ===

impl Limiter {
    /// A limiter whose counters `kind` and `identity` tell from those of others.
    pub(super) fn new(
        redis: &Redis,
        name: &str,
        limit: Limit,
        kind: &'static [u8],
        identity: &[u8],
    ) -> Result<Limiter, InvalidForRedis> {
        tollgate_redis::check(&limit)?;
        Ok(Limiter {
            redis: redis.clone(),
            state: Arc::new(State::new(limit)),
            sharing: redis.sharing(),
            name: name.into(),
            identity: Identity {
                kind,
                name: identity.into(),
            },
        })
    }

    /// Sets how the instances share this limit. Default: as [`super::Builder::mode`] says.
    ///
    /// Some limits are decided as in [`Mode::Strict`] whatever the mode is: leaky buckets, sliding
    /// logs, limits with a share for requests with priority or with an elastic part, and sliding
    /// windows with short segments in place of [`Mode::Leased`]; see [`Mode::suits`].
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Limiter {
        self.sharing.mode = mode;
        self
    }

    /// Sets what this limit does while Redis does not answer. Default: as
    /// [`super::Builder::on_store_error`] says.
    #[must_use]
    pub fn on_store_error(mut self, on_store_error: OnStoreError) -> Limiter {
        self.sharing.on_store_error = on_store_error;
        self
    }

    /// Sets the number of instances that share this limit, for [`OnStoreError::Local`]. Default: as
    /// [`super::Builder::instances`] says.
    #[must_use]
    pub fn instances(mut self, instances: NonZeroU32) -> Limiter {
        self.sharing.instances = Some(instances);
        self
    }

    /// Consumes one unit of `key` if it fits.
    ///
    /// # When Redis does not answer
    ///
    /// There is always a decision, within [`super::Config::timeout`]: the one that
    /// [`Limiter::on_store_error`] says. With [`OnStoreError::Error`], the request is denied with a
    /// wait of [`crate::FAILURE_WAIT`], and [`Limiter::failures`] increases; so it is if too many
    /// requests of several limits are being decided on the same key. [`Limiter::try_check`] returns
    /// the error instead.
    pub async fn check<K: SharedKey + ?Sized>(&self, key: &K) -> Decision {
        self.decide(self.key_of(key), Cost::ONE).await
    }

    /// Consumes `units` of `key`, all or none; 0 is answered as by [`Limiter::peek`].
    ///
    /// Units above the limit's [`Limit::capacity`] never fit: the denial then has no
    /// [`Decision::retry_after`].
    pub async fn check_n<K: SharedKey + ?Sized>(&self, key: &K, units: u64) -> Decision {
        self.decide(self.key_of(key), Cost::Take(units)).await
    }

    /// As [`Limiter::check_n`], but returns an error if there is no decision.
    ///
    /// # Errors
    ///
    /// [`StoreError`], with [`OnStoreError::Error`]; [`StoreError::Contended`] unless
    /// [`OnStoreError::Deny`] is set.
    /// After [`StoreError::TimedOut`] and [`StoreError::Unanswered`], the units may have been
    /// charged; otherwise nothing was.
    pub async fn try_check<K: SharedKey + ?Sized>(
        &self,
        key: &K,
        units: u64,
    ) -> Result<Decision, StoreError> {
        self.try_decide(self.key_of(key), Cost::Take(units)).await
    }

    /// Consumes `units` of `key` for a request with priority, which may use the share that
    /// [`Limit::priority_share`] keeps. Otherwise as [`Limiter::check_n`].
    pub async fn check_with_priority<K: SharedKey + ?Sized>(
        &self,
        key: &K,
        units: u64,
    ) -> Decision {
        let ask = self.ask_n(key, units).with_priority();
        match decide(&self.redis, &[ask]).await {
            Ok(verdict) => first_of(&verdict),
            Err(_) => self.deny_without_answer(),
        }
    }

    /// What [`Limiter::check_n`] would decide; charges nothing.
    pub async fn peek<K: SharedKey + ?Sized>(&self, key: &K, units: u64) -> Decision {
        self.decide(self.key_of(key), Cost::Peek(units)).await
    }

    /// Refunds units of a request that did not happen or cost less than it was charged. Returns the
    /// remaining units.
    ///
    /// Refunds at most what was consumed, the newest units first. An instance that remembers a
    /// denial of the key may repeat it for up to a second. Without an answer of Redis, whatever
    /// [`Limiter::on_store_error`] says, 0 is returned, and [`Limiter::failures`] increases;
    /// nothing was refunded, unless the answer was only late. [`Limiter::try_refund`] returns the
    /// error instead.
    pub async fn refund<K: SharedKey + ?Sized>(&self, key: &K, units: u64) -> u32 {
        let decision = self.decide(self.key_of(key), Cost::Refund(units)).await;
        decision.remaining()
    }

    /// As [`Limiter::refund`], but returns an error if Redis does not answer.
    ///
    /// # Errors
    ///
    /// [`StoreError`]. After [`StoreError::TimedOut`] and [`StoreError::Unanswered`], the units may
    /// have been refunded; otherwise nothing was.
    pub async fn try_refund<K: SharedKey + ?Sized>(
        &self,
        key: &K,
        units: u64,
    ) -> Result<u32, StoreError> {
        let decision = self.try_decide(self.key_of(key), Cost::Refund(units)).await;
        Ok(decision?.remaining())
    }

    /// Refunds everything that `key` consumed; see [`Limiter::refund`]. To learn whether Redis has
    /// answered, call [`Limiter::try_refund`] with `u64::MAX`.
    pub async fn reset<K: SharedKey + ?Sized>(&self, key: &K) {
        self.refund(key, u64::MAX).await;
    }

    /// A request for one unit of `key`, to be combined with those of other limits; see
    /// [`super::check_all`].
    pub fn ask<K: SharedKey + ?Sized>(&self, key: &K) -> Ask<'_, Limiter> {
        self.ask_n(key, 1)
    }

    /// As [`Limiter::ask`], for `units`.
    pub fn ask_n<K: SharedKey + ?Sized>(&self, key: &K, units: u64) -> Ask<'_, Limiter> {
        Ask::new(self, self.key_of(key), Cost::Take(units))
    }

    /// Replaces the limit in this process. Consumed units stay consumed; the
    /// [module's documentation](super#names-and-limits) says what happens while other processes
    /// have another limit.
    ///
    /// # Errors
    ///
    /// [`InvalidForRedis`] if Redis cannot keep the limit; the limit in effect stays.
    pub fn set_limit(&self, limit: Limit) -> Result<(), InvalidForRedis> {
        tollgate_redis::check(&limit)?;
        self.state.terms.replace(limit);
        Ok(())
    }

    /// The limit in effect.
    pub fn limit(&self) -> Limit {
        self.state.terms.load().limit
    }

    /// The name of the limit.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The Redis that counts for this limiter.
    pub const fn redis(&self) -> &Redis {
        &self.redis
    }

    /// How often there was no decision (see [`Limiter::check`]), and no settlement.
    pub fn failures(&self) -> u64 {
        self.state.failures()
    }

    pub(super) fn name_copy(&self) -> SmolStr {
        self.name.clone()
    }

    pub(crate) fn key_of<K: SharedKey + ?Sized>(&self, key: &K) -> Key {
        self.key_of_parts(&KeyParts::of(key))
    }

    pub(crate) fn key_of_parts(&self, parts: &KeyParts) -> Key {
        let Identity { kind, name } = &self.identity;
        parts.key(self.redis.hasher(), kind, name)
    }

    pub(super) fn shared(self, sharing: Sharing) -> Limiter {
        Limiter { sharing, ..self }
    }

    pub(super) fn count_failure(&self) {
        self.state.count_failure();
    }

    /// What changes of it, and how it is shared.
    pub(super) const fn parts(&self) -> (&Arc<State>, Sharing) {
        (&self.state, self.sharing)
    }

    async fn decide(&self, key: Key, cost: Cost) -> Decision {
        let decision = self.try_decide(key, cost).await;
        decision.unwrap_or_else(|_| self.deny_without_answer())
    }

    fn deny_without_answer(&self) -> Decision {
        self.count_failure();
        Decision::Deny(denial_without_answer())
    }

    /// Decides on one key, under the limit in effect.
    pub(crate) async fn decide_key(&self, key: Key, cost: Cost) -> Result<Verdict, StoreError> {
        decide(&self.redis, &[Ask::new(self, key, cost)]).await
    }

    /// The revision of the limit in effect: another one after each change, modulo 256.
    #[cfg(feature = "tower")]
    pub(crate) fn revision(&self) -> u8 {
        self.state.terms.load().revision()
    }

    /// Refunds units where they were charged.
    #[cfg(feature = "tower")]
    pub(crate) async fn refund_key(
        &self,
        key: Key,
        units: u64,
        charged_by: DecidedBy,
    ) -> Result<Verdict, StoreError> {
        refund(
            &self.redis,
            &[Ask::new(self, key, Cost::Refund(units))],
            charged_by,
        )
        .await
    }

    async fn try_decide(&self, key: Key, cost: Cost) -> Result<Decision, StoreError> {
        Ok(first_of(&self.decide_key(key, cost).await?))
    }
}

/// The decision on the only charge.
pub(super) fn first_of(verdict: &Verdict) -> Decision {
    let decision = verdict.decisions.first().copied();
    decision.expect("a verdict has a decision for each charge")
}

/// Decides on limits that count in `redis`, under the limits in effect. Without limits, there is
/// nothing to decide.
pub(super) async fn decide(
    redis: &Redis,
    asks: &[Ask<'_, Limiter>],
) -> Result<Verdict, StoreError> {
    match asks.is_empty() {
        true => Ok(Verdict::default()),
        false => decide_or_refund(redis, asks, None).await,
    }
}

/// Refunds units where they were charged, under the limits in effect.
#[cfg(feature = "tower")]
pub(super) async fn refund(
    redis: &Redis,
    asks: &[Ask<'_, Limiter>],
    charged_by: DecidedBy,
) -> Result<Verdict, StoreError> {
    match asks.is_empty() {
        true => Ok(Verdict::default()),
        false => decide_or_refund(redis, asks, Some(charged_by)).await,
    }
}

/// Decides, or refunds what was charged there, under the limits in effect. If a limit is replaced
/// meanwhile, this starts again.
async fn decide_or_refund(
    redis: &Redis,
    asks: &[Ask<'_, Limiter>],
    charged_by: Option<DecidedBy>,
) -> Result<Verdict, StoreError> {
    let load = || -> Vec<LoadedTerms<'_>> {
        let terms = asks.iter().map(|ask| ask.limiter().state.terms.load());
        terms.collect()
    };
    let (mut terms, mut resolution) = (load(), Resolution::First);
    for _ in 0..RESOLUTIONS_MAX {
        let charge = |(ask, terms): (&Ask<'_, Limiter>, _)| {
            let sharing = ask.limiter().sharing;
            ask.charge(terms, resolution).shared(sharing)
        };
        let charges: Vec<_> = asks
            .iter()
            .zip(terms.iter().map(|it| &**it))
            .map(charge)
            .collect();
        let answer = match charged_by {
            None => redis.decide(&charges).await,
            Some(charged_by) => redis.refund(&charges, charged_by).await,
        };
        let Err(StoreError::Superseded) = answer else {
            return answer;
        };
        drop(charges);
        let latest = load();
        // If the limits have not changed, a state only looks later, because revisions wrap.
        resolution = Resolution::after(terms.iter().zip(&latest).all(|(old, new)| old.are(new)));
        terms = latest;
    }
    Err(StoreError::Superseded)
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("name", &self.name)
            .field("limit", &self.limit())
            .field("sharing", &self.sharing)
            .finish_non_exhaustive()
    }
}
