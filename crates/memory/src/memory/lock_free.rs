//! The slow path for one limit whose state fits a word: read, step, compare-and-swap.

use tollgate_core::{
    Bucket, Charge, Clock, Decision, FixedWindow, SlidingWindow, StoreError, step,
};

use super::locked::decide_without_slot;
use super::{Memory, Time};
use crate::pair::{Pair, SlotValue};
use crate::sync::Backoff;
use crate::table::Place;
use crate::tag::{Heat, Tag};
use crate::word_state::{WordKind, WordState};

impl<C: Clock> Memory<C> {
    /// Decides on any charge, without the fast path.
    #[inline]
    pub(super) fn decide_slowly(
        &self,
        place: Place,
        charge: &Charge<'_>,
        time: &mut Time<'_>,
    ) -> Result<Decision, StoreError> {
        match WordKind::of(charge.limit) {
            Some(WordKind::Bucket) => self.decide_lock_free::<Bucket>(place, charge, time),
            Some(WordKind::FixedWindow) => {
                self.decide_lock_free::<FixedWindow>(place, charge, time)
            }
            Some(WordKind::SlidingWindow) => {
                self.decide_lock_free::<SlidingWindow<2>>(place, charge, time)
            }
            None => match self.try_block_path(place, charge, time) {
                Some(decision) => Ok(decision),
                None => self.decide_locked(place, charge, time),
            },
        }
    }

    /// Decides on a state of one word by compare-and-swap, for as long as other threads win.
    ///
    /// A state that another thread wrote later than `time` says so. That nothing is stored does
    /// not: what was charged until then may have expired, and been cleared or displaced since. So a
    /// key without a state is decided on under a lock, at a reading of the clock that is made then.
    #[inline]
    fn decide_lock_free<U: WordState>(
        &self,
        place: Place,
        charge: &Charge<'_>,
        time: &mut Time<'_>,
    ) -> Result<Decision, StoreError> {
        let mut backoff = Backoff::default();
        let mut is_fresh_reading = false;
        let fingerprint = Tag::fingerprint(charge.key);
        loop {
            let found = self.table.find(place, fingerprint);
            let Some((slot, current)) = found else {
                match self.insert_and_decide::<U>(place, charge, time, &mut backoff)? {
                    Some(decision) => return Ok(decision),
                    None => continue,
                }
            };
            if current.tag.is_locked() {
                backoff.wait()?;
                continue;
            }
            if !is_word_of::<U>(current.tag, charge) || current.is_empty() {
                return self.decide_locked(place, charge, time);
            }
            let mut usage = U::decode(charge.limit, current.word);
            if usage.is_ahead(charge.limit, time.on(charge.limit)) {
                // Another thread's reading was ahead of ours, which may be that of a whole batch.
                if !is_fresh_reading && time.refresh() {
                    is_fresh_reading = true;
                    continue;
                }
                time.catch_up(charge.limit, usage.not_before(charge.limit));
            }
            let now = time.on(charge.limit);
            let decision = step(
                &mut usage,
                charge.limit,
                now,
                charge.cost,
                charge.on_own_denial(),
            );
            let Some(word) = usage.encode(charge.limit) else {
                return self.decide_locked(place, charge, time);
            };
            if commit(slot, current, word, now.as_nanos(), &decision) {
                return Ok(decision);
            }
            // Another thread committed first, so there was progress: start over.
            backoff.spin();
        }
    }

    /// Decides for a key that has no slot; `None` if it has one by now.
    #[cold]
    fn insert_and_decide<U: WordState>(
        &self,
        place: Place,
        charge: &Charge<'_>,
        time: &mut Time<'_>,
        backoff: &mut Backoff,
    ) -> Result<Option<Decision>, StoreError> {
        if let Some(decision) = decide_without_slot(charge, time) {
            return Ok(Some(decision));
        }
        let Some(lock) = self.insert_locked(place, charge, time.now, backoff)? else {
            return Ok(None);
        };
        time.refresh();
        let mut usage = U::decode(charge.limit, 0);
        let decision = step(
            &mut usage,
            charge.limit,
            time.on(charge.limit),
            charge.cost,
            charge.on_own_denial(),
        );
        let Some(word) = usage.encode(charge.limit) else {
            drop(lock);
            return self.decide_locked(place, charge, time).map(Some);
        };
        lock.commit_new(word, &decision);
        Ok(Some(decision))
    }
}

/// Whether a slot with this tag has its state in its word, made under the charge's own limit: by
/// its revision, and by its clock, as revisions wrap.
fn is_word_of<U: WordState>(tag: Tag, charge: &Charge<'_>) -> bool {
    !tag.is_spilled()
        && tag.revision() == charge.history.revision()
        && tag.timeline() == U::timeline(charge.limit)
}

/// Commits `word` and the slot's new heat by compare-and-swap, unless nothing changed.
///
/// Returns whether the slot still had its `current` value.
#[inline(always)]
pub(super) fn commit(
    slot: &Pair,
    current: SlotValue,
    word: u64,
    now: u64,
    decision: &Decision,
) -> bool {
    let was_live = current.word > now;
    if !decision.is_allowed() && current.tag.heat() < Heat::Denied && was_live {
        // Only a hint for eviction: if another thread was faster, the next denial sets it.
        let marked = SlotValue {
            tag: current.tag.with_heat(Heat::Denied),
            word,
        };
        return slot.replace(current, marked) || word == current.word;
    }
    if word == current.word {
        return true;
    }
    if word <= now && !was_live {
        // Cleared, so that the expired state does not come back if the clock does.
        return current.word == 0 || slot.replace(current, SlotValue { word: 0, ..current });
    }
    let heat = current.tag.heat().after(was_live, Some(decision));
    slot.replace(
        current,
        SlotValue {
            tag: current.tag.with_heat(heat),
            word,
        },
    )
}
