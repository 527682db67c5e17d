//! What reservations need of a Redis.

use std::slice;

use tollgate_core::{
    Charge, Key, NewReservation, ReserveVerdict, Settled, SettledCharge, Settlement, SharedStore,
    Span, StoreError, Verdict,
};
use tollgate_redis::random_word;

use super::Redis;
use crate::redis::background::Background;
use crate::redis::charged_share::{ChargedShare, NotingMemory};

/// How long a [`Reservation`](crate::redis::Reservation) can be settled. Redis keeps what was
/// reserved for so long.
pub const RESERVATION_LASTS: Span = Span::HOUR;

/// A decision on an estimate, and where it is charged.
pub(crate) struct Reserved {
    pub(crate) verdict: Verdict,
    /// The key of Redis's record.
    pub(crate) record: Option<Key>,
    /// What the share of this process was charged.
    pub(crate) share: Option<ChargedShare>,
}

// === impl Redis ===

impl Redis {
    pub(crate) async fn reserve(&self, charge: &Charge<'_>) -> Result<Reserved, StoreError> {
        let new = NewReservation {
            secret: random_secret(),
            lifetime: RESERVATION_LASTS,
            // What settles it stays in this process.
            memo: &[],
        };
        let local = NotingMemory::new(self.0.store.local());
        let charges = slice::from_ref(charge);
        let ReserveVerdict {
            verdict,
            reservation,
        } = self.0.store.reserve_with(charges, &new, &local).await?;
        Ok(Reserved {
            verdict,
            record: reservation,
            share: local.into_charged(),
        })
    }

    /// Settles what Redis has recorded.
    pub(crate) async fn settle(
        &self,
        record: Key,
        lines: &[SettledCharge<'_>],
    ) -> Result<Settled, StoreError> {
        let shared = self.0.store.shared();
        shared.settle_reservation(record, lines).await
    }

    /// Settles what the share of this process was charged.
    pub(crate) fn settle_share(
        &self,
        charge: &Charge<'_>,
        share: &ChargedShare,
        actual: u64,
    ) -> Result<Settlement, StoreError> {
        let (store, memory) = (&self.0.store, self.0.store.local());
        store.with_share(charge, |local| share.settle(memory, local, actual))
    }

    /// What refunds dropped reservations.
    pub(crate) fn background(&self) -> &Background {
        &self.0.refunds
    }

    /// The error of a decision whose outcome is not known.
    pub(crate) fn timeout_error(&self) -> StoreError {
        StoreError::TimedOut {
            after: self.0.timeout,
        }
    }
}

/// A secret that no other process chooses or guesses.
fn random_secret() -> u128 {
    u128::from(random_word()) << 64 | u128::from(random_word())
}
