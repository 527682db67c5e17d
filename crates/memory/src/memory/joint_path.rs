//! The fast path of a request with several limits: all keys have slots, and all states fit a word.
//!
//! All slots are read, then the clock, and the request is judged on what was read; until here
//! nothing is locked. What follows depends on how many limits it charges:
//!
//! * **None**, as in every denied request: the slots are read again. If none has changed, the
//!   verdict is that of the moment between the two readings. A state that others charged and
//!   refunded in between looks unchanged: then each limit's part is true of a moment of its own.
//! * **Some**: their slots are locked, each by a compare-and-swap from the value that was read, and
//!   the others read again. At that moment all of them are as they were judged, so the new states
//!   are stored, which unlocks the slots. If all limits are charged, the last is not locked: the
//!   compare-and-swap that charges it is the moment.
//!
//! A slot that has changed, or that another decision has locked, ends the attempt; what it has
//! locked is unlocked with the value that it had. A thread never waits here while it has a lock, so
//! there is no deadlock with this path or [`super::locked`]; which of several threads goes first is
//! settled by locking in the order of memory. Anything unusual is left to the slow path.

use tollgate_core::{
    Bucket, Charge, Clock, Decision, Moment, Now, PerCharge, Verdict, settle_separate,
};

use super::Memory;
use super::fast_path::{Miss, RETRIES_MAX};
use super::lock_free::commit;
use super::locked::SlotLock;
use crate::pair::{Pair, SlotValue};
use crate::sync::{Backoff, Ordering, fence};
use crate::table::{Place, Table};
use crate::tag::Tag;
use crate::word_state::{AnyWordState, WordKind, WordState};

/// What was read of one limit's slot.
#[derive(Clone, Copy, Default)]
struct Reading<'t> {
    place: Place,
    /// The tag of the slot, without its heat.
    expected: Tag,
    /// `None` if the key has none.
    slot: Option<&'t Pair>,
    current: SlotValue,
    /// What the decision makes of it; equal to `current` where it charges nothing.
    next: SlotValue,
}

