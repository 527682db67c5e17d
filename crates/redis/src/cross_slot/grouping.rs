//! How the lines of a round are divided into parts, each of one script call.

use tollgate_core::Key;

use crate::keys;

/// How lines are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    /// Each slot is redirected on its own.
    BySlot,
    /// While a slot migrates, its keys may be on two nodes, and each is redirected on its own.
    ByKey,
}

// === impl Grouping ===

impl Grouping {
    pub(super) const fn new(is_split: bool) -> Grouping {
        match is_split {
            false => Grouping::BySlot,
            true => Grouping::ByKey,
        }
    }

    /// What all keys of a part have in common; parts are ordered by it.
    pub(super) fn part_of(self, key: Key) -> (u16, Option<Key>) {
        let only = (self == Grouping::ByKey).then_some(key);
        (keys::slot(key), only)
    }
}
