//! The store over Redis as an engine holds it, which the simulation can look into.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tollgate_core::{
    Charge, KeptReservation, Key, KeyHasher, NewReservation, ReserveVerdict, Settled,
    SettledCharge, SharedStore, Store, StoreError, StoreEvent, StoreMetric, Verdict,
};
use tollgate_redis::Redis;

use crate::random::Random;

tokio::task_local! {
    /// What the store has answered in the current decision.
    pub(crate) static ANSWERS: Arc<Answers>;
}

/// What a store has answered in one decision, for which a reload may have it asked again.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    errors: AtomicU64,
    is_error: AtomicBool,
}

/// The store, shared with the engine.
pub(crate) struct SharedRedis {
    redis: Arc<Redis>,
    /// In place of the system's random numbers, so that a seed replays exactly.
    secrets: Mutex<Random>,
}

// === impl Answers ===

impl Answers {
    /// How many were errors.
    pub(crate) fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Whether the last one was an error, so that the fallback decided.
    pub(crate) fn is_error(&self) -> bool {
        self.is_error.load(Ordering::Relaxed)
    }

    fn add(&self, is_error: bool) {
        self.errors
            .fetch_add(u64::from(is_error), Ordering::Relaxed);
        self.is_error.store(is_error, Ordering::Relaxed);
    }
}

// === impl SharedRedis ===

impl SharedRedis {
    /// The store of the instance with this number.
    pub(crate) fn new(redis: Arc<Redis>, instance: usize) -> SharedRedis {
        let seed = u64::try_from(instance).unwrap_or(u64::MAX);
        SharedRedis {
            redis,
            secrets: Mutex::new(Random::new(seed)),
        }
    }

    fn draw_secret(&self) -> u128 {
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        u128::from(secrets.word()) << 64 | u128::from(secrets.word())
    }
}

impl KeyHasher for SharedRedis {
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key {
        self.redis.key(parts)
    }
}

impl Store for SharedRedis {
    async fn decide(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        let decided = self.redis.decide(charges).await;
        ANSWERS.with(|answers| answers.add(decided.is_err()));
        decided
    }
}

impl SharedStore for SharedRedis {
    fn join(&self) {
        SharedStore::join(&*self.redis);
    }

    fn instances(&self) -> u32 {
        SharedStore::instances(&*self.redis)
    }

    fn is_up(&self) -> bool {
        SharedStore::is_up(&*self.redis)
    }

    fn trouble(&self) -> Option<String> {
        SharedStore::trouble(&*self.redis)
    }

    fn take_events(&self) -> Vec<StoreEvent> {
        SharedStore::take_events(&*self.redis)
    }

    fn metrics(&self) -> Vec<StoreMetric> {
        SharedStore::metrics(&*self.redis)
    }

    async fn reserve(
        &self,
        charges: &[Charge<'_>],
        new: &NewReservation<'_>,
    ) -> Result<ReserveVerdict, StoreError> {
        let new = NewReservation {
            secret: self.draw_secret(),
            ..*new
        };
        let reserved = SharedStore::reserve(&*self.redis, charges, &new).await;
        ANSWERS.with(|answers| answers.add(reserved.is_err()));
        reserved
    }

    async fn find_reservation(
        &self,
        reservation: Key,
    ) -> Result<Option<KeptReservation>, StoreError> {
        SharedStore::find_reservation(&*self.redis, reservation).await
    }

    async fn settle_reservation(
        &self,
        reservation: Key,
        settled: &[SettledCharge<'_>],
    ) -> Result<Settled, StoreError> {
        SharedStore::settle_reservation(&*self.redis, reservation, settled).await
    }

    async fn close(&self) {
        SharedStore::close(&*self.redis).await;
    }
}
