//! The cost of a request.

/// The units that a request consumes, refunds or peeks at: requests, bytes, tokens, points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cost {
    /// Consumes this many units if they fit. `Take(0)` is a peek, answered like a cost of 1.
    Take(u64),
    /// Answers as [`Cost::Take`] would, but charges nothing and has no delay. As the first decision
    /// after a change of the limit's window or algorithm, it too fixes when what was used counts as
    /// used, as a denial does.
    Peek(u64),
    /// Refunds units, at most those consumed. Never fails, and happens even if the request is
    /// denied.
    Refund(u64),
}

// === impl Cost ===

impl Cost {
    /// One unit, the default.
    pub const ONE: Cost = Cost::Take(1);

    /// The number of units, of any kind of cost.
    pub const fn units(self) -> u64 {
        let (Cost::Take(units) | Cost::Peek(units) | Cost::Refund(units)) = self;
        units
    }

    /// Whether it returns units, also if there are none: nothing denies it.
    pub const fn is_refund(self) -> bool {
        matches!(self, Cost::Refund(_))
    }

    /// The units that must fit, at least one; `None` for a refund, which always fits.
    pub const fn units_needed(self) -> Option<u64> {
        match self {
            Cost::Take(0) | Cost::Peek(0) => Some(1),
            Cost::Take(units) | Cost::Peek(units) => Some(units),
            Cost::Refund(_) => None,
        }
    }
}

impl From<u32> for Cost {
    fn from(units: u32) -> Cost {
        Cost::Take(u64::from(units))
    }
}
