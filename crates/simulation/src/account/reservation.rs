//! Reservations, and attempts to settle them.

use super::tab::Taken;
use crate::plan::Part;

/// A reservation that was made.
#[derive(Debug)]
pub(super) struct Reservation {
    pub(super) counter: usize,
    /// The units that were charged as an estimate.
    pub(super) units: u64,
    /// When its decision began: Redis made it at that moment or later.
    pub(super) since: u64,
    pub(super) is_settled: bool,
    /// An attempt to settle it had an unknown outcome.
    pub(super) is_in_doubt: bool,
}

/// An attempt to settle a reservation.
#[derive(Debug)]
pub(super) struct Settling {
    pub(super) from: u64,
    /// What it charges or refunds.
    pub(super) part: Part,
}

// === impl Settling ===

impl Settling {
    pub(super) const fn is_refund(&self) -> bool {
        self.part.cost.is_refund()
    }

    pub(super) const fn take(&self, to: u64, units: u64) -> Taken {
        Taken::new(self.from, to, units)
    }
}
