//! Requests that are charged an estimate.

use tollgate_core::{Charge, NewReservation, ReserveVerdict, SharedStore, Store, StoreError};

use super::{Fallback, Shares, is_resolved_again};
use crate::share::Share;

// === impl Fallback ===

impl<S: SharedStore, L: Store> Fallback<S, L> {
    /// Decides, and has the shared store keep a reservation if the request is allowed. What is
    /// decided without that store has none.
    ///
    /// # Errors
    ///
    /// As [`Store::decide`], and [`StoreError::Unfit`] if the store keeps none of this request, or
    /// a charge is a refund.
    pub async fn reserve(
        &self,
        charges: &[Charge<'_>],
        new: &NewReservation<'_>,
    ) -> Result<ReserveVerdict, StoreError> {
        self.reserve_with(charges, new, &self.local).await
    }

    /// As [`Fallback::reserve`]; without the shared store, `local` decides on shares. It is to ask
    /// [`Fallback::local`], and can note what that has charged, so that
    /// [`Fallback::with_share`] can settle it.
    ///
    /// # Errors
    ///
    /// As [`Fallback::reserve`].
    pub async fn reserve_with(
        &self,
        charges: &[Charge<'_>],
        new: &NewReservation<'_>,
        local: &impl Store,
    ) -> Result<ReserveVerdict, StoreError> {
        let reserved = match is_resolved_again(charges) {
            true => Err(StoreError::Unanswered),
            false => self.shared.reserve(charges, new).await,
        };
        let shares = Shares {
            store: local,
            counters: &self.decided,
        };
        match reserved {
            Err(error) => Ok(ReserveVerdict {
                verdict: self.fall_back(charges, Err(error), shares).await?,
                reservation: None,
            }),
            Ok(verdict) => Ok(verdict),
        }
    }

    /// Calls `settle` with the charge of this instance's share, as [`Fallback::local`] counts it
    /// now.
    pub fn with_share<T>(&self, charge: &Charge<'_>, settle: impl FnOnce(&Charge<'_>) -> T) -> T {
        let share = Share::of(charge, self.instances(charge));
        settle(&self.charge_of(&share, charge))
    }
}
