//! The line table: where every key's slot is.
//!
//! A line of memory has four slots, a bucket is two adjacent lines, and a key may live in two
//! buckets, in each of which one line is its home. A slot's word, read as a moment, is when its
//! state expires. A slot whose moment has passed is free, whichever key owned it: expiry needs no
//! action, there is no sweeper, and the memory is what was allocated at the start.
//!
//! **Finding** compares fingerprints in the first home, where four keys in five are, then in the
//! second home, and then in the lines beside the two. **Changing** a slot
//! is one 16-byte compare-and-swap of owner and word together, so a charge cannot land on the
//! slot's next owner. **Inserting** is serialised for each first bucket by a short lock, under
//! which both buckets are searched again: a key that two threads insert never has two slots. A
//! decision that charges several limits locks their slots; other threads wait for them.
//!
//! **Choosing** a free slot prefers the first bucket while it is roomy ([`ROOMY_MAX`]), then the
//! emptier of both, and there the key's home while that has room. So most decisions wait for one
//! line of memory only, and hardly more keys are evicted than if the emptiest line were taken.
//!
//! **Evicting** is for when all sixteen slots are live, and every eviction of a live key is
//! counted. Keys that were charged only once go first ([`Heat`]), in the order of a clock hand that
//! passes over their slots: a key that comes back within a dozen insertions is still there, however
//! short its window is compared with those of a flood. Next go keys that came back, then keys that
//! were denied, among equals the one that expires first. A denied key that was evicted is protected
//! when it returns ([`Ghosts`]).

use tollgate_core::{Key, Now, StoreError};

use std::sync::atomic::AtomicU8;

use crate::cache_line::{CacheLine, Room, SLOTS, eviction_order, is_live};
use crate::cache_lines::CacheLines;
use crate::ghosts::Ghosts;
use crate::pair::{Pair, SlotValue};
use crate::prefetch::prefetch;
use crate::spilled_slots::SpilledSlots;
use crate::sync::{AtomicBool, AtomicU64, Backoff, Ordering};
use crate::tag::{Heat, halves};

pub(crate) mod size;

/// Up to how many owned slots a bucket is taken without checking whether the other is emptier.
const ROOMY_MAX: usize = SLOTS;
/// The fewest buckets. With these, a decision on the most keys that a request may have never finds
/// that it has locked all slots of the next key itself.
#[cfg(not(tollgate_loom))]
const BUCKETS_MIN: usize = tollgate_core::CHARGES_MAX;
#[cfg(tollgate_loom)]
const BUCKETS_MIN: usize = 2;
/// Locks that serialise insertions.
#[cfg(not(tollgate_loom))]
const INSERT_LOCKS: usize = 1024;
#[cfg(tollgate_loom)]
const INSERT_LOCKS: usize = 2;
/// Bytes of a page of memory, where it is smallest.
const PAGE: usize = 4096;
/// How often an insertion chooses again after another thread took its slot.
const CHOICES_MAX: u32 = 1024;

/// A fixed number of slots, in which keys come and go.
#[derive(Debug)]
pub(crate) struct Table {
    /// Each two make a bucket.
    lines: CacheLines,
    /// For each bucket, the clock hand that evicts new keys.
    hands: Box<[AtomicU8]>,
    ghosts: Ghosts,
    spilled: SpilledSlots,
    insert_locks: Box<[AtomicBool]>,
    evicted: AtomicU64,
}

/// Where a key may live.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// The line that is its home in its first bucket.
    home: usize,
    /// The half of its hash from which both homes follow.
    bits: u64,
}

/// The result of an insertion.
#[derive(Debug)]
pub(crate) struct Inserted<'t> {
    /// The key's new slot.
    pub(crate) slot: &'t Pair,
    /// The slot's value: the inserted one, perhaps with another heat.
    pub(crate) current: SlotValue,
    /// The slot's value before; the inserter must free its spilled state.
    pub(crate) displaced: SlotValue,
}

/// The lock that serialises insertions of a key; unlocked when dropped.
struct InsertLock<'t>(&'t AtomicBool);

// === impl Table ===

impl Table {
    /// A table of at most `bytes`, but of at least [`BUCKETS_MIN`] buckets.
    pub(crate) fn with_bytes(bytes: usize) -> Table {
        Table::with_buckets(size::buckets(bytes))
    }

    /// A table of this many buckets, at least two.
    pub(crate) fn with_buckets(buckets: usize) -> Table {
        assert!(
            Pair::is_supported(),
            "tollgate needs a processor with 16-byte atomics (and AVX)"
        );
        let buckets = buckets.max(2);
        let hands: Box<[AtomicU8]> = (0..buckets).map(|_| AtomicU8::new(0)).collect();
        // Zeroed memory is mapped when it is first touched. Touch it now, not during a flood.
        hands
            .iter()
            .step_by(PAGE)
            .for_each(|hand| hand.store(0, Ordering::Relaxed));
        Table {
            lines: CacheLines::zeroed(2 * buckets),
            hands,
            ghosts: Ghosts::for_buckets(buckets),
            spilled: SpilledSlots::for_slots(2 * buckets * SLOTS),
            insert_locks: (0..INSERT_LOCKS).map(|_| AtomicBool::new(false)).collect(),
            evicted: AtomicU64::new(0),
        }
    }

