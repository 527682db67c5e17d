//! A limit as its rules file has it, for the caller who knows which limits its store can keep.

use tollgate_core::{Limit, Sharing};

/// A limit of a rules file.
#[derive(Clone, Copy, Debug)]
pub struct WrittenLimit<'a> {
    /// Its domain.
    pub domain: &'a str,
    /// The keys of the descriptors that lead to it, from the top.
    pub keys: &'a [&'a str],
    /// The limit.
    pub limit: &'a Limit,
    /// How instances share it.
    pub sharing: Sharing,
}
