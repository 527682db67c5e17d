//! A slot's owner and the form of its state, in one word.

use tollgate_core::{Charge, Decision, Key, Timeline};

/// A slot's owner: a part of its key's hash, and how to read its state.
///
/// | bits | meaning |
/// |---|---|
/// | 63 | locked by an unfinished decision |
/// | 62 | spilled: the state is in the arena, the word says where |
/// | 61 | the word is a moment of UTC, not of the monotonic clock |
/// | 59, 60 | heat: what eviction protects |
/// | 51..=58 | the revision of the limit under which the state was made |
/// | 0..=50 | the fingerprint, never 0 |
///
/// A key has 64 bits of hash ([`crate::RandomKeys`]). All of them choose its two buckets, and 51
/// are the fingerprint. A key is compared with at most 16 slots, so it is mistaken for another
/// with a chance of at most 16 / 2^51 = 7 in 10^15, and any of a million keys with a chance below
/// 10^-8. The hash has a random secret in each store, so a collision cannot be aimed at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tag(u64);

/// What eviction protects: of live keys the coldest goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Heat {
    /// Charged once: what a flood of new keys consists of.
    New,
    /// Charged again while it was live.
    Returning,
    /// Denied: its eviction would let the client start over.
    Denied,
}

impl Heat {
    /// The heat of a slot after a decision that charged it, or after a settlement without one;
    /// `was_live` says whether its state was live before.
    #[inline(always)]
    pub(crate) const fn after(self, was_live: bool, decision: Option<&Decision>) -> Heat {
        match (self, decision) {
            // A client that keeps hammering stays marked after its key has expired.
            (Heat::Denied, _) | (_, Some(Decision::Deny(_))) => Heat::Denied,
            _ if !was_live => Heat::New,
            (heat, None) => heat,
            (_, Some(Decision::Allow(_))) => Heat::Returning,
        }
    }
}

const LOCKED: u64 = 1 << 63;
const SPILLED: u64 = 1 << 62;
const UTC: u64 = 1 << 61;
const HEAT_SHIFT: u32 = 59;
const HEAT: u64 = 0b11 << HEAT_SHIFT;
const REVISION_SHIFT: u32 = 51;
const REVISION: u64 = 0xff << REVISION_SHIFT;
const FINGERPRINT: u64 = (1 << REVISION_SHIFT) - 1;
const _: () = assert!(LOCKED ^ SPILLED ^ UTC ^ HEAT ^ REVISION ^ FINGERPRINT == u64::MAX);

// === impl Tag ===

impl Tag {
    /// The tag of a new slot for a charge's key.
    #[inline]
    pub(crate) fn of(charge: &Charge<'_>) -> Tag {
        let revision = charge.history.revision();
        Tag::new(charge.key, revision, charge.limit.timeline())
    }

    /// The tag of `key`'s new slot.
    #[inline]
    pub(crate) fn new(key: Key, revision: u8, timeline: Timeline) -> Tag {
        let utc = if timeline == Timeline::Utc { UTC } else { 0 };
        Tag(Tag::fingerprint(key) | u64::from(revision) << REVISION_SHIFT | utc)
    }

    /// The part of the tag that identifies the key.
    #[inline]
    pub(crate) fn fingerprint(key: Key) -> u64 {
        let [high, _] = halves(key);
        (high & FINGERPRINT).max(1)
    }

    #[cfg(not(tollgate_loom))]
    pub(crate) const fn from_bits(bits: u64) -> Tag {
        Tag(bits)
    }

    #[inline]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) const fn is_of(self, fingerprint: u64) -> bool {
        (self.0 ^ fingerprint) & FINGERPRINT == 0
    }

    /// The lower half of a fingerprint, by which a bucket is searched first.
    #[inline]
    #[expect(clippy::as_conversions, reason = "the lower half of a word")]
    pub(crate) const fn low(fingerprint: u64) -> u32 {
        fingerprint as u32
    }

    #[cfg(any(tollgate_loom, miri, not(target_arch = "x86_64")))]
    pub(crate) const fn has_low(self, low: u32) -> bool {
        Tag::low(self.0) == low
    }

    #[inline]
    pub(crate) const fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    /// The fingerprint alone.
    pub(crate) const fn fingerprint_bits(self) -> u64 {
        self.0 & FINGERPRINT
    }

    pub(crate) const fn with_lock(self) -> Tag {
        Tag(self.0 | LOCKED)
    }

    pub(crate) const fn without_lock(self) -> Tag {
        Tag(self.0 & !LOCKED)
    }

    /// Whether all but the heat equals `expected`: the owner, the revision of the limit under which
    /// the state was made, its clock, and where it is. A locked slot never matches an unlocked tag.
    #[inline]
    pub(crate) const fn matches_except_heat(self, expected: Tag) -> bool {
        self.0 & !HEAT == expected.0
    }

    #[inline]
    pub(crate) const fn is_spilled(self) -> bool {
        self.0 & SPILLED != 0
    }

    pub(crate) const fn with_spill(self) -> Tag {
        Tag(self.0 | SPILLED)
    }

    pub(crate) const fn without_spill(self) -> Tag {
        Tag(self.0 & !SPILLED)
    }

    /// The tag of the same owner, unlocked, with a state in one word that was made under another
    /// limit.
    pub(crate) fn with_limit(self, revision: u8, timeline: Timeline) -> Tag {
        let utc = if timeline == Timeline::Utc { UTC } else { 0 };
        let owner = self.0 & (FINGERPRINT | HEAT);
        Tag(owner | u64::from(revision) << REVISION_SHIFT | utc)
    }

    /// The clock that the slot's word is a moment of.
    #[inline]
    pub(crate) const fn timeline(self) -> Timeline {
        if self.0 & UTC != 0 {
            Timeline::Utc
        } else {
            Timeline::Monotonic
        }
    }

    #[inline]
    pub(crate) fn revision(self) -> u8 {
        u8::try_from((self.0 & REVISION) >> REVISION_SHIFT).unwrap_or(u8::MAX)
    }

    #[inline]
    pub(crate) const fn heat(self) -> Heat {
        match (self.0 & HEAT) >> HEAT_SHIFT {
            0 => Heat::New,
            1 => Heat::Returning,
            _ => Heat::Denied,
        }
    }

    #[inline]
    pub(crate) const fn with_heat(self, heat: Heat) -> Tag {
        let bits = match heat {
            Heat::New => 0,
            Heat::Returning => 1,
            Heat::Denied => 2,
        };
        Tag(self.0 & !HEAT | bits << HEAT_SHIFT)
    }
}

/// The two halves of a key's bits: one for the fingerprint, one for its buckets.
#[inline]
pub(crate) fn halves(key: Key) -> [u64; 2] {
    let bytes = key.bits().to_le_bytes();
    let (low, high) = bytes.split_at(8);
    let half = |part: &[u8]| part.try_into().map_or(0, u64::from_le_bytes);
    [half(high), half(low)]
}
