//! A hash of keys for the tables of a process that costs one multiplication.
//!
//! A key's bits are a hash already, but not always a keyed one: an attacker could search for values
//! whose keys collide in a table. A secret of the process prevents that.

use std::hash::{BuildHasher, Hasher};

/// Builds hashers of [`Key`](crate::Key) with one secret, for a `HashMap` by key.
#[derive(Clone, Copy, Debug)]
pub struct KeyFolding {
    secret: [u64; 2],
}

/// Folds the product of a key's halves, each mixed with a secret.
#[derive(Clone, Copy, Debug)]
pub struct KeyFold {
    secret: [u64; 2],
    state: u64,
}

// === impl KeyFolding ===

impl KeyFolding {
    /// Hashers with this secret, which clients must not be able to guess.
    pub const fn new(secret: [u64; 2]) -> KeyFolding {
        KeyFolding { secret }
    }
}

impl BuildHasher for KeyFolding {
    type Hasher = KeyFold;

    #[inline]
    fn build_hasher(&self) -> KeyFold {
        KeyFold {
            secret: self.secret,
            state: 0,
        }
    }
}

// === impl KeyFold ===

impl Hasher for KeyFold {
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