impl<C: Clock> Memory<C> {
    /// Decides on several charges, into `verdict`; `false` if anything is unusual, and then nothing
    /// was charged.
    pub(super) fn try_joint_path(
        &self,
        charges: &[Charge<'_>],
        now: impl Fn() -> Now,
        verdict: &mut Verdict,
    ) -> bool {
        // Two buckets are what most requests with several limits meet, and all of this is then
        // known when it is compiled: how many there are, where they are, and their algorithm.
        if let Ok(charges) = <&[Charge<'_>; 2]>::try_from(charges)
            && charges.iter().all(|charge| charge.limit.is_bucket())
            && charges[0].key != charges[1].key
        {
            let mut readings = [Reading::default(); 2];
            let mut states = [Bucket::default(); 2];
            return self.decide_joint(charges, &mut readings, &mut states, now, verdict);
        }
        let fits_word = |charge: &Charge<'_>| WordKind::of(charge.limit).is_some();
        if has_repeated_key(charges) || !charges.iter().all(fits_word) {
            return false;
        }
        let mut readings = PerCharge::from_elem(Reading::default(), charges.len());
        let fresh = |charge: &Charge<'_>| AnyWordState::decode(charge.limit, 0);
        let mut states: PerCharge<AnyWordState> = charges.iter().map(fresh).collect();
        self.decide_joint(charges, &mut readings, &mut states, now, verdict)
    }

    /// Decides on charges whose states are of one type. `readings` and `states` have a place for
    /// each, of which the content does not matter.
    #[inline(always)]
    fn decide_joint<'t, U: WordState>(
        &'t self,
        charges: &[Charge<'_>],
        readings: &mut [Reading<'t>],
        states: &mut [U],
        now: impl Fn() -> Now,
        verdict: &mut Verdict,
    ) -> bool {
        for (reading, charge) in readings.iter_mut().zip(charges) {
            reading.place = self.table.place(charge.key);
            self.table.prefetch(reading.place);
            let revision = charge.history.revision();
            reading.expected = Tag::new(charge.key, revision, U::timeline(charge.limit));
        }
        let mut backoff = Backoff::default();
        for _ in 0..RETRIES_MAX {
            match self.try_joint(charges, readings, states, &now, verdict) {
                Ok(()) => return true,
                Err(Miss::Unusual) => return false,
                Err(Miss::Contended) => backoff.spin(),
            }
        }
        false
    }

    /// Decides on what the slots have now, and commits the result if they have not changed since.
    #[inline(always)]
    fn try_joint<'t, U: WordState>(
        &'t self,
        charges: &[Charge<'_>],
        readings: &mut [Reading<'t>],
        states: &mut [U],
        now: impl Fn() -> Now,
        verdict: &mut Verdict,
    ) -> Result<(), Miss> {
        for reading in &mut *readings {
            reading.read(&self.table)?;
        }
        // After the slots: a state that another thread wrote before is not ahead of this reading.
        let now = now();
        for ((charge, reading), state) in charges.iter().zip(&*readings).zip(&mut *states) {
            let limit = charge.limit;
            *state = U::decode(limit, reading.current.word);
            if state.is_ahead(limit, now.on(U::timeline(limit))) {
                return Err(Miss::Unusual);
            }
        }
        settle_separate(charges, states, now, verdict);
        let mut charged = 0;
        let decisions = verdict.decisions.as_slice();
        for (((charge, state), reading), decision) in charges
            .iter()
            .zip(&*states)
            .zip(&mut *readings)
            .zip(decisions)
        {
            let word = state.encode(charge.limit).ok_or(Miss::Unusual)?;
            let now = now.on(U::timeline(charge.limit));
            charged += usize::from(reading.decide(word, decision, now)?);
        }
        self.commit_joint(readings, charged)?;
        if charged < readings.len() {
            for ((charge, reading), decision) in charges.iter().zip(&*readings).zip(decisions) {
                reading.note(decision, now.on(U::timeline(charge.limit)));
            }
        }
        Ok(())
    }

    /// Stores the new values of those readings that are charged, if no slot has changed since it
    /// was read.
    #[inline(always)]
    fn commit_joint(&self, readings: &[Reading<'_>], charged: usize) -> Result<(), Miss> {
        if let [one, other] = readings
            && charged == readings.len()
        {
            let is_in_order = one.address() < other.address();
            let (first, last) = if is_in_order {
                (one, other)
            } else {
                (other, one)
            };
            let lock = first.lock()?;
            last.replace()?;
            lock.commit(first.next);
            return Ok(());
        }
        if charged == 0 {
            let are_unchanged = readings.iter().all(|it| it.is_unchanged(&self.table));
            return are_unchanged.then_some(()).ok_or(Miss::Contended);
        }
        self.commit_any(readings, charged)
    }

    /// As [`Memory::commit_joint`], for any number of readings.
    #[inline(never)]
    fn commit_any(&self, readings: &[Reading<'_>], charged: usize) -> Result<(), Miss> {
        let charged_ones = readings.iter().filter(|reading| reading.is_charged());
        let mut in_order: PerCharge<&Reading<'_>> = charged_ones.collect();
        in_order.sort_unstable_by_key(|reading| reading.address());
        let are_all_charged = charged == readings.len();
        let mut locks = PerCharge::<SlotLock<'_>>::new();
        let (last, before) = match in_order.split_last() {
            Some((last, before)) if are_all_charged => (Some(last), before),
            _ => (None, &*in_order),
        };
        for reading in before {
            locks.push(reading.lock()?);
        }
        match last {
            Some(last) => last.replace()?,
            None => {
                // Of two decisions that each lock what the other only reads, at least one must see
                // the other's lock.
                fence(Ordering::SeqCst);
                let mut others = readings.iter().filter(|reading| !reading.is_charged());
                if !others.all(|reading| reading.is_unchanged(&self.table)) {
                    return Err(Miss::Contended);
                }
            }
        }
        for (lock, reading) in locks.into_iter().zip(before) {
            lock.commit(reading.next);
        }
        Ok(())
    }
}

/// Whether charges add up on one counter, which only a bill does.
fn has_repeated_key(charges: &[Charge<'_>]) -> bool {
    let mut rest = charges;
    while let [first, others @ ..] = rest {
        if others.iter().any(|other| other.key == first.key) {
            return true;
        }
        rest = others;
    }
    false
}

// === impl Reading ===

impl<'t> Reading<'t> {
    #[inline]
    fn read(&mut self, table: &'t Table) -> Result<(), Miss> {
        self.slot = table.find_likely(self.place, self.expected.fingerprint_bits());
        self.current = self.slot.map_or(SlotValue::default(), Pair::load);
        match self.slot {
            None => Ok(()),
            Some(_) if self.current.tag.matches_except_heat(self.expected) => Ok(()),
            Some(_) if self.current.tag.is_locked() => Err(Miss::Contended),
            Some(_) => Err(Miss::Unusual),
        }
    }

    /// Takes the state after the decision; returns whether the slot has to change with the others.
    #[inline]
    fn decide(&mut self, word: u64, decision: &Decision, now: Moment) -> Result<bool, Miss> {
        self.next = self.current;
        let now = now.as_nanos();
        let was_live = self.current.word > now;
        if word == self.current.word || (word <= now && !was_live) {
            return Ok(false);
        }
        if self.slot.is_none() || self.current.is_empty() {
            // To be inserted, or a slot that may have been filled and emptied again since the
            // clock was read.
            return Err(Miss::Unusual);
        }
        let heat = self.current.tag.heat().after(was_live, Some(decision));
        let tag = self.current.tag.with_heat(heat);
        self.next = SlotValue { tag, word };
        Ok(true)
    }

    #[inline]
    fn address(&self) -> Option<*const Pair> {
        self.slot.map(std::ptr::from_ref)
    }

    #[inline]
    fn is_charged(&self) -> bool {
        self.next != self.current
    }

    #[inline]
    fn lock(&self) -> Result<SlotLock<'t>, Miss> {
        let slot = self.slot.ok_or(Miss::Unusual)?;
        SlotLock::new(slot, self.current).ok_or(Miss::Contended)
    }

    #[inline]
    fn replace(&self) -> Result<(), Miss> {
        let slot = self.slot.ok_or(Miss::Unusual)?;
        let is_replaced = slot.replace(self.current, self.next);
        is_replaced.then_some(()).ok_or(Miss::Contended)
    }

    #[inline]
    fn is_unchanged(&self, table: &Table) -> bool {
        match self.slot {
            Some(slot) => slot.load() == self.current,
            None => table
                .find_likely(self.place, self.expected.fingerprint_bits())
                .is_none(),
        }
    }

    /// Marks a slot whose limit denied and was not charged, and clears one that has expired. Each
    /// is a hint to later decisions, which another thread may overtake.
    #[inline]
    fn note(&self, decision: &Decision, now: Moment) {
        let now = now.as_nanos();
        if let Some(slot) = self.slot
            && !self.is_charged()
        {
            let is_live = self.current.word > now;
            let word = if is_live { self.current.word } else { 0 };
            commit(slot, self.current, word, now, decision);
        }
    }
}
