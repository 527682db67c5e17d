//! Two words that change together: the owner of a slot and its state.
//!
//! A slot ([`Pair`]) is read and replaced as a whole, so that a word is never changed after its
//! slot has gone to another key. There are three implementations, each in its file: instructions of
//! x86-64, `portable-atomic` for other processors, and the model checker's.

use crate::tag::Tag;

#[cfg(all(not(tollgate_loom), target_arch = "x86_64", not(miri)))]
#[path = "pair/x86_64.rs"]
mod cell;

#[cfg(all(not(tollgate_loom), not(all(target_arch = "x86_64", not(miri)))))]
#[path = "pair/portable.rs"]
mod cell;

#[cfg(tollgate_loom)]
#[path = "pair/model.rs"]
mod cell;

pub(crate) use cell::Pair;

/// The value of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotValue {
    /// The owner.
    pub(crate) tag: Tag,
    /// The owner's state. Read as a moment, it says when that state expires.
    pub(crate) word: u64,
}

// === impl SlotValue ===

impl SlotValue {
    /// Whether nothing is stored: the state is that of a key never seen.
    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.word == 0
    }
}
