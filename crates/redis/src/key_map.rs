//! Hash maps by key, with a hash that costs one multiplication.
//!
//! A key's bits are a hash already, but not a keyed one: an attacker could search for values whose
//! keys collide in a map. A secret of this process prevents that.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use tollgate_core::Key;

use crate::random::random_word;

/// A hash map by key.
pub(crate) type KeyMap<V> = HashMap<Key, V, Folding>;

/// Builds hashers with one secret.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folding {
    secret: [u64; 2],
}

/// Folds the product of a key's halves, each mixed with a secret.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fold {
    secret: [u64; 2],
    state: u64,
}

// === impl Folding ===

impl Default for Folding {
    fn default() -> Folding {
        Folding {
            secret: [random_word(), random_word()],
        }
    }
}

impl BuildHasher for Folding {
    type Hasher = Fold;

    #[inline]
    fn build_hasher(&self) -> Fold {
        Fold {
            secret: self.secret,
            state: 0,
        }
    }
}

// === impl Fold ===

impl Hasher for Fold {
    #[inline]
    fn write_u128(&mut self, bits: u128) {
        let high = u64::try_from(bits >> 64).unwrap_or(0) ^ self.secret[0];
        let low = u64::try_from(bits & u128::from(u64::MAX)).unwrap_or(0) ^ self.secret[1];
        let product = u128::from(high) * u128::from(low);
        let folded = (product >> 64) ^ (product & u128::from(u64::MAX));
        self.state ^= u64::try_from(folded).unwrap_or(0);
    }

    /// A key is written as one `u128`; any other input is mixed in as well.
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u128(u128::from(self.state) << 64 | u128::from(*byte));
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.state
    }
}
