//! For which keys a limit is enforced, if that is a share of them.
//!
//! A key has a place from 0 to 9999, and is enforced if it is below the share. So more of them
//! are enforced as the share grows, and none that was before is not. The place is a hash of the
//! rule's identity and the key's values that nothing else changes: it is the same on all instances,
//! over all stores, and after a restart. It must stay so in later versions.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;
use tollgate_core::Enforcement;

use crate::domain::Rule;

/// The key of the hash: another one would enforce limits for other keys.
const HASH_KEY: (u64, u64) = (0x746f_6c6c_6761_7465, 0x656e_666f_7263_6531);
/// How many places there are.
const PLACES: u64 = 10_000;

/// How the limit of a rule is enforced for the key with these values.
pub(super) fn enforcement<'v>(
    rule: &'v Rule,
    values: impl Iterator<Item = &'v [u8]>,
) -> Enforcement {
    match rule.enforce {
        Some(percent) if place(&rule.identity, values) >= u64::from(percent) * (PLACES / 100) => {
            Enforcement::Shadow
        }
        _ => rule.enforcement,
    }
}

fn place<'v>(identity: &'v [u8], values: impl Iterator<Item = &'v [u8]>) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(HASH_KEY.0, HASH_KEY.1);
    for part in [identity].into_iter().chain(values) {
        // Behind its length, so that no two lists of values are the same bytes.
        let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
        hasher.write(&length.to_be_bytes());
        hasher.write(part);
    }
    hasher.finish() % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_never_change() {
        let place = |identity: &str, values: &[&str]| {
            let values = values.iter().map(|value| value.as_bytes());
            place(identity.as_bytes(), values)
        };
        let places = [
            place("rule", &["alice"]),
            place("rule", &["bob"]),
            place("rule", &["ab", "c"]),
            place("rule", &["a", "bc"]),
            place("other", &["alice"]),
            place("", &[]),
        ];
        assert_eq!(places, [5077, 4238, 1426, 9169, 2627, 1195]);
    }
}
