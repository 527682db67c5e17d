//! When a caller drops its decision or its settlement.

/// When a caller drops its future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    /// After so many polls: at the moment when it begins to wait for something.
    Polls(u32),
    /// So many milliseconds after it began, and after other tasks have run so often: at any moment
    /// while it waits.
    Time { millis: u64, yields: u32 },
}

// === impl Cancel ===

impl Cancel {
    /// After how many polls, if that is when.
    pub(crate) const fn polls(self) -> Option<u32> {
        match self {
            Cancel::Polls(polls) => Some(polls),
            Cancel::Time { .. } => None,
        }
    }
}
