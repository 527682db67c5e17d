//! Keys: what a counter belongs to.

/// What a counter belongs to: a 128-bit hash of the matched rule and the values it distinguishes.
///
/// The store that counts a key also makes it ([`crate::KeyHasher`]), from parts whose boundaries
/// are part of the hash, so `("a", "bc")` and `("ab", "c")` differ. The in-process store hashes
/// with a random secret, so that nobody can construct a collision; a shared store uses a
/// collision-resistant hash without a secret. Each documents how many bits it uses and how likely a
/// collision is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u128);

// === impl Key ===

impl Key {
    /// The key with these bits, which must come from a keyed or collision-resistant hash.
    pub const fn from_bits(bits: u128) -> Key {
        Key(bits)
    }

    /// The bits of the hash.
    pub const fn bits(self) -> u128 {
        self.0
    }
}
