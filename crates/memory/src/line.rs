//! One cache line of slots.

use tollgate_core::Now;

use crate::pair::{Pair, Seen};
use crate::tag::{Heat, Tag};

/// Slots in a line.
#[cfg(not(loom))]
pub(crate) const SLOTS: usize = 4;
/// The model checker explores two buckets of two lines of one slot: more only take longer.
#[cfg(loom)]
pub(crate) const SLOTS: usize = 1;

/// One cache line of slots.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Line {
    pub(crate) slots: [Pair; SLOTS],
}

/// What an insertion wants to know about a line, or about the two of a bucket.
#[derive(Default)]
pub(crate) struct Room<'t> {
    /// A slot whose taking loses nothing.
    pub(crate) free: Option<(&'t Pair, Seen)>,
    pub(crate) owned: usize,
    live: usize,
}

// === impl Line ===

impl Line {
    /// The slot of the key with this fingerprint, and what it held.
    #[inline(always)]
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

    /// The first slot whose key has the lower half of this fingerprint: all but one in 2^32 times
    /// the key with all of it.
    #[inline(always)]
    pub(crate) fn likely(&self, fingerprint: u64) -> Option<&Pair> {
        match Pair::matches(&self.slots, Tag::low(fingerprint)) {
            0 => None,
            matches => Some(&self.slots[first_of(matches)]),
        }
    }

    /// How much room there is. A slot that nobody owned goes before one whose owner is forgotten,
    /// and of those the one forgotten first, so that keys that come back find their slots.
    pub(crate) fn room(&self, now: Now) -> Room<'_> {
        let mut room = Room::default();
        let (mut empty, mut forgotten): (_, Option<(&Pair, Seen)>) = (None, None);
        for slot in &self.slots {
            let seen = slot.load();
            if seen.tag == Tag::default() {
                empty = empty.or(Some((slot, seen)));
                continue;
            }
            room.owned += 1;
            let earlier = |(_, other): (_, Seen)| seen.word < other.word;
            if is_live(seen, now) {
                room.live += 1;
            } else if forgotten.is_none_or(earlier) {
                forgotten = Some((slot, seen));
            }
        }
        room.free = empty.or(forgotten);
        room
    }
}

/// The number of the lowest bit that is set, of those of one line.
#[inline]
fn first_of(matches: u32) -> usize {
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
    /// The room of a bucket, of which the line with this room is searched before the `other` one.
    pub(crate) fn with(self, other: Room<'t>) -> Room<'t> {
        Room {
            free: self.free.or(other.free),
            owned: self.owned + other.owned,
            live: self.live + other.live,
        }
    }

    /// What is to be even between the two buckets: live keys where there are many, and below that
    /// owned slots, so that a key that is asked for again finds its slot.
    pub(crate) fn weight(&self) -> (usize, usize) {
        (self.live.max(SLOTS), self.owned)
    }
}
