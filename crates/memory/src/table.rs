//! The line table: where every key's slot is.
//!
//! A bucket is two adjacent cache lines of eight slots, and a key may live in two buckets. A slot's
//! word is a moment from which on nothing is remembered, so a slot whose moment has passed is free,
//! whoever owned it: forgetting is not an action, there is no sweeper, and the memory is what was
//! allocated at the start.
//!
//! **Finding** compares fingerprints in the first bucket, then in the second. **Changing** a slot
//! is one 16-byte compare-and-swap of owner and word together, so a charge cannot land on the
//! slot's next owner. **Inserting** is serialised for each first bucket by a short lock, under
//! which both buckets are searched again: a key that two threads insert never has two slots. A
//! slot that an unfinished decision over several limits holds is marked as locked; everybody else
//! waits for it.
//!
//! **Choosing** prefers the first bucket while it is roomy ([`ROOMY_MAX`]), then the emptier of
//! both: that costs a second look for one key in six and loses hardly more than always taking the
//! emptier. A slot that nobody owned goes before one whose owner is forgotten, and of those the one
//! forgotten first, so that keys that come back find their slots. When all sixteen are live the
//! coldest goes ([`Heat`]), among equals the one that would have been forgotten first, and it is
//! counted.

use tollgate_core::{Key, Now, StoreError};

use crate::pair::{Pair, Seen};
use crate::sync::{AtomicBool, AtomicU64, Ordering, Patience};
use crate::tag::{Heat, Tag, halves};

/// Slots in a bucket.
#[cfg(not(loom))]
pub(crate) const SLOTS: usize = 8;
/// The model checker explores two buckets of two slots: more of them only take longer.
#[cfg(loom)]
pub(crate) const SLOTS: usize = 2;
/// Bytes of a bucket.
pub(crate) const BUCKET_BYTES: usize = SLOTS * 16;
/// Up to how many slots in use a bucket is taken without looking whether the other is emptier.
const ROOMY_MAX: usize = SLOTS / 2;
/// The fewest buckets: a table for a handful of keys is not worth a loss.
#[cfg(not(loom))]
const BUCKETS_MIN: usize = 16;
#[cfg(loom)]
const BUCKETS_MIN: usize = 2;
/// Locks that serialise insertions.
#[cfg(not(loom))]
const GATES: usize = 1024;
#[cfg(loom)]
const GATES: usize = 2;
/// What turns a hash into a second one for another bucket: 2^64 over the golden ratio.
const SECOND: u64 = 0x9e37_79b9_7f4a_7c15;
/// How often an insertion that lost its slot to a rival chooses again.
const CHOICES_MAX: u32 = 1024;

/// Two cache lines of slots.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Bucket {
    slots: [Pair; SLOTS],
}

/// A fixed number of slots, in which keys come and go.
#[derive(Debug)]
pub(crate) struct Table {
    buckets: Box<[Bucket]>,
    gates: Box<[AtomicBool]>,
    evicted: AtomicU64,
}

/// A key's two buckets; the same one twice in no table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    first: usize,
    second: usize,
}

/// What an insertion displaced.
#[derive(Debug)]
pub(crate) struct Inserted<'t> {
    /// The key's new slot.
    pub(crate) slot: &'t Pair,
    /// What the slot held before; its wide state is now the inserter's to free.
    pub(crate) displaced: Seen,
}

