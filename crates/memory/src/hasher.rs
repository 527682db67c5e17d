//! Keys of one store, hashed with a secret of its own.
//!
//! A client must not be able to choose two keys that share a counter, or many that share a bucket.
//! So the hash has a random secret, without which collisions cannot be aimed:
//!
//! * A key of any length goes through SipHash-1-3 (Aumasson and Bernstein, 2012), a pseudorandom
//!   function designed for this purpose.
//! * A key that is one integer of up to 64 bits, x, becomes the upper half of `a x + b` modulo
//!   2^128 with secret `a` and `b`. This family is strongly universal (Dietzfelbinger, 1996):
//!   whichever two integers are chosen in advance, their hashes are two independent random
//!   numbers. It takes a nanosecond, where SipHash takes six. For more than two it guarantees
//!   nothing: integers in even steps have hashes in even steps, and with one secret in twelve,
//!   thousands of them would share a few buckets. So the hash ends with a fixed bijection that
//!   scatters them, which keeps different hashes different.
//!
//! Hashes never leave the process, so they reveal nothing about the secrets. A key has 64 bits of
//! hash: any two of n keys collide with a probability below n^2 / 2^65, for a million keys 3 in
//! 10^8.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use siphasher::sip::SipHasher13;
use tollgate_core::{Key, KeyHasher};

/// An odd number with as many ones as zeroes, in no order: 2^64 over the golden ratio.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Enough for the identity of a rule, and two short values.
const GATHERED_BYTES: usize = 128;

/// Makes the keys of one store; no other store can use them.
#[derive(Clone)]
pub struct RandomKeys {
    sip: SipHasher13,
    multiplier: u128,
    summand: u128,
}

/// A key being hashed: a single integer as such, everything else in SipHash.
struct KeyState<'k> {
    keys: &'k RandomKeys,
    written: Written,
}

/// A key of several parts being hashed.
///
/// SipHash takes words of eight bytes. Parts that end within a word cost more than the words, so
/// short ones are gathered, and hashed together.
struct PartState {
    sip: SipHasher13,
    gathered: [u8; GATHERED_BYTES],
    /// How many of them are not hashed yet.
    length: usize,
}

enum Written {
    Nothing,
    Integer(u64),
    Bytes(SipHasher13),
}

// === impl RandomKeys ===

impl RandomKeys {
    /// A new secret from the operating system's randomness.
    pub fn new() -> RandomKeys {
        let random = RandomState::new();
        RandomKeys::from_words(std::array::from_fn(|number| random.hash_one(number)))
    }

    /// A given secret: for reproducible tests.
    pub fn with_secret(first: u64, second: u64) -> RandomKeys {
        let sip = SipHasher13::new_with_keys(first, second);
        RandomKeys::from_words(std::array::from_fn(|number| {
            let mut state = sip;
            state.write_usize(number);
            state.finish()
        }))
    }

    fn from_words(words: [u64; 6]) -> RandomKeys {
        let wide = |at: usize| (u128::from(words[at]) << 64) | u128::from(words[at + 1]);
        RandomKeys {
            sip: SipHasher13::new_with_keys(words[0], words[1]),
            multiplier: wide(2),
            summand: wide(4),
        }
    }

    /// The key of any hashable value.
    #[inline(always)]
    pub fn of<T: Hash + ?Sized>(&self, value: &T) -> Key {
        let mut state = KeyState {
            keys: self,
            written: Written::Nothing,
        };
        value.hash(&mut state);
        key(state.finish())
    }
}

impl Default for RandomKeys {
    fn default() -> RandomKeys {
        RandomKeys::new()
    }
}

impl std::fmt::Debug for RandomKeys {
    /// Does not print the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RandomKeys")
    }
}

impl KeyHasher for RandomKeys {
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key {
        let mut state = PartState::new(self.sip);
        parts.for_each(|part| state.write(part));
        key(state.finish())
    }
}

#[inline]
fn key(hash: u64) -> Key {
    Key::from_bits((u128::from(hash) << 64) | u128::from(hash))
}

// === impl PartState ===

impl PartState {
    const fn new(sip: SipHasher13) -> PartState {
        PartState {
            sip,
            gathered: [0; GATHERED_BYTES],
            length: 0,
        }
    }

    /// Adds a part after its length, so that the boundaries between parts count.
    #[inline]
    fn write(&mut self, part: &[u8]) {
        let length = part.len().to_le_bytes();
        if self.append(&length, part) {
            return;
        }
        self.flush();
        if !self.append(&length, part) {
            self.sip.write(&length);
            self.sip.write(part);
        }
    }

    /// Gathers a length and a part; whether there was room for them.
    #[inline]
    fn append(&mut self, length: &[u8], part: &[u8]) -> bool {
        let begin = self.length + length.len();
        let end = begin + part.len();
        let Some(place) = self.gathered.get_mut(self.length..end) else {
            return false;
        };
        let (before, after) = place.split_at_mut(length.len());
        before.copy_from_slice(length);
        after.copy_from_slice(part);
        self.length = end;
        true
    }

    fn flush(&mut self) {
        self.sip.write(&self.gathered[..self.length]);
        self.length = 0;
    }

