//! Two words that change together: who owns a slot, and what is remembered.
//!
//! A slot ([`Pair`]) is read and replaced as a whole, so that a word is never changed without proof
//! whose it is. It has three forms, each in its file: the instructions of x86-64, those that
//! `portable-atomic` finds on other processors, and the model checker's.

use crate::tag::Tag;

#[cfg(all(not(loom), target_arch = "x86_64", not(miri)))]
#[path = "pair/x86_64.rs"]
mod cell;

#[cfg(all(not(loom), not(all(target_arch = "x86_64", not(miri)))))]
#[path = "pair/portable.rs"]
mod cell;

#[cfg(loom)]
#[path = "pair/model.rs"]
mod cell;

pub(crate) use cell::Pair;

/// What a slot held at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Whose it is.
    pub(crate) tag: Tag,
    /// What is remembered: a moment from which on nothing is.
    pub(crate) word: u64,
}
