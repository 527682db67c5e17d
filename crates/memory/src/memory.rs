//! The store: what happens to a request, from its charges to its verdict.

use std::sync::atomic::AtomicUsize;

use tollgate_core::{
    Bill, CHARGES_MAX, Charge, Clock, Decision, Key, KeyHasher, Limit, Moment, Now, Span, Store,
    StoreError, Timeline, TooManyCharges, Verdict,
};

use crate::arena::{Arena, BLOCK_BYTES};
use crate::clock::SystemClock;
use crate::hasher::RandomKeys;
use crate::pair::{Pair, SlotValue};
use crate::spill;
use crate::sync::Backoff;
use crate::table::{Place, Table};

mod builder;

mod locked;

mod fast_path;

mod block_path;

mod eviction;

mod joint_path;

mod lock_free;

pub use builder::{Builder, Shortage, Size};

/// Bytes of the store for each key of `max_keys` whose state fits a word: a slot of 16 bytes, and
/// nearly half a slot of spare room so that hardly any live key is evicted. A small store
/// has at least the slots of 768 keys, and below 4000 keys it takes up to 2 KB more in all.
pub const BYTES_PER_KEY: usize = 24;
/// By how much readings of one monotonic clock may differ between threads.
const SKEW_MAX: Span = Span::from_millis(1);
/// How many keys of a batch are prefetched ahead of the one that is being decided.
const PREFETCHED_MAX: usize = 16;

/// The in-process store.
///
/// Bounded: its memory is fixed when it is built. Safe to share among any number of threads. See
/// the crate's documentation for what it promises and what it costs.
///
/// # Example
///
/// ```
/// use tollgate_core::{Charge, Cost, Limit, Span};
/// use tollgate_memory::Memory;
///
/// let store = Memory::builder().max_keys(10_000).build();
/// let limit = Limit::token_bucket(2, Span::MINUTE)?;
/// let charge = Charge::new(store.key_of("alice"), &limit, Cost::ONE);
/// assert!(store.check(&charge)?.is_allowed());
/// assert!(store.check(&charge)?.is_allowed());
/// assert!(!store.check(&charge)?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Memory<C = SystemClock> {
    clock: C,
    keys: RandomKeys,
    table: Table,
    arena: Arena,
    /// How many live keys the store is sized for.
    max_keys: usize,
    /// The slot at which the next search for arena blocks to free begins.
    clock_hand: AtomicUsize,
}

/// The size of a store's contents at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Keys that are live now.
    pub live_keys: u64,
    /// Live keys that were evicted since the store was built, and logs that lost their oldest
    /// entries, for their memory.
    pub evicted_keys: u64,
    /// Bytes of the states that are larger than a word.
    pub arena_bytes: u64,
    /// Bytes that the store may use in total.
    pub bytes_max: u64,
}

/// The time of one decision: a reading, and the clock to read again unless the caller gave the
/// time.
pub(crate) struct Time<'c> {
    now: Now,
    clock: Option<&'c dyn Clock>,
}

// === impl Memory ===

impl Memory {
    /// Starts to build a store.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl<C: Clock> Memory<C> {
    /// The key of any hashable value. It is valid in this store only.
    #[inline]
    pub fn key_of<T: std::hash::Hash + ?Sized>(&self, value: &T) -> Key {
        self.keys.of(value)
    }

    /// Decides on one limit and one cost, now.
    ///
    /// # Errors
    ///
    /// [`StoreError::Contended`], [`StoreError::Superseded`] or [`StoreError::Full`]; a denial is
    /// a [`Decision`].
    #[inline(always)]
    pub fn check(&self, charge: &Charge<'_>) -> Result<Decision, StoreError> {
        self.decide_one_now(charge)
    }

    /// As [`Memory::check`], at a given time.
    ///
    /// # Errors
    ///
    /// As [`Memory::check`].
    pub fn check_at(&self, now: Now, charge: &Charge<'_>) -> Result<Decision, StoreError> {
        self.decide_one(charge, &mut Time::at(now))
    }

