//! How instances share a counter, by all versions of the rules file.

use tollgate_core::Mode;

use super::Counter;

// === impl Counter ===

impl Counter {
    /// Whether Redis makes every decision in every version: always if requests leave a part of the
    /// limit for others, or if the limit does not suit the mode.
    pub(crate) fn is_strict(&self) -> bool {
        let is_shared = |mode: &Mode| {
            *mode != Mode::Strict && self.limits.iter().any(|limit| mode.suits(limit))
        };
        self.keeps_share() || self.is_elastic() || !self.modes.iter().any(is_shared)
    }

    /// Whether instances count for themselves in some version.
    pub(crate) fn has_local_counts(&self) -> bool {
        !self.is_strict() && self.modes.contains(&Mode::WriteBack)
    }

    /// Whether instances lease units in some version.
    pub(crate) fn may_lease(&self) -> bool {
        !self.is_strict() && self.modes.contains(&Mode::Leased)
    }

    /// Whether versions of the rules file have different modes, which have an effect.
    pub(crate) fn changes_mode(&self) -> bool {
        !self.is_strict() && self.modes.iter().any(|mode| *mode != self.modes[0])
    }
}
