//! What is counted.

/// What is counted, in 128 bits: the rule that matched and the values that it distinguishes.
///
/// A key is made by the store that will count it ([`crate::KeyHasher`]), from parts whose borders
/// are part of the hash, so that `("a", "bc")` and `("ab", "c")` differ. The in-process store keys
/// its hash at random, so that collisions cannot be aimed at; a shared store uses a hash that is
/// collision resistant without a secret. Each says how many of the bits it fills, and what the
/// chance of an accident is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u128);

// === impl Key ===

impl Key {
    /// The key with these bits, which a keyed or collision resistant hash has made.
    pub const fn from_bits(bits: u128) -> Key {
        Key(bits)
    }

    /// The bits, as the hash made them.
    pub const fn bits(self) -> u128 {
        self.0
    }
}