    /// Bytes of the whole table.
    pub(crate) fn bytes(&self) -> usize {
        let side_tables = self.hands.len() + self.ghosts.bytes() + self.spilled.bytes();
        size_of_val(&*self.lines) + side_tables + size::FIXED_BYTES
    }

    /// How many live keys were evicted.
    pub(crate) fn evictions(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Counts the keys that are live at `now`. Reads every slot.
    pub(crate) fn live(&self, now: Now) -> usize {
        self.slots()
            .filter(|slot| is_live(slot.load(), now))
            .count()
    }

    /// Every slot, in the order of memory.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &Pair> {
        self.lines.iter().flat_map(|line| &line.slots)
    }

    /// The slot with this number, in the order of memory.
    pub(crate) fn slot(&self, number: usize) -> &Pair {
        &self.lines[number / SLOTS].slots[number % SLOTS]
    }

    /// The number of a slot of this table.
    fn number_of(&self, slot: &Pair) -> usize {
        let bytes = std::ptr::from_ref(slot).addr() - self.lines.as_ptr().addr();
        let line = bytes / size_of::<CacheLine>();
        line * SLOTS + bytes % size_of::<CacheLine>() / size_of::<Pair>()
    }

    /// Records that a slot's state is in the arena. The slot must be published before.
    pub(crate) fn mark_spilled(&self, slot: &Pair) {
        self.spilled.insert(self.number_of(slot));
    }

    /// The first slot from this number on whose state may be in the arena.
    pub(crate) fn next_spilled(&self, from: usize) -> Option<usize> {
        self.spilled.next(from)
    }

    /// How many words [`Table::next_spilled`] has loaded so far.
    #[cfg(test)]
    pub(crate) fn spilled_loads(&self) -> u64 {
        self.spilled.loads()
    }

    /// Records that the slot with this number was seen without a state in the arena.
    pub(crate) fn unmark_spilled(&self, number: usize) {
        self.spilled.remove(number, || {
            let tag = self.slot(number).load().tag;
            tag.is_spilled() || tag.is_locked()
        });
    }

    /// Where `key` may live.
    #[inline]
    pub(crate) fn place(&self, key: Key) -> Place {
        let [_, bits] = halves(key);
        let home = spread(bits, self.lines.len());
        Place { home, bits }
    }

    /// Prefetches a key's two homes; a prefetch costs less than the wait of one key in five.
    #[inline]
    pub(crate) fn prefetch(&self, place: Place) {
        let lines = self.lines.as_ptr();
        prefetch(lines.wrapping_add(place.home));
        prefetch(lines.wrapping_add(self.second_home(place)));
    }

    /// The key's slot and its current value, if it has one.
    #[inline(always)]
    pub(crate) fn find(&self, place: Place, fingerprint: u64) -> Option<(&Pair, SlotValue)> {
        let found = self.lines[place.home].find(fingerprint);
        found.or_else(|| self.find_elsewhere(place, fingerprint))
    }

    /// The slot that is likely the key's; the caller must compare the whole fingerprint.
    #[inline(always)]
    pub(crate) fn find_likely(&self, place: Place, fingerprint: u64) -> Option<&Pair> {
        match self.lines[place.home].find_likely(fingerprint) {
            Some(slot) => Some(slot),
            None => self.find_likely_elsewhere(place, fingerprint),
        }
    }

    /// Returns the slot alone: with its value, the result would not fit registers.
    #[inline(never)]
    fn find_likely_elsewhere(&self, place: Place, fingerprint: u64) -> Option<&Pair> {
        let mut lines = self.other_lines(place).into_iter();
        lines.find_map(|line| self.lines[line].find_likely(fingerprint))
    }

    /// Searches every line but the key's first home.
    fn find_elsewhere(&self, place: Place, fingerprint: u64) -> Option<(&Pair, SlotValue)> {
        let mut lines = self.other_lines(place).into_iter();
        lines.find_map(|line| self.lines[line].find(fingerprint))
    }

    /// The lines where the key may be, without its first home, the likeliest first.
    #[inline]
    fn other_lines(&self, place: Place) -> [usize; 3] {
        let second = self.second_home(place);
        [second, sibling(place.home), sibling(second)]
    }

    /// The line that is the key's home in its second bucket, which is never its first bucket.
    #[inline]
    fn second_home(&self, place: Place) -> usize {
        // All bits count, also those that the fingerprint lacks. The distance is at least one
        // bucket and less than all of them; the sum of two lines does not overflow.
        let further = spread(place.bits.rotate_left(32), self.lines.len() - 2);
        let second = place.home + (further & !1) + 2;
        // Without a branch, which could not be predicted: before the end, the difference wraps.
        second.min(second.wrapping_sub(self.lines.len()))
    }

