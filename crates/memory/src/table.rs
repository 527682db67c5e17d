//! The line table: where every key's slot is.
//!
//! A line of memory has four slots, a bucket is two adjacent lines, and a key may live in two
//! buckets, in each of which one line is its home. A slot's word is a moment from which on nothing
//! is remembered, so a slot whose moment has passed is free, whoever owned it: forgetting is not an
//! action, there is no sweeper, and the memory is what was allocated at the start.
//!
//! **Finding** compares fingerprints in the first home, where four keys in five are, then in the
//! second home, and then in the lines beside the two. **Changing** a slot
//! is one 16-byte compare-and-swap of owner and word together, so a charge cannot land on the
//! slot's next owner. **Inserting** is serialised for each first bucket by a short lock, under
//! which both buckets are searched again: a key that two threads insert never has two slots. A
//! slot that an unfinished decision over several limits holds is marked as locked; everybody else
//! waits for it.
//!
//! **Choosing** prefers the first bucket while it is roomy ([`ROOMY_MAX`]), then the emptier of
//! both, and there the key's home while that has room: so one line of memory is all that most
//! decisions wait for, and hardly more keys are lost than by always taking the emptiest place.
//!
//! **Evicting** is for when all sixteen are live, and every key that is lost is counted. Keys that
//! were charged only once go first ([`Heat`]), in the order in which a hand passes over their
//! slots: whoever comes back within a dozen insertions is found, however short its window is beside
//! the flood's. Then goes who came back, then who was refused, among equals the one that would have
//! been forgotten first. A refused key that has lost its slot is spared when it returns
//! ([`Ghosts`]).

use tollgate_core::{Key, Now, StoreError};

use std::sync::atomic::AtomicU8;

use crate::ghosts::{BUCKETS_PER_GHOST, Ghosts};
use crate::line::{Line, Room, SLOTS, is_live, standing};
use crate::lines::Lines;
use crate::pair::{Pair, Seen};
use crate::spilled::Spilled;
use crate::sync::{AtomicBool, AtomicU64, Ordering, Patience};
use crate::tag::{Heat, halves};

/// Bytes of a bucket, with its hand, its part of the ghosts and a bit for each slot.
const BUCKET_BYTES: usize = 2 * size_of::<Line>() + 1 + 4 / BUCKETS_PER_GHOST + 2 * SLOTS / 8;
/// What the bits above the bits of the slots take: one byte in 2^13.
const WORDS_SHIFT: u32 = 13;
/// Up to how many slots in use a bucket is taken without looking whether the other is emptier.
const ROOMY_MAX: usize = SLOTS;
/// The fewest buckets: so many that a decision on as many keys as there may be in a request never
/// finds all the places of one of them locked by itself.
#[cfg(not(loom))]
const BUCKETS_MIN: usize = tollgate_core::CHARGES_MAX;
#[cfg(loom)]
const BUCKETS_MIN: usize = 2;
/// Locks that serialise insertions.
#[cfg(not(loom))]
const GATES: usize = 1024;
#[cfg(loom)]
const GATES: usize = 2;
/// Bytes of a page of memory, where it is smallest.
const PAGE: usize = 4096;
/// How often an insertion that lost its slot to a rival chooses again.
const CHOICES_MAX: u32 = 1024;

/// A fixed number of slots, in which keys come and go.
#[derive(Debug)]
pub(crate) struct Table {
    /// Each two make a bucket.
    lines: Lines,
    /// For each bucket, where the hand stands that evicts new keys.
    hands: Box<[AtomicU8]>,
    ghosts: Ghosts,
    spilled: Spilled,
    gates: Box<[AtomicBool]>,
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

/// What an insertion displaced.
#[derive(Debug)]
pub(crate) struct Inserted<'t> {
    /// The key's new slot.
    pub(crate) slot: &'t Pair,
    /// What it holds: as was asked, but for the heat.
    pub(crate) seen: Seen,
    /// What the slot held before; its wide state is now the inserter's to free.
    pub(crate) displaced: Seen,
}

/// The lock that serialises insertions of a key; opened when dropped.
struct Gate<'t>(&'t AtomicBool);

// === impl Table ===

impl Table {
    /// Bytes that a table of any size takes beside its buckets.
    pub(crate) const FIXED_BYTES: usize = GATES + size_of::<Table>() + 2 * size_of::<u64>();

    /// A table of at most `bytes`, but never of fewer than a handful of buckets.
    pub(crate) fn with_bytes(bytes: usize) -> Table {
        let bytes = bytes.saturating_sub(Table::FIXED_BYTES);
        let buckets = (bytes - (bytes >> WORDS_SHIFT)) / BUCKET_BYTES;
        Table::with_buckets(buckets.max(BUCKETS_MIN))
    }

