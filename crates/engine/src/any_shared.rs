//! Shared stores of any type, so that an engine can hold several backends in one list.

use std::fmt;
use std::pin::Pin;

use tollgate_core::{
    Charge, KeptReservation, Key, KeyHasher, NewReservation, ReserveVerdict, Settled,
    SettledCharge, SharedStore, Store, StoreError, StoreEvent, StoreMetric, Verdict,
};

/// A [`SharedStore`] of any type, with the name of its kind.
pub struct AnyShared {
    kind: &'static str,
    store: Box<dyn Erased>,
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// [`SharedStore`] without generics and opaque types, which a trait object cannot have.
trait Erased: Send + Sync {
    fn key(&self, parts: &mut dyn Iterator<Item = &[u8]>) -> Key;
    fn decide<'a>(&'a self, charges: &'a [Charge<'a>]) -> Boxed<'a, Result<Verdict, StoreError>>;
    fn decide_batch<'a>(
        &'a self,
        batch: &'a [&'a [Charge<'a>]],
    ) -> Boxed<'a, Vec<Result<Verdict, StoreError>>>;
    fn join(&self);
    fn instances(&self) -> u32;
    fn is_up(&self) -> bool;
    fn trouble(&self) -> Option<String>;
    fn take_events(&self) -> Vec<StoreEvent>;
    fn metrics(&self) -> Vec<StoreMetric>;
    fn reserve<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        new: &'a NewReservation<'a>,
    ) -> Boxed<'a, Result<ReserveVerdict, StoreError>>;
    fn find_reservation(
        &self,
        reservation: Key,
    ) -> Boxed<'_, Result<Option<KeptReservation>, StoreError>>;
    fn settle_reservation<'a>(
        &'a self,
        reservation: Key,
        settled: &'a [SettledCharge<'a>],
    ) -> Boxed<'a, Result<Settled, StoreError>>;
    fn close(&self) -> Boxed<'_, ()>;
}

impl<S: SharedStore> Erased for S {
    fn key(&self, parts: &mut dyn Iterator<Item = &[u8]>) -> Key {
        KeyHasher::key(self, parts)
    }

    fn decide<'a>(&'a self, charges: &'a [Charge<'a>]) -> Boxed<'a, Result<Verdict, StoreError>> {
        Box::pin(Store::decide(self, charges))
    }

    fn decide_batch<'a>(
        &'a self,
        batch: &'a [&'a [Charge<'a>]],
    ) -> Boxed<'a, Vec<Result<Verdict, StoreError>>> {
        Box::pin(Store::decide_batch(self, batch))
    }

    fn join(&self) {
        SharedStore::join(self);
    }

    fn instances(&self) -> u32 {
        SharedStore::instances(self)
    }

    fn is_up(&self) -> bool {
        SharedStore::is_up(self)
    }

    fn trouble(&self) -> Option<String> {
        SharedStore::trouble(self)
    }

    fn take_events(&self) -> Vec<StoreEvent> {
        SharedStore::take_events(self)
    }

    fn metrics(&self) -> Vec<StoreMetric> {
        SharedStore::metrics(self)
    }

    fn reserve<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        new: &'a NewReservation<'a>,
    ) -> Boxed<'a, Result<ReserveVerdict, StoreError>> {
        Box::pin(SharedStore::reserve(self, charges, new))
    }

    fn find_reservation(
        &self,
        reservation: Key,
    ) -> Boxed<'_, Result<Option<KeptReservation>, StoreError>> {
        Box::pin(SharedStore::find_reservation(self, reservation))
    }

    fn settle_reservation<'a>(
        &'a self,
        reservation: Key,
        settled: &'a [SettledCharge<'a>],
    ) -> Boxed<'a, Result<Settled, StoreError>> {
        Box::pin(SharedStore::settle_reservation(self, reservation, settled))
    }

    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(SharedStore::close(self))
    }
}

// === impl AnyShared ===

impl AnyShared {
    /// Hides the type of `store`, which log lines call `kind`: `Redis`.
    pub fn new(kind: &'static str, store: impl SharedStore + 'static) -> AnyShared {
        AnyShared {
            kind,
            store: Box::new(store),
        }
    }

    /// The name of its kind: `Redis`.
    pub const fn kind(&self) -> &'static str {
        self.kind
    }
}

impl fmt::Debug for AnyShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyShared").field(&self.kind).finish()
    }
}

impl KeyHasher for AnyShared {
    fn key<'p>(&self, mut parts: impl Iterator<Item = &'p [u8]>) -> Key {
        self.store.key(&mut parts)
    }
}

impl Store for AnyShared {
    async fn decide(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        self.store.decide(charges).await
    }

    async fn decide_batch(&self, batch: &[&[Charge<'_>]]) -> Vec<Result<Verdict, StoreError>> {
        self.store.decide_batch(batch).await
    }
}

impl SharedStore for AnyShared {
    fn join(&self) {
        self.store.join();
    }

    fn instances(&self) -> u32 {
        self.store.instances()
    }

    fn is_up(&self) -> bool {
        self.store.is_up()
    }

    fn trouble(&self) -> Option<String> {
        self.store.trouble()
    }

    fn take_events(&self) -> Vec<StoreEvent> {
        self.store.take_events()
    }

    fn metrics(&self) -> Vec<StoreMetric> {
        self.store.metrics()
    }

    async fn reserve(
        &self,
        charges: &[Charge<'_>],
        new: &NewReservation<'_>,
    ) -> Result<ReserveVerdict, StoreError> {
        self.store.reserve(charges, new).await
    }

    async fn find_reservation(
        &self,
        reservation: Key,
    ) -> Result<Option<KeptReservation>, StoreError> {
        self.store.find_reservation(reservation).await
    }

    async fn settle_reservation(
        &self,
        reservation: Key,
        settled: &[SettledCharge<'_>],
    ) -> Result<Settled, StoreError> {
        self.store.settle_reservation(reservation, settled).await
    }

    async fn close(&self) {
        self.store.close().await;
    }
}
