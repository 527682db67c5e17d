//! One cache line of slots.

use tollgate_core::Now;

use crate::pair::{Pair, SlotValue};
use crate::tag::{Heat, Tag};

/// Slots in a line.
#[cfg(not(tollgate_loom))]
pub(crate) const SLOTS: usize = 4;
/// The model checker explores two buckets of two lines of one slot: more only take longer.
#[cfg(tollgate_loom)]
pub(crate) const SLOTS: usize = 1;

/// One cache line of slots.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct CacheLine {
    pub(crate) slots: [Pair; SLOTS],
}

/// How full a line is, or the two of a bucket.
#[derive(Default)]
pub(crate) struct Room<'t> {
    /// A slot without a live key.
    pub(crate) free: Option<(&'t Pair, SlotValue)>,
    pub(crate) owned: usize,
    live: usize,
}

// === impl CacheLine ===

impl CacheLine {
    /// The slot of the key with this fingerprint, and its current value.
    #[inline(always)]
    pub(crate) fn find(&self, fingerprint: u64) -> Option<(&Pair, SlotValue)> {
        // All are compared before any branch: branches on a key's position are unpredictable.
        let mut matches = Pair::matches(&self.slots, Tag::low(fingerprint));
        while matches != 0 {
            let slot = &self.slots[lowest_bit(matches)];
            let current = slot.load();
            if current.tag.is_of(fingerprint) {
                return Some((slot, current));
            }
            // Another key with the same lower half of its fingerprint: one in 2^32.
            matches &= matches - 1;
        }
        None
    }

    /// The first slot whose key has the lower half of this fingerprint, which is the wrong key once
    /// in 2^32 times.
    #[inline(always)]
    pub(crate) fn find_likely(&self, fingerprint: u64) -> Option<&Pair> {
        match Pair::matches(&self.slots, Tag::low(fingerprint)) {
            0 => None,
            matches => Some(&self.slots[lowest_bit(matches)]),
        }
    }

    /// Counts the slots in use and finds a free one. A slot without an owner goes before one whose
    /// owner has expired, and of those the one that expired first, so that keys that come back find
    /// their slots.
    pub(crate) fn room(&self, now: Now) -> Room<'_> {
        let mut room = Room::default();
        let (mut empty, mut expired): (_, Option<(&Pair, SlotValue)>) = (None, None);
        for slot in &self.slots {
            let current = slot.load();
            if current.tag == Tag::default() {
                empty = empty.or(Some((slot, current)));
                continue;
            }
            room.owned += 1;
            let earlier = |(_, other): (_, SlotValue)| current.word < other.word;
            if is_live(current, now) {
                room.live += 1;
            } else if expired.is_none_or(earlier) {
                expired = Some((slot, current));
            }
        }
        room.free = empty.or(expired);
        room
    }
}

/// The number of the lowest bit that is set, of those of one line.
#[inline]
fn lowest_bit(matches: u32) -> usize {
    usize::try_from(matches.trailing_zeros()).unwrap_or(0) % SLOTS
}

/// Whether a slot's key is live at `now`; a locked slot counts as live.
#[inline]
pub(crate) fn is_live(current: SlotValue, now: Now) -> bool {
    current.word > now.on(current.tag.timeline()).as_nanos() || current.tag.is_locked()
}

/// The order in which live keys are evicted: the smallest goes first.
pub(crate) fn eviction_order(current: SlotValue, now: Now) -> (Heat, u64) {
    let now = now.on(current.tag.timeline()).as_nanos();
    (current.tag.heat(), current.word.saturating_sub(now))
}

// === impl Room ===

impl<'t> Room<'t> {
    /// The room of a bucket, whose line with this room is searched before the `other` one.
    pub(crate) fn plus(self, other: Room<'t>) -> Room<'t> {
        Room {
            free: self.free.or(other.free),
            owned: self.owned + other.owned,
            live: self.live + other.live,
        }
    }

    /// What insertions balance between two buckets: live keys where there are many, and below that
    /// owned slots, so that a key that comes back finds its slot.
    pub(crate) fn weight(&self) -> (usize, usize) {
        (self.live.max(SLOTS), self.owned)
    }
}
