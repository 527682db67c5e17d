//! One limit whose state fits a word: read, step, replace; lock-free.

use tollgate_core::{
    Bucket, Charge, Clock, Decision, FixedWindow, Limit, Moment, StoreError, Usage, step,
};

use super::{Memory, Time};
use crate::pair::{Pair, Seen};
use crate::sync::{Patience, stand_aside};
use crate::table::Place;
use crate::tag::{Heat, Tag};
use crate::wide;

/// A usage that is one word: a moment from which on nothing is remembered.
trait InWord: Usage + Default {
    fn read(limit: &Limit, word: u64) -> Self;
    fn written(&self) -> u64;
}

impl<C: Clock> Memory<C> {
    /// Decides in the general way, which takes every charge.
    #[inline]
    pub(super) fn check_in(
        &self,
        place: Place,
        charge: &Charge<'_>,
        time: &mut Time<'_>,
    ) -> Result<Decision, StoreError> {
        if charge.limit.is_bucket() {
            self.check_word::<Bucket>(place, charge, time)
        } else if FixedWindow::fits_word(charge.limit) {
            self.check_word::<FixedWindow>(place, charge, time)
        } else {
            self.check_held(place, charge, time)
        }
    }

    #[inline]
    fn check_word<U: InWord>(
        &self,
        place: Place,
        charge: &Charge<'_>,
        time: &mut Time<'_>,
    ) -> Result<Decision, StoreError> {
        let mut patience = Patience::default();
        let (mut rivals, mut is_fresh_reading) = (0, false);
        let fingerprint = Tag::fingerprint(charge.key);
        loop {
            let found = self.table.find(place, fingerprint);
            let Some((slot, seen)) = found else {
                match self.check_new::<U>(place, charge, time, &mut patience)? {
                    Some(decision) => return Ok(decision),
                    None => continue,
                }
            };
            if seen.tag.is_locked() {
                patience.wait()?;
                continue;
            }
            if seen.tag.is_wide() || seen.tag.revision() != charge.history.revision() {
                return self.check_held(place, charge, time);
            }
            let mut usage = U::read(charge.limit, seen.word);
            if usage.is_ahead(charge.limit, time.on(charge.limit)) {
                // A rival's reading was ahead of ours, which may be that of a whole batch.
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
            if keep(slot, seen, usage.written(), now.as_nanos(), &decision) {
                return Ok(decision);
            }
            // A rival's charge came between: it was admitted, and everything is asked again.
            stand_aside(rivals);
            rivals = rivals.saturating_add(1);
        }
    }

    /// Decides for a key that has no slot; `None` if it has one by now.
    #[cold]
    fn check_new<U: InWord>(
        &self,
        place: Place,
        charge: &Charge<'_>,
        time: &Time<'_>,
        patience: &mut Patience,
    ) -> Result<Option<Decision>, StoreError> {
        let now = time.on(charge.limit);
        let mut usage = U::default();
        let decision = step(
            &mut usage,
            charge.limit,
            now,
            charge.cost,
            charge.on_own_denial(),
        );
        let word = usage.written();
        if word <= now.as_nanos() {
            return Ok(Some(decision));
        }
        let tag = Tag::new(
            charge.key,
            charge.history.revision(),
            charge.limit.timeline(),
        );
        let new = Seen { tag, word };
        let Some(inserted) = self.table.insert(place, new, time.now, patience)? else {
            return Ok(None);
        };
        if inserted.displaced.tag.is_wide() {
            wide::free(inserted.displaced.word, &self.arena);
        }
        Ok(Some(decision))
    }
}

/// Makes a slot remember `word`, unless it has no need to.
///
/// Says whether what was seen was still there.
#[inline(always)]
pub(super) fn keep(slot: &Pair, seen: Seen, word: u64, now: u64, decision: &Decision) -> bool {
    let was_live = seen.word > now;
    if !decision.is_allowed() && seen.tag.heat() < Heat::Refused && was_live {
        // Only a mark: if a rival was faster, the next refusal sets it.
        let marked = Seen {
            tag: seen.tag.with_heat(Heat::Refused),
            word,
        };
        return slot.replace(seen, marked) || word == seen.word;
    }
    if word == seen.word {
        return true;
    }
    if word <= now && !was_live {
        // Nothing is remembered any more, also if the clock goes back to when something was.
        return seen.word == 0 || slot.replace(seen, Seen { word: 0, ..seen });
    }
    let heat = match seen.tag.heat() {
        // Who hammers is spared also after a recovery.
        Heat::Refused => Heat::Refused,
        _ if was_live => Heat::Seen,
        _ => Heat::New,
    };
    slot.replace(
        seen,
        Seen {
            tag: seen.tag.with_heat(heat),
            word,
        },
    )
}

// === impl InWord ===

impl InWord for Bucket {
    #[inline]
    fn read(_limit: &Limit, word: u64) -> Bucket {
        Bucket::full_at(Moment::from_nanos(word))
    }

    #[inline]
    fn written(&self) -> u64 {
        self.word()
    }
}

impl InWord for FixedWindow {
    #[inline]
    fn read(limit: &Limit, word: u64) -> FixedWindow {
        FixedWindow::from_word(limit, word)
    }

    #[inline]
    fn written(&self) -> u64 {
        self.word()
    }
}