    /// A table of this many buckets, at least two.
    pub(crate) fn with_buckets(buckets: usize) -> Table {
        assert!(
            Pair::is_supported(),
            "tollgate needs a processor with 16-byte atomics (and AVX)"
        );
        let buckets = buckets.max(2);
        let hands: Box<[AtomicU8]> = (0..buckets).map(|_| AtomicU8::new(0)).collect();
        // Zeroes come as pages that are not there yet. Memory is taken now, not in a flood.
        hands
            .iter()
            .step_by(PAGE)
            .for_each(|hand| hand.store(0, Ordering::Relaxed));
        Table {
            lines: Lines::zeroed(2 * buckets),
            hands,
            ghosts: Ghosts::beside(buckets),
            spilled: Spilled::beside(2 * buckets * SLOTS),
            gates: (0..GATES).map(|_| AtomicBool::new(false)).collect(),
            evicted: AtomicU64::new(0),
        }
    }

    /// Bytes of all that the table holds.
    pub(crate) fn bytes(&self) -> usize {
        let beside = self.hands.len() + self.ghosts.bytes() + self.spilled.bytes();
        size_of_val(&*self.lines) + beside + Table::FIXED_BYTES
    }

    /// Live keys that an insertion pushed out.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Keys that are remembered at `now`. Looks at every slot.
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
        let (line, rest) = (bytes / size_of::<Line>(), bytes % size_of::<Line>());
        line * SLOTS + rest / size_of::<Pair>()
    }

    /// A slot's state is in the arena from now on; the slot was published before.
    pub(crate) fn note_spilled(&self, slot: &Pair) {
        self.spilled.insert(self.number_of(slot));
    }

    /// The first slot from this number on whose state may be in the arena.
    pub(crate) fn next_spilled(&self, from: usize) -> Option<usize> {
        self.spilled.next(from)
    }

    /// The state of the slot with this number was not in the arena.
    pub(crate) fn forget_spilled(&self, number: usize) {
        self.spilled.remove(number, || {
            let tag = self.slot(number).load().tag;
            tag.is_wide() || tag.is_locked()
        });
    }

    /// Where `key` may live.
    #[inline]
    pub(crate) fn place(&self, key: Key) -> Place {
        let [_, bits] = halves(key);
        let home = spread(bits, self.lines.len());
        Place { home, bits }
    }

    /// Asks the memory for a key's two homes before they are needed. That of the second one is in
    /// vain for four keys in five, and still dearer to wait for than to ask for.
    #[inline]
    pub(crate) fn prefetch(&self, place: Place) {
        let lines = self.lines.as_ptr();
        prefetch(lines.wrapping_add(place.home));
        prefetch(lines.wrapping_add(self.second_home(place)));
    }

    /// The key's slot and what it held, if it has one.
    #[inline(always)]
    pub(crate) fn find(&self, place: Place, fingerprint: u64) -> Option<(&Pair, Seen)> {
        let found = self.lines[place.home].find(fingerprint);
        found.or_else(|| self.find_away(place, fingerprint))
    }

    /// The slot that is likely to be the key's, for whoever looks at the whole owner himself.
    #[inline(always)]
    pub(crate) fn likely(&self, place: Place, fingerprint: u64) -> Option<&Pair> {
        match self.lines[place.home].likely(fingerprint) {
            Some(slot) => Some(slot),
            None => self.likely_away(place, fingerprint),
        }
    }

    /// A slot only: with what it held, the answer would come by way of memory.
    #[inline(never)]
    fn likely_away(&self, place: Place, fingerprint: u64) -> Option<&Pair> {
        let mut away = self.away(place).into_iter();
        away.find_map(|line| self.lines[line].likely(fingerprint))
    }

    /// Looks everywhere but in the key's first home.
    fn find_away(&self, place: Place, fingerprint: u64) -> Option<(&Pair, Seen)> {
        let mut away = self.away(place).into_iter();
        away.find_map(|line| self.lines[line].find(fingerprint))
    }

    /// Where the key may be but in its first home, the likeliest line first.
    #[inline]
    fn away(&self, place: Place) -> [usize; 3] {
        let second = self.second_home(place);
        [second, beside(place.home), beside(second)]
    }

    /// The line that is the key's home in its second bucket; the first one twice in no table.
    #[inline]
    fn second_home(&self, place: Place) -> usize {
        // All bits count, also those that the fingerprint does not have. So many buckets further
        // on, at least one and fewer than all; the sum of two lines does not overflow.
        let further = spread(place.bits.rotate_left(32), self.lines.len() - 2);
        let second = place.home + (further & !1) + 2;
        second.checked_sub(self.lines.len()).unwrap_or(second)
    }

    /// Gives a key a slot that holds `new`.
    ///
    /// `None`: somebody else has inserted the key meanwhile; look again.
    pub(crate) fn insert(
        &self,
        place: Place,
        new: Seen,
        now: Now,
        patience: &mut Patience,
    ) -> Result<Option<Inserted<'_>>, StoreError> {
        let fingerprint = new.tag.bits();
        let gate = self.close_gate(place, patience)?;
        let is_ghost = self.ghosts.know(new.tag.fingerprint_bits());
        let new = if is_ghost {
            Seen {
                tag: new.tag.with_heat(Heat::Refused),
                ..new
            }
        } else {
            new
        };
        for _ in 0..CHOICES_MAX {
            if self.find(place, fingerprint).is_some() {
                return Ok(None);
            }
            let Some((slot, displaced)) = self.choose(place, now) else {
                break;
            };
            if slot.replace(displaced, new) {
                self.lost(displaced, now);
                return Ok(Some(Inserted {
                    slot,
                    seen: new,
                    displaced,
                }));
            }
        }
        // Sixteen unfinished decisions hold all the slots: let them end.
        drop(gate);
        patience.wait()?;
        Ok(None)
    }

    fn close_gate(&self, place: Place, patience: &mut Patience) -> Result<Gate<'_>, StoreError> {
        let gate = &self.gates[place.home / 2 % GATES];
        while gate
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            patience.wait()?;
        }
        Ok(Gate(gate))
    }

    /// A key has lost its slot: counts it if it was live, and remembers it if it was refused.
    pub(crate) fn lost(&self, key: Seen, now: Now) {
        if is_live(key, now) {
            self.count_eviction();
        }
        if key.tag.heat() == Heat::Refused {
            self.ghosts.remember(key.tag.fingerprint_bits());
        }
    }

    /// A live key has lost its state, or a part of it.
    pub(crate) fn count_eviction(&self) {
        self.evicted.fetch_add(1, Ordering::Relaxed);
    }

    fn choose(&self, place: Place, now: Now) -> Option<(&Pair, Seen)> {
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
        free.or_else(|| self.coldest(place, now))
    }

    /// The room in the bucket of which `home` is a line.
    fn room(&self, home: usize, now: Now) -> Room<'_> {
        let away = self.lines[beside(home)].room(now);
        self.lines[home].room(now).with(away)
    }

    /// The live key that is missed least, of those that no decision holds.
    fn coldest(&self, place: Place, now: Now) -> Option<(&Pair, Seen)> {
        // Relaxed: a hint, like the ghosts; no decision depends on it.
        let hand = usize::from(self.hands[place.home / 2].fetch_add(1, Ordering::Relaxed));
        let second = self.second_home(place);
        let lines = [place.home & !1, place.home | 1, second & !1, second | 1];
        let lines = lines.map(|line| &self.lines[line].slots);
        let from_hand = (hand..hand + 4 * SLOTS).map(|number| number % (4 * SLOTS));
        let live = from_hand.map(|number| &lines[number / SLOTS][number % SLOTS]);
        let live = live.map(|slot| (slot, slot.load()));
        let mut free = live.filter(|(_, seen)| !seen.tag.is_locked());
        let mut coldest: Option<(&Pair, Seen)> = None;
        free.find(|(slot, seen)| {
            let colder = |(_, other)| standing(*seen, now) < standing(other, now);
            if coldest.is_none_or(colder) || seen.tag.heat() == Heat::New {
                coldest = Some((slot, *seen));
            }
            seen.tag.heat() == Heat::New
        });
        coldest
    }
}

/// The other line of a bucket.
#[inline]
const fn beside(line: usize) -> usize {
    line ^ 1
}

/// Spreads 64 random bits over `lines`, without a division.
#[inline]
fn spread(bits: u64, lines: usize) -> usize {
    let lines = u128::try_from(lines).unwrap_or(1);
    usize::try_from((u128::from(bits) * lines) >> 64).unwrap_or(0)
}

#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
#[inline]
#[expect(unsafe_code, reason = "the only way to prefetch")]
fn prefetch(line: *const Line) {
    // SAFETY: a prefetch is a hint; it reads nothing that the program sees and faults on no
    // address.
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.cast()) }
}

#[cfg(not(all(target_arch = "x86_64", not(any(miri, loom)))))]
#[inline]
fn prefetch(_line: *const Line) {}

// === impl Gate ===

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