    #[inline]
    fn finish(mut self) -> u64 {
        self.flush();
        self.sip.finish()
    }
}

// === impl KeyState ===

impl KeyState<'_> {
    #[inline]
    fn write_integer(&mut self, integer: u64) {
        match &mut self.written {
            Written::Nothing => self.written = Written::Integer(integer),
            _ => self.bytes().write_u64(integer),
        }
    }

    /// The SipHash state, with everything written so far.
    fn bytes(&mut self) -> &mut SipHasher13 {
        if !matches!(self.written, Written::Bytes(_)) {
            let mut sip = self.keys.sip;
            if let Written::Integer(integer) = self.written {
                sip.write_u64(integer);
            }
            self.written = Written::Bytes(sip);
        }
        match &mut self.written {
            Written::Bytes(sip) => sip,
            _ => unreachable!("set above"),
        }
    }
}

impl Hasher for KeyState<'_> {
    #[inline(always)]
    fn finish(&self) -> u64 {
        match &self.written {
            Written::Nothing => self.keys.sip.finish(),
            Written::Integer(integer) => {
                let product = self.keys.multiplier.wrapping_mul(u128::from(*integer));
                scatter(upper_half(product.wrapping_add(self.keys.summand)))
            }
            Written::Bytes(sip) => sip.finish(),
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.bytes().write(bytes);
    }

    #[inline]
    fn write_u8(&mut self, integer: u8) {
        self.write_integer(u64::from(integer));
    }

    #[inline]
    fn write_u16(&mut self, integer: u16) {
        self.write_integer(u64::from(integer));
    }

    #[inline]
    fn write_u32(&mut self, integer: u32) {
        self.write_integer(u64::from(integer));
    }

    #[inline]
    fn write_u64(&mut self, integer: u64) {
        self.write_integer(integer);
    }

    #[inline]
    #[expect(
        clippy::as_conversions,
        reason = "a usize has at most 64 bits on every target"
    )]
    fn write_usize(&mut self, integer: usize) {
        self.write_integer(integer as u64);
    }
}

/// A bijection of 64 bits after which numbers in even steps are in even steps no longer.
#[inline]
const fn scatter(hash: u64) -> u64 {
    let folded = (hash ^ (hash >> 32)).wrapping_mul(ODD);
    folded ^ (folded >> 32)
}

#[inline]
#[expect(
    clippy::as_conversions,
    reason = "one half of a word of twice its width"
)]
const fn upper_half(wide: u128) -> u64 {
    (wide >> 64) as u64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::HashSet;

    use super::*;

    #[test]
    fn different_values_have_different_keys_and_equal_values_the_same() {
        let keys = RandomKeys::with_secret(1, 2);
        let mut current = HashSet::new();
        assert!((0..100_000u64).all(|number| current.insert(keys.of(&number))));
        assert!((0..10_000u64).all(|number| current.insert(keys.of(&(number, 0u64)))));
        assert!((0..10_000u64).all(|number| current.insert(keys.of(&number.to_string()))));
        assert_eq!(keys.of("alice"), keys.of(&String::from("alice")));
        assert_eq!(keys.of(&7u64), keys.of(&7u64));
        assert_ne!(keys.of(&("a", "bc")), keys.of(&("ab", "c")));
    }

    #[test]
    fn boundaries_between_parts_count() {
        let keys = RandomKeys::new();
        let key = |parts: &[&str]| keys.key(parts.iter().map(|part| part.as_bytes()));
        assert_ne!(key(&["a", "bc"]), key(&["ab", "c"]));
        assert_ne!(key(&["a", ""]), key(&["a"]));
    }

    /// However long they are, and wherever the room for short ones ends.
    #[test]
    fn parts_are_hashed_with_their_lengths_one_after_the_other() {
        let keys = RandomKeys::new();
        let bytes: Vec<u8> = (0..=255).cycle().take(1_000).collect();
        for first in 0..300 {
            for second in [0, 1, 7, 8, 9, 111, 112, 113, 120, 121, 127, 128, 300] {
                let parts = [&bytes[..first], &bytes[7..7 + second], &bytes[3..20]];
                let mut sip = keys.sip;
                for part in parts {
                    sip.write(&part.len().to_le_bytes());
                    sip.write(part);
                }
                assert_eq!(keys.key(parts.into_iter()), key(sip.finish()));
            }
        }
    }

    #[test]
    fn another_secret_makes_other_keys() {
        assert_ne!(RandomKeys::new().of(&1u64), RandomKeys::new().of(&1u64));
        assert_ne!(
            RandomKeys::with_secret(1, 2).of("a"),
            RandomKeys::with_secret(1, 3).of("a")
        );
    }

    /// Buckets are chosen by the upper bits: consecutive integers must spread over them evenly.
    #[test]
    fn integers_spread() {
        let keys = RandomKeys::with_secret(3, 4);
        let mut counts = [0u32; 64];
        for number in 0..64_000u64 {
            let bucket = keys.of(&number).bits() >> 122;
            counts[usize::try_from(bucket).unwrap()] += 1;
        }
        assert!(
            counts.iter().all(|count| (500..2_000).contains(count)),
            "{counts:?}"
        );
    }
}