    /// Decides on many independent charges at one reading of the clock and appends one answer for
    /// each, in their order. The slots of the next charges are prefetched while the current one is
    /// decided.
    pub fn check_batch(
        &self,
        charges: &[Charge<'_>],
        answers: &mut Vec<Result<Decision, StoreError>>,
    ) {
        answers.reserve(charges.len());
        self.check_each(charges, Charge::clone, |_, answer| answers.push(answer));
    }

    /// As [`Memory::check_batch`], without lists: `charge` returns the charge of an item, and
    /// `on_decision` receives each item with its answer, in their order.
    ///
    /// `charge` is called twice for each item: up to 16 items ahead of their decisions, for the key
    /// to prefetch, and for the decision itself. So it should be cheap, and return the same charge
    /// each time.
    #[inline]
    pub fn check_each<'c, T: Copy>(
        &self,
        items: impl IntoIterator<Item = T>,
        charge: impl Fn(T) -> Charge<'c>,
        mut on_decision: impl FnMut(T, Result<Decision, StoreError>),
    ) {
        let mut time = Time::of(&self.clock);
        let mut items = items.into_iter().fuse();
        let mut prefetch_next = || {
            let item = items.next()?;
            self.prefetch(charge(item).key);
            Some(item)
        };
        let Some(first) = prefetch_next() else {
            return;
        };
        let mut prefetched = [first; PREFETCHED_MAX];
        let mut waiting = 1;
        while waiting < PREFETCHED_MAX
            && let Some(item) = prefetch_next()
        {
            prefetched[waiting] = item;
            waiting += 1;
        }
        let mut oldest = 0;
        while waiting > 0 {
            let item = prefetched[oldest];
            match prefetch_next() {
                Some(next) => prefetched[oldest] = next,
                None => waiting -= 1,
            }
            oldest = (oldest + 1) % PREFETCHED_MAX;
            on_decision(item, self.decide_one(&charge(item), &mut time));
        }
    }

    /// Begins to bring the state of a key into the processor's cache, for a decision that follows
    /// soon.
    #[inline]
    pub fn prefetch(&self, key: Key) {
        self.table.prefetch(self.table.place(key));
    }

    /// Decides all or nothing over `charges`, now.
    ///
    /// # Errors
    ///
    /// [`StoreError::TooManyCharges`], and as [`Memory::check`].
    pub fn decide_now(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        let mut verdict = Verdict::default();
        self.decide_into(charges, &mut verdict)?;
        Ok(verdict)
    }

