//! The names of keys in Redis.
//!
//! The parts of a key are hashed with BLAKE3: no secret and no client's value ever appears in
//! Redis, and two keys with the same counter cannot be constructed, although the hash is not keyed
//! (every instance must compute the same name). An address or another short value can still be
//! found by hashing all candidates; that is accepted, since it requires access to Redis.
//!
//! A name is `PREFIX{TAG}REST`, in the alphabet of base64url. In a Cluster, the hash tag in braces
//! chooses the slot. It is made from the values alone and not from the rule: all limits of one
//! identity (per minute, per hour and per day of one user) are in one slot, and one script decides
//! on them. The first [`RULE_PARTS`] parts of a key name the rule. A caller that builds keys
//! differently loses only this property.

use tollgate_core::Key;

/// The parts of a key that name the rule; the parts after them are the identity.
const RULE_PARTS: usize = 2;
/// Bits of a key that are its hash tag.
const TAG_BITS: u32 = 16;
/// Letters for the bits of the hash tag, and for the others.
const TAG_LETTERS: usize = 3;
const REST_LETTERS: usize = 19;
/// Slots of a Redis Cluster.
pub(crate) const SLOTS: usize = 16_384;
/// Letters of a name after the prefix.
pub(crate) const NAME_LETTERS: usize = TAG_LETTERS + REST_LETTERS + 2;
/// See [`crc16`].
const CRC16: [u16; 256] = crc16_of_bytes();
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A counter's name in Redis, without the prefix.
pub(crate) type Name = [u8; NAME_LETTERS];

/// The key of `parts`. Their boundaries matter: `a`, `bc` is not `ab`, `c`.
pub(crate) fn key<'p>(parts: impl Iterator<Item = &'p [u8]>) -> Key {
    let mut hasher = blake3::Hasher::new();
    let mut tag = Fnv::new();
    for (index, part) in parts.enumerate() {
        let length = u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes();
        hasher.update(&length);
        hasher.update(part);
        if index >= RULE_PARTS {
            tag.update(&length);
            tag.update(part);
        }
    }
    let mut bytes = [0; 16];
    hasher.finalize_xof().fill(&mut bytes);
    let rest = u128::from_be_bytes(bytes) >> TAG_BITS;
    Key::from_bits(u128::from(tag.fold()) << (128 - TAG_BITS) | rest)
}

/// The name of a key.
pub(crate) fn name(key: Key) -> Name {
    let bits = key.bits();
    let mut name = [0; NAME_LETTERS];
    name[0] = b'{';
    letters(bits >> (128 - TAG_BITS), &mut name[1..=TAG_LETTERS]);
    name[TAG_LETTERS + 1] = b'}';
    letters(bits, &mut name[TAG_LETTERS + 2..]);
    name
}

/// A key in the same slot that is of no rule.
pub(crate) fn trial_key(key: Key) -> Key {
    let own = self::key(std::iter::once(&b"tollgate: trial"[..]));
    beside(key, own.bits())
}

/// A key in the same slot, whose other bits are the lowest of `rest`.
pub(crate) fn beside(key: Key, rest: u128) -> Key {
    let tag = key.bits() >> (128 - TAG_BITS) << (128 - TAG_BITS);
    Key::from_bits(tag | rest << TAG_BITS >> TAG_BITS)
}

/// The slot of a key in a Cluster.
pub(crate) fn slot(key: Key) -> u16 {
    let mut tag = [0; TAG_LETTERS];
    letters(key.bits() >> (128 - TAG_BITS), &mut tag);
    slot_of(&tag)
}

/// The slot of a name with this hash tag.
pub(crate) fn slot_of(tag: &[u8]) -> u16 {
    crc16(tag) % 16_384
}

/// Writes the lowest bits of `bits`, six to a letter.
fn letters(bits: u128, into: &mut [u8]) {
    let mut bits = bits;
    for letter in into.iter_mut().rev() {
        let index = usize::try_from(bits & 63).unwrap_or(0);
        *letter = ALPHABET[index];
        bits >>= 6;
    }
}

/// The checksum from which a Cluster derives slots (CRC-16/XMODEM).
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        let [high, low] = u16::to_be_bytes(crc);
        u16::from_be_bytes([low, 0]) ^ CRC16[usize::from(high ^ byte)]
    })
}

/// The checksum of each single byte.
const fn crc16_of_bytes() -> [u16; 256] {
    let mut table = [0; 256];
    let (mut byte, mut place) = (0_u16, 0);
    while place < table.len() {
        let (mut crc, mut bits) = (byte << 8, 8);
        while bits > 0 {
            crc = match crc & 0x8000 {
                0 => crc << 1,
                _ => (crc << 1) ^ 0x1021,
            };
            bits -= 1;
        }
        table[place] = crc;
        (byte, place) = (byte + 1, place + 1);
    }
    table
}

/// A non-cryptographic hash (FNV-1a) for the slot, which is no secret.
struct Fnv(u64);

// === impl Fnv ===

impl Fnv {
    const fn new() -> Fnv {
        Fnv(0xCBF2_9CE4_8422_2325)
    }

    fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    fn fold(&self) -> u16 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        u16::try_from(mixed >> 48).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashSet;

    use super::*;

    fn of(parts: &[&str]) -> Key {
        key(parts.iter().map(|part| part.as_bytes()))
    }

    #[test]
    fn the_checksum_is_redis_own() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
    }

    #[test]
    fn borders_and_rules_count() {
        let keys = [
            of(&["r", "1", "a", "bc"]),
            of(&["r", "1", "ab", "c"]),
            of(&["r", "2", "a", "bc"]),
            of(&["r", "1", "a", "bc", ""]),
        ];
        let names: HashSet<Name> = keys.into_iter().map(name).collect();
        assert_eq!(names.len(), keys.len());
    }

    #[test]
    fn limits_of_one_identity_share_a_slot() {
        let slots = ["minute", "hour"].map(|rule| slot(of(&["r", rule, "alice"])));
        assert_eq!(slots[0], slots[1]);
    }

    #[test]
    fn identities_spread_over_the_slots() {
        let users = (0..16_384).map(|user| slot(of(&["r", "1", &format!("user-{user}")])));
        let mut load = vec![0; 64];
        for slot in users {
            load[usize::from(slot) / 256] += 1;
        }
        // 256 expected; six standard deviations are 96.
        assert!(
            load.iter().all(|count| (160..352).contains(count)),
            "{load:?}"
        );
    }
}
