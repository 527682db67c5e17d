//! How a charge is decided where units may be leased.

use tokio::sync::futures::OwnedNotified;
use tollgate_core::Decision;

use super::Renewal;

/// How a charge is decided.
pub(crate) enum Spend {
    /// It is allowed.
    Granted(Decision),
    /// Another request is renewing the lease: try again afterwards.
    Wait(OwnedNotified),
    /// Renew the lease, and complete the renewal.
    Renew(Renewal),
    /// It charges nothing: Redis decides, but these units, which it counts as consumed, are free.
    Peek(u32),
    /// Redis makes this decision, without a lease.
    Cold,
}

// === impl Spend ===

impl Spend {
    /// Whether this instance holds units that a denial by a cache of Redis's replies would ignore
    /// or lose.
    pub(crate) const fn holds_units(&self) -> bool {
        match self {
            Spend::Renew(renewal) => renewal.spent + renewal.left > 0,
            Spend::Peek(_) => true,
            Spend::Granted(_) | Spend::Wait(_) | Spend::Cold => false,
        }
    }
}