    /// Gives a key a slot with the value `new`.
    ///
    /// `None`: search again. Another thread has inserted the key meanwhile; or, after backing off,
    /// all its slots are locked, or others took each of [`CHOICES_MAX`] chosen slots.
    pub(crate) fn insert(
        &self,
        place: Place,
        new: SlotValue,
        now: Now,
        backoff: &mut Backoff,
    ) -> Result<Option<Inserted<'_>>, StoreError> {
        let fingerprint = new.tag.bits();
        let insert_lock = self.lock_inserts(place, backoff)?;
        let is_ghost = self.ghosts.contains(new.tag.fingerprint_bits());
        let new = if is_ghost {
            SlotValue {
                tag: new.tag.with_heat(Heat::Denied),
                ..new
            }
        } else {
            new
        };
        for _ in 0..CHOICES_MAX {
            if self.find(place, fingerprint).is_some() {
                return Ok(None);
            }
            let Some((slot, displaced)) = self.choose_slot(place, now) else {
                break;
            };
            if slot.replace(displaced, new) {
                self.record_eviction(displaced, now);
                return Ok(Some(Inserted {
                    slot,
                    current: new,
                    displaced,
                }));
            }
        }
        // All sixteen slots are locked, or other threads were faster each time: let them finish.
        drop(insert_lock);
        backoff.wait()?;
        Ok(None)
    }

    fn lock_inserts(
        &self,
        place: Place,
        backoff: &mut Backoff,
    ) -> Result<InsertLock<'_>, StoreError> {
        let insert_lock = &self.insert_locks[place.home / 2 % INSERT_LOCKS];
        while insert_lock
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            backoff.wait()?;
        }
        Ok(InsertLock(insert_lock))
    }

    /// Records that a key has lost its slot: counts it if it was live, and adds it to the ghosts if
    /// it was denied.
    pub(crate) fn record_eviction(&self, key: SlotValue, now: Now) {
        if is_live(key, now) {
            self.count_eviction();
        }
        if key.tag.heat() == Heat::Denied {
            self.ghosts.insert(key.tag.fingerprint_bits());
        }
    }

    /// Counts a live key that has lost its state, or a part of it.
    pub(crate) fn count_eviction(&self) {
        self.evicted.fetch_add(1, Ordering::Relaxed);
    }

    /// The slot that an insertion takes: a free one, or that of a victim.
    fn choose_slot(&self, place: Place, now: Now) -> Option<(&Pair, SlotValue)> {
        let first = self.room(place.home, now);
        if first.owned <= ROOMY_MAX {
            return first.free;
        }
        let second = self.room(self.second_home(place), now);
        let [lighter, other] = if first.weight() <= second.weight() {
            [first, second]
        } else {
            [second, first]
        };
        let free = lighter.free.or(other.free);
        free.or_else(|| self.choose_victim(place, now))
    }

    /// The room in the bucket of which `home` is a line.
    fn room(&self, home: usize, now: Now) -> Room<'_> {
        let other = self.lines[sibling(home)].room(now);
        self.lines[home].room(now).plus(other)
    }

    /// The victim: the least valuable live key whose slot is not locked.
    fn choose_victim(&self, place: Place, now: Now) -> Option<(&Pair, SlotValue)> {
        // Relaxed: a hint.
        let hand = usize::from(self.hands[place.home / 2].fetch_add(1, Ordering::Relaxed));
        let second = self.second_home(place);
        let lines = [place.home & !1, place.home | 1, second & !1, second | 1];
        let lines = lines.map(|line| &self.lines[line].slots);
        let from_hand = (hand..hand + 4 * SLOTS).map(|number| number % (4 * SLOTS));
        let mut victim: Option<(&Pair, SlotValue)> = None;
        for number in from_hand {
            let slot = &lines[number / SLOTS][number % SLOTS];
            let current = slot.load();
            let goes_first = |(_, other)| eviction_order(current, now) < eviction_order(other, now);
            match current.tag.heat() {
                _ if current.tag.is_locked() => {}
                Heat::New => return Some((slot, current)),
                _ if victim.is_none_or(goes_first) => victim = Some((slot, current)),
                _ => {}
            }
        }
        victim
    }
}

/// The other line of a bucket.
#[inline]
const fn sibling(line: usize) -> usize {
    line ^ 1
}

/// Spreads 64 random bits over `lines`, without a division.
#[inline]
fn spread(bits: u64, lines: usize) -> usize {
    let lines = u128::try_from(lines).unwrap_or(1);
    usize::try_from((u128::from(bits) * lines) >> 64).unwrap_or(0)
}

// === impl InsertLock ===

impl Drop for InsertLock<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
