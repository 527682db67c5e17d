//! What a request asks for.

/// Units that a request consumes, gives back, or only asks about: requests, bytes, tokens, points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cost {
    /// Takes this many units if they are there. `Take(0)` is a peek, answered like a cost of 1.
    Take(u64),
    /// Answers as [`Cost::Take`] would, charges nothing and carries no delay.
    Peek(u64),
    /// Gives units back: never fails, never beyond a full budget, and no part of all or nothing.
    Refund(u64),
}

// === impl Cost ===

impl Cost {
    /// One unit, the default.
    pub const ONE: Cost = Cost::Take(1);

    /// How many units, whatever becomes of them.
    pub const fn units(self) -> u64 {
        let (Cost::Take(units) | Cost::Peek(units) | Cost::Refund(units)) = self;
        units
    }
}

impl From<u32> for Cost {
    fn from(units: u32) -> Cost {
        Cost::Take(u64::from(units))
    }
}
