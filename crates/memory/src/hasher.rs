//! Keys for this store: SipHash-1-3 with 128 bits of output, keyed at random in each store.

use std::hash::{BuildHasher, Hash, RandomState};

use siphasher::sip128::{Hasher128, SipHasher13};
use tollgate_core::{Key, KeyHasher};

/// Makes the keys of one store, which mean nothing to any other.
///
/// The secret is 128 random bits. Without it nobody can aim two keys at one counter, or many keys at
/// one bucket of the store; this is why the hash is SipHash (Aumasson and Bernstein, 2012) and not
/// one of the faster ones that make no such promise.
#[derive(Clone, Debug)]
pub struct RandomKeys {
    fresh: SipHasher13,
}

// === impl RandomKeys ===

impl RandomKeys {
    /// A new secret.
    pub fn new() -> RandomKeys {
        // The standard library's own random keys, which it takes from the operating system.
        let random = RandomState::new();
        RandomKeys::with_secret(random.hash_one(0u8), random.hash_one(1u8))
    }

    /// A given secret: for tests that must repeat.
    pub fn with_secret(first: u64, second: u64) -> RandomKeys {
        RandomKeys {
            fresh: SipHasher13::new_with_keys(first, second),
        }
    }

    /// The key of anything that can be hashed.
    #[inline]
    pub fn of<T: Hash + ?Sized>(&self, value: &T) -> Key {
        let mut hasher = self.fresh;
        value.hash(&mut hasher);
        key(&hasher)
    }
}

impl Default for RandomKeys {
    fn default() -> RandomKeys {
        RandomKeys::new()
    }
}

impl KeyHasher for RandomKeys {
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key {
        let mut hasher = self.fresh;
        // `[u8]` hashes its length first, so the borders between parts count.
        parts.for_each(|part| part.hash(&mut hasher));
        key(&hasher)
    }
}

#[inline]
fn key(hasher: &SipHasher13) -> Key {
    Key::from_bits(hasher.finish128().as_u128())
}
