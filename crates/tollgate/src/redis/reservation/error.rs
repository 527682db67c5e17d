//! Why a reservation was not settled.

use std::fmt;

use tollgate_core::StoreError;

/// Why a reservation was not settled.
#[derive(Debug)]
#[non_exhaustive]
pub enum SettleError {
    /// There is nothing to settle: it was made longer ago than
    /// [`RESERVATION_LASTS`](crate::redis::RESERVATION_LASTS), Redis has lost its data, or it could
    /// store no record, because the slot of a Cluster had just migrated.
    Expired,
    /// There is no answer.
    Store(StoreError),
}

// === impl SettleError ===

impl fmt::Display for SettleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SettleError::Expired => {
                "the reservation has expired, or Redis does not have it; its estimate stays charged"
            }
            SettleError::Store(_) => "the reservation was not settled",
        })
    }
}

impl std::error::Error for SettleError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SettleError::Expired => None,
            SettleError::Store(source) => Some(source),
        }
    }
}
