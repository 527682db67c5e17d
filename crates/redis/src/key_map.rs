//! Hash maps by key, with a hash that costs one multiplication.

use std::collections::HashMap;
use std::hash::BuildHasher;

use tollgate_core::{Key, KeyFold, KeyFolding};

use crate::random::random_word;

/// A hash map by key.
pub(crate) type KeyMap<V> = HashMap<Key, V, Folding>;

/// Builds hashers with a secret of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folding(KeyFolding);

// === impl Folding ===

impl Default for Folding {
    fn default() -> Folding {
        Folding(KeyFolding::new([random_word(), random_word()]))
    }
}

impl BuildHasher for Folding {
    type Hasher = KeyFold;

    #[inline]
    fn build_hasher(&self) -> KeyFold {
        self.0.build_hasher()
    }
}