/// The slots of a bucket that an insertion can choose from.
#[derive(Default)]
struct Choice<'t> {
    /// One that nobody ever owned.
    empty: Option<(&'t Pair, Seen)>,
    /// The one whose owner was forgotten first.
    forgotten: Option<(&'t Pair, Seen)>,
    /// The live one that is missed least.
    coldest: Option<(&'t Pair, Seen)>,
    owned: usize,
    live: usize,
}

/// The lock that serialises insertions of a key; opened when dropped.
struct Gate<'t>(&'t AtomicBool);

// === impl Table ===

impl Table {
    /// Bytes that a table of any size takes beside its buckets.
    pub(crate) const FIXED_BYTES: usize = GATES + size_of::<Table>();

    /// A table of at most `bytes`, but never of fewer than a handful of buckets.
    pub(crate) fn with_bytes(bytes: usize) -> Table {
        let buckets = (bytes.saturating_sub(Table::FIXED_BYTES) / BUCKET_BYTES).max(BUCKETS_MIN);
        Table::with_buckets(buckets)
    }

    /// A table of this many buckets, at least two.
    pub(crate) fn with_buckets(buckets: usize) -> Table {
        assert!(
            Pair::is_supported(),
            "tollgate needs a processor with 16-byte atomics (and AVX)"
        );
        let buckets = buckets.max(2);
        Table {
            buckets: (0..buckets).map(|_| Bucket::default()).collect(),
            gates: (0..GATES).map(|_| AtomicBool::new(false)).collect(),
            evicted: AtomicU64::new(0),
        }
    }

    /// Bytes of all that the table holds.
    pub(crate) fn bytes(&self) -> usize {
        self.buckets.len() * BUCKET_BYTES + Table::FIXED_BYTES
    }

    /// Live keys that an insertion pushed out.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Counts a live key that was given up for its memory.
    pub(crate) fn count_eviction(&self) {
        self.evicted.fetch_add(1, Ordering::Relaxed);
    }

    /// Keys that are remembered at `now`. Looks at every slot.
    pub(crate) fn live(&self, now: Now) -> usize {
        self.slots()
            .filter(|slot| is_live(slot.load(), now))
            .count()
    }

    /// Every slot, in the order of memory.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &Pair> {
        self.buckets.iter().flat_map(|bucket| &bucket.slots)
    }

    /// The slot with this number, counted round and round.
    pub(crate) fn slot(&self, number: u64) -> &Pair {
        let slots = self.buckets.len() * SLOTS;
        let index = usize::try_from(number).unwrap_or(0) % slots;
        &self.buckets[index / SLOTS].slots[index % SLOTS]
    }

    /// How many slots there are.
    pub(crate) fn slot_count(&self) -> usize {
        self.buckets.len() * SLOTS
    }

    /// Where `key` may live.
    #[inline]
    pub(crate) fn place(&self, key: Key) -> Place {
        let [_, low] = halves(key);
        let first = spread(low, self.buckets.len());
        // All bits count, also those that the fingerprint does not have.
        let second = spread(low.wrapping_mul(SECOND), self.buckets.len());
        let next = if first + 1 == self.buckets.len() {
            0
        } else {
            first + 1
        };
        Place {
            first,
            second: if second == first { next } else { second },
        }
    }

    /// Asks the memory for a key's first bucket before it is needed.
    #[inline]
    pub(crate) fn prefetch(&self, place: Place) {
        let bucket = &self.buckets[place.first];
        prefetch(&raw const bucket.slots[0]);
        prefetch(&raw const bucket.slots[SLOTS / 2]);
    }

    /// The key's slot and what it held, if it has one.
    #[inline]
    pub(crate) fn find(&self, place: Place, fingerprint: u64) -> Option<(&Pair, Seen)> {
        find_in(&self.buckets[place.first], fingerprint)
            .or_else(|| find_in(&self.buckets[place.second], fingerprint))
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
        for _ in 0..CHOICES_MAX {
            if self.find(place, fingerprint).is_some() {
                return Ok(None);
            }
            let Some((slot, displaced)) = self.choose(place, now) else {
                break;
            };
            if slot.replace(displaced, new) {
                if is_live(displaced, now) {
                    self.count_eviction();
                }
                return Ok(Some(Inserted { slot, displaced }));
            }
        }
        // Sixteen unfinished decisions hold all the slots: let them end.
        drop(gate);
        patience.wait()?;
        Ok(None)
    }

    fn close_gate(&self, place: Place, patience: &mut Patience) -> Result<Gate<'_>, StoreError> {
        let gate = &self.gates[place.first % GATES];
        while gate
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            patience.wait()?;
        }
        Ok(Gate(gate))
    }

    fn choose(&self, place: Place, now: Now) -> Option<(&Pair, Seen)> {
        let first = Choice::among(&self.buckets[place.first], now);
        if first.owned <= ROOMY_MAX {
            return first.empty;
        }
        let second = Choice::among(&self.buckets[place.second], now);
        let (lighter, other) = if first.weight() <= second.weight() {
            (first, second)
        } else {
            (second, first)
        };
        let free = lighter.free().or_else(|| other.free());
        free.or_else(|| {
            let both = lighter.coldest.into_iter().chain(other.coldest);
            both.min_by_key(|(_, seen)| standing(*seen, now))
        })
    }
}

#[inline]
fn find_in(bucket: &Bucket, fingerprint: u64) -> Option<(&Pair, Seen)> {
    // All eight are compared before any branch: where a key stands nobody can predict.
    let mut matches = Pair::matches(&bucket.slots, Tag::low(fingerprint));
    while matches != 0 {
        let slot = &bucket.slots[first_of(matches)];
        let seen = slot.load();
        if seen.tag.is_of(fingerprint) {
            return Some((slot, seen));
        }
        // Another key with the same lower half of its fingerprint: one in 2^32.
        matches &= matches - 1;
    }
    None
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

/// Spreads 64 random bits over `buckets`, without a division.
#[inline]
fn spread(bits: u64, buckets: usize) -> usize {
    let buckets = u128::try_from(buckets).unwrap_or(1);
    usize::try_from((u128::from(bits) * buckets) >> 64).unwrap_or(0)
}

#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
#[inline]
#[expect(unsafe_code, reason = "the only way to prefetch")]
fn prefetch(slot: *const Pair) {
    // SAFETY: a prefetch is a hint; it reads nothing that the program sees and faults on no
    // address.
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(slot.cast()) }
}

#[cfg(not(all(target_arch = "x86_64", not(any(miri, loom)))))]
#[inline]
fn prefetch(_slot: *const Pair) {}

// === impl Choice ===

impl<'t> Choice<'t> {
    fn among(bucket: &'t Bucket, now: Now) -> Choice<'t> {
        let mut choice = Choice::default();
        for slot in &bucket.slots {
            let seen = slot.load();
            if seen.tag == Tag::default() {
                choice.empty = choice.empty.or(Some((slot, seen)));
                continue;
            }
            choice.owned += 1;
            if !is_live(seen, now) {
                let earlier = |(_, other): (_, Seen)| seen.word < other.word;
                if choice.forgotten.is_none_or(earlier) {
                    choice.forgotten = Some((slot, seen));
                }
                continue;
            }
            choice.live += 1;
            let colder = |(_, other)| standing(seen, now) < standing(other, now);
            if !seen.tag.is_locked() && choice.coldest.is_none_or(colder) {
                choice.coldest = Some((slot, seen));
            }
        }
        choice
    }

    const fn free(&self) -> Option<(&'t Pair, Seen)> {
        if self.empty.is_some() {
            self.empty
        } else {
            self.forgotten
        }
    }

    /// What is to be even between the two buckets: live keys where there are many, and below that
    /// owned slots, so that a key that is asked for again finds its slot.
    fn weight(&self) -> (usize, usize) {
        (self.live.max(ROOMY_MAX), self.owned)
    }
}

// === impl Gate ===

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