    /// As [`Memory::decide_now`], into a verdict that the caller has: one of several limits is so
    /// large that to copy it on its way out takes a good part of the decision's time. What
    /// `verdict` is before does not matter; after an error, it means nothing.
    ///
    /// # Errors
    ///
    /// As [`Memory::decide_now`].
    pub fn decide_into(
        &self,
        charges: &[Charge<'_>],
        verdict: &mut Verdict,
    ) -> Result<(), StoreError> {
        if let [charge] = charges {
            *verdict = Verdict::of_one(charge, self.decide_one_now(charge)?);
            return Ok(());
        }
        let time = || Time::of(&self.clock);
        self.decide_several(charges, || self.clock.now(), time, verdict)
    }

    /// Decides all or nothing over `charges`, at a given time.
    ///
    /// # Errors
    ///
    /// As [`Memory::decide_now`].
    pub fn decide_at(&self, now: Now, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        if let [charge] = charges {
            let decision = self.decide_one(charge, &mut Time::at(now))?;
            return Ok(Verdict::of_one(charge, decision));
        }
        let mut verdict = Verdict::default();
        self.decide_several(charges, || now, || Time::at(now), &mut verdict)?;
        Ok(verdict)
    }

    /// The clock that this store decides by.
    pub const fn clock(&self) -> &C {
        &self.clock
    }

    /// As [`Builder::shortage`].
    pub fn shortage(&self, limit: &Limit) -> Option<Shortage> {
        builder::shortage(self.max_keys, self.arena.bytes(), limit)
    }

    /// Live keys that were evicted since the store was built, and logs that lost their oldest
    /// entries, for their memory.
    pub fn evicted_keys(&self) -> u64 {
        self.table.evictions()
    }

    /// Counts what the store contains. Reads every slot: for a report, not for every request.
    pub fn stats(&self) -> Stats {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let block = count(BLOCK_BYTES);
        Stats {
            live_keys: count(self.table.live(self.clock.now())),
            evicted_keys: self.table.evictions(),
            arena_bytes: self.arena.in_use() * block,
            bytes_max: count(self.table.bytes() + self.arena.bytes()),
        }
    }

    /// Decides on requests with one charge each, and appends their verdicts.
    fn decide_singles(
        &self,
        requests: &[&[Charge<'_>]],
        verdicts: &mut Vec<Result<Verdict, StoreError>>,
    ) {
        let charges = requests.iter().map(|charges| &charges[0]);
        self.check_each(charges, Charge::clone, |charge, decision| {
            verdicts.push(decision.map(|decision| Verdict::of_one(charge, decision)));
        });
    }

    /// Gives a key a slot with the value `new`, and frees the blocks of the state that was there.
    /// Returns the slot, and its value, perhaps with another heat; `None` as [`Table::insert`].
    fn insert(
        &self,
        place: Place,
        new: SlotValue,
        now: Now,
        backoff: &mut Backoff,
    ) -> Result<Option<(&Pair, SlotValue)>, StoreError> {
        let Some(inserted) = self.table.insert(place, new, now, backoff)? else {
            return Ok(None);
        };
        if inserted.displaced.tag.is_spilled() {
            spill::free(inserted.displaced.word, &self.arena);
        }
        Ok(Some((inserted.slot, inserted.current)))
    }

    fn decide_several<'c>(
        &self,
        charges: &[Charge<'_>],
        now: impl Fn() -> Now,
        time: impl Fn() -> Time<'c>,
        verdict: &mut Verdict,
    ) -> Result<(), StoreError> {
        if charges.len() > CHARGES_MAX {
            return Err(TooManyCharges(charges.len()).into());
        }
        if !self.try_joint_path(charges, now, verdict) {
            *verdict = self.decide_all(&Bill::new(charges)?, &mut time())?;
        }
        Ok(())
    }
}

impl<C: Clock> KeyHasher for Memory<C> {
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key {
        self.keys.key(parts)
    }
}

impl<C: Clock> Store for Memory<C> {
    async fn decide(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        // In the future, not where it is made: one that is never polled charges nothing.
        self.decide_now(charges)
    }

    async fn decide_batch(&self, batch: &[&[Charge<'_>]]) -> Vec<Result<Verdict, StoreError>> {
        let mut verdicts = Vec::with_capacity(batch.len());
        let is_single = |charges: &[Charge<'_>]| charges.len() == 1;
        for run in batch.chunk_by(|one, next| is_single(one) == is_single(next)) {
            if is_single(run[0]) {
                self.decide_singles(run, &mut verdicts);
            } else {
                verdicts.extend(run.iter().map(|charges| self.decide_now(charges)));
            }
        }
        verdicts
    }
}

// === impl Time ===

impl<'c> Time<'c> {
    #[inline]
    fn of(clock: &'c impl Clock) -> Time<'c> {
        Time {
            now: clock.now(),
            clock: Some(clock),
        }
    }

    const fn at(now: Now) -> Time<'c> {
        Time { now, clock: None }
    }

    #[inline]
    fn on(&self, limit: &Limit) -> Moment {
        self.now.on(limit.timeline())
    }

    /// Advances to the moment at which a state was written, if that is a little ahead of this
    /// reading.
    ///
    /// The counters of two processors differ, and a processor may read its own before preceding
    /// instructions have run. A monotonic clock has already shown that moment, so this decision may
    /// use it. A state from further ahead was written before the clock was set back:
    /// [`tollgate_core::Usage::settle`] corrects it, but for a bucket, whose word does not say what
    /// charged it: it may have been a larger limit, whose debt a smaller one must not erase. Its
    /// key is denied until the clock, which is monotonic unless it is one of a caller's making, has
    /// caught up.
    fn catch_up(&mut self, limit: &Limit, written: Moment) {
        if self.clock.is_none() {
            return;
        }
        let now = match limit.timeline() {
            Timeline::Monotonic => &mut self.now.monotonic,
            Timeline::Utc => &mut self.now.utc,
        };
        if written.since(*now) <= SKEW_MAX {
            *now = written.max(*now);
        }
    }

    /// Reads the clock again; returns whether there is one.
    fn refresh(&mut self) -> bool {
        if let Some(clock) = self.clock {
            self.now = clock.now();
        }
        self.clock.is_some()
    }
}
