//! The numbers of the steps, as the scripts have them.

/// A step of the general script, or of `reservation.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepNumber {
    Decide,
    Reserve,
    Confirm,
    /// Only in `reservation.lua`.
    ChargeAtOnce,
    Lease,
    Report,
    Remember,
    Settle,
    Undo,
    Store,
    Take,
}

// === impl StepNumber ===

impl StepNumber {
    pub(crate) const fn byte(self) -> u8 {
        match self {
            StepNumber::Decide => 0,
            StepNumber::Reserve => 1,
            StepNumber::Confirm => 2,
            StepNumber::ChargeAtOnce => 3,
            StepNumber::Lease => 4,
            StepNumber::Report => 5,
            StepNumber::Remember => 6,
            StepNumber::Settle => 7,
            StepNumber::Undo => 8,
            StepNumber::Store => 9,
            StepNumber::Take => 10,
        }
    }
}
