//! Two cache lines of slots.

use tollgate_core::Now;

use crate::pair::{Pair, Seen};
use crate::tag::{Heat, Tag};

/// Slots in a bucket.
#[cfg(not(loom))]
pub(crate) const SLOTS: usize = 8;
/// The model checker explores two buckets of two slots: more of them only take longer.
#[cfg(loom)]
pub(crate) const SLOTS: usize = 2;
/// Up to how many slots in use a bucket is taken without looking whether the other is emptier.
pub(crate) const ROOMY_MAX: usize = SLOTS / 2;

/// Two cache lines of slots.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Bucket {
    pub(crate) slots: [Pair; SLOTS],
}

/// What an insertion wants to know about a bucket.
#[derive(Default)]
pub(crate) struct Room<'t> {
    /// A slot that nobody ever owned.
    pub(crate) empty: Option<(&'t Pair, Seen)>,
    /// The slot whose owner was forgotten first.
    forgotten: Option<(&'t Pair, Seen)>,
    pub(crate) owned: usize,
    live: usize,
}

// === impl Bucket ===

impl Bucket {
    /// The slot of the key with this fingerprint, and what it held.
    #[inline]
    pub(crate) fn find(&self, fingerprint: u64) -> Option<(&Pair, Seen)> {
        // All are compared before any branch: where a key stands nobody can predict.
        let mut matches = Pair::matches(&self.slots, Tag::low(fingerprint));
        while matches != 0 {
            let slot = &self.slots[first_of(matches)];
            let seen = slot.load();
            if seen.tag.is_of(fingerprint) {
                return Some((slot, seen));
            }
            // Another key with the same lower half of its fingerprint: one in 2^32.
            matches &= matches - 1;
        }
        None
    }

    /// How much room there is.
    pub(crate) fn room(&self, now: Now) -> Room<'_> {
        let mut room = Room::default();
        for slot in &self.slots {
            let seen = slot.load();
            if seen.tag == Tag::default() {
                room.empty = room.empty.or(Some((slot, seen)));
                continue;
            }
            room.owned += 1;
            let earlier = |(_, other): (_, Seen)| seen.word < other.word;
            if is_live(seen, now) {
                room.live += 1;
            } else if room.forgotten.is_none_or(earlier) {
                room.forgotten = Some((slot, seen));
            }
        }
        room
    }
}

/// The number of the lowest bit that is set, of those of one bucket.
#[inline]
fn first_of(matches: u8) -> usize {
    usize::try_from(matches.trailing_zeros()).unwrap_or(0) % SLOTS
}

/// Whether a slot's key is remembered at `now`; one that an unfinished decision holds counts.
#[inline]
pub(crate) fn is_live(seen: Seen, now: Now) -> bool {
    seen.word > now.on(seen.tag.timeline()).as_nanos() || seen.tag.is_locked()
}

/// What eviction orders live keys by: the smallest goes first.
pub(crate) fn standing(seen: Seen, now: Now) -> (Heat, u64) {
    let now = now.on(seen.tag.timeline()).as_nanos();
    (seen.tag.heat(), seen.word.saturating_sub(now))
}

// === impl Room ===

impl<'t> Room<'t> {
    /// A slot whose taking loses nothing.
    pub(crate) const fn free(&self) -> Option<(&'t Pair, Seen)> {
        if self.empty.is_some() {
            self.empty
        } else {
            self.forgotten
        }
    }

    /// What is to be even between the two buckets: live keys where there are many, and below that
    /// owned slots, so that a key that is asked for again finds its slot.
    pub(crate) fn weight(&self) -> (usize, usize) {
        (self.live.max(ROOMY_MAX), self.owned)
    }
}
