//! The fast path of nearly all decisions on one limit: its states fit a word, the key has a slot,
//! and nothing contends.
//!
//! It is short enough to be inlined into its caller, where unused parts of the decision cost
//! nothing, and short enough for the processor to begin the next decision while this one waits for
//! memory: with many keys, that wait is most of the time. Anything unusual takes the slow path,
//! from the start.

use tollgate_core::{
    Bucket, Charge, Clock, Decision, FixedWindow, FlatDecision, Moment, SlidingWindow, StoreError,
    Timeline, step,
};

use super::lock_free::commit;
use super::{Memory, Time};
use crate::pair::{Pair, SlotValue};
use crate::sync::Backoff;
use crate::table::Place;
use crate::tag::Tag;
use crate::word_state::{OwnWordState, WordKind};

/// How often a concurrent charge may win before the slow path is taken.
pub(super) const RETRIES_MAX: u32 = 16;

/// Why a fast path did not decide. Nothing was charged.
pub(super) enum Miss {
    /// The slot is not the key's, unlocked, with a word of this revision; or nothing is stored in
    /// it; or it was charged at a later reading of the clock; or the new state does not fit the
    /// word.
    Unusual,
    /// Another thread changed the slot meanwhile.
    Contended,
}

/// Decides on a slot's current value and commits the result.
#[inline(always)]
fn try_commit<U: OwnWordState>(
    slot: &Pair,
    current: SlotValue,
    charge: &Charge<'_>,
    now: Moment,
) -> Result<Decision, Miss> {
    let limit = charge.limit;
    let expected = Tag::new(charge.key, charge.history.revision(), U::TIMELINE);
    // An empty slot does not say when it was emptied: see `decide_lock_free`.
    if !current.tag.matches_except_heat(expected) || current.is_empty() {
        return Err(Miss::Unusual);
    }
    let mut usage = U::decode(limit, current.word);
    if usage.is_ahead(limit, now) {
        return Err(Miss::Unusual);
    }
    let decision = step(&mut usage, limit, now, charge.cost, charge.on_own_denial());
    let Some(word) = usage.encode(limit) else {
        return Err(Miss::Unusual);
    };
    match commit(slot, current, word, now.as_nanos(), &decision) {
        true => Ok(decision),
        false => Err(Miss::Contended),
    }
}

/// Decides on a key that other threads are charging at the same time.
#[inline(never)]
fn retry_contended<U: OwnWordState>(
    slot: &Pair,
    charge: Charge<'_>,
    now: impl Fn() -> Moment,
) -> Option<FlatDecision> {
    let mut backoff = Backoff::default();
    for _ in 0..RETRIES_MAX {
        backoff.spin();
        match try_commit::<U>(slot, slot.load(), &charge, now()) {
            Ok(decision) => return Some(decision.into()),
            Err(Miss::Unusual) => return None,
            Err(Miss::Contended) => {}
        }
    }
    None
}

impl<C: Clock> Memory<C> {
    /// Decides on a state of one word; `None` if anything is unusual, and then nothing was charged.
    #[inline(always)]
    pub(super) fn try_fast_path(
        &self,
        place: Place,
        charge: &Charge<'_>,
        now: impl Fn(Timeline) -> Moment,
    ) -> Option<Decision> {
        match WordKind::of(charge.limit)? {
            WordKind::Bucket => self.try_fast_path_of::<Bucket>(place, charge, now),
            WordKind::FixedWindow => self.try_fast_path_of::<FixedWindow>(place, charge, now),
            WordKind::SlidingWindow => {
                self.try_fast_path_of::<SlidingWindow<2>>(place, charge, now)
            }
        }
    }

    #[inline(always)]
    fn try_fast_path_of<U: OwnWordState>(
        &self,
        place: Place,
        charge: &Charge<'_>,
        now: impl Fn(Timeline) -> Moment,
    ) -> Option<Decision> {
        let slot = self
            .table
            .find_likely(place, Tag::fingerprint(charge.key))?;
        let now = || now(U::TIMELINE);
        match try_commit::<U>(slot, slot.load(), charge, now()) {
            Ok(decision) => Some(decision),
            Err(Miss::Unusual) => None,
            Err(Miss::Contended) => retry_contended::<U>(slot, *charge, now).map(Decision::from),
        }
    }

    /// Decides on one charge at a new reading of the clock.
    #[inline(always)]
    pub(super) fn decide_one_now(&self, charge: &Charge<'_>) -> Result<Decision, StoreError> {
        let place = self.table.place(charge.key);
        self.table.prefetch(place);
        let now = |timeline| self.clock.on(timeline);
        match self.try_fast_path(place, charge, now) {
            Some(decision) => Ok(decision),
            // A copy, so that on the fast path the charge stays in registers.
            None => self.take_slow_path_now(place, *charge).map(Decision::from),
        }
    }

    /// Decides on one charge at a time that was read before.
    #[inline(always)]
    pub(super) fn decide_one(
        &self,
        charge: &Charge<'_>,
        time: &mut Time<'_>,
    ) -> Result<Decision, StoreError> {
        let place = self.table.place(charge.key);
        match self.try_fast_path(place, charge, |timeline| time.now.on(timeline)) {
            Some(decision) => Ok(decision),
            None => self
                .take_slow_path(place, *charge, time)
                .map(Decision::from),
        }
    }

    #[inline(never)]
    fn take_slow_path(
        &self,
        place: Place,
        charge: Charge<'_>,
        time: &mut Time<'_>,
    ) -> Result<FlatDecision, StoreError> {
        Ok(self.decide_slowly(place, &charge, time)?.into())
    }

    /// Decides on the slow path, at a new reading of the clock.
    #[inline(never)]
    fn take_slow_path_now(
        &self,
        place: Place,
        charge: Charge<'_>,
    ) -> Result<FlatDecision, StoreError> {
        self.take_slow_path(place, charge, &mut Time::of(&self.clock))
    }
}
