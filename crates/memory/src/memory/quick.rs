//! The way of nearly all decisions on buckets: the key has a slot, and nobody is in the way.
//!
//! Short enough to be compiled into its caller, where what the caller does not ask of a decision
//! costs nothing, and short enough that the processor begins with the next decision while this one
//! waits for its memory: that, and not the work, is what a decision on one of many keys consists
//! of. Whatever is unusual goes the general way, from the start.

use tollgate_core::{
    Bucket, Charge, Clock, Decision, Denial, Grant, Moment, Span, StoreError, Usage, Wait, step,
};

use super::single::keep;
use super::{Memory, Time};
use crate::pair::{Pair, Seen};
use crate::sync::stand_aside;
use crate::table::Place;
use crate::tag::Tag;

/// How often a rival may come between before the general way is taken.
const RIVALS_MAX: u32 = 16;

/// A decision field by field.
///
/// What comes from the general way is put together in the caller, field by field: if it came whole,
/// the quick way would have to write every field to memory as well, asked for or not.
pub(super) struct Flat {
    /// `None` if it is allowed.
    wait: Option<Wait>,
    remaining: u32,
    reset: Span,
    delay: Span,
    over_soft: bool,
}

/// Why there is no decision, and nothing was charged.
enum Obstacle {
    /// It is not the key's bucket, free and of this revision, or it was charged at a later reading
    /// of a clock that never goes back.
    Unusual,
    /// Somebody else has changed it meanwhile.
    Rival,
}

/// Decides on what was seen.
#[inline(always)]
fn attempt(
    slot: &Pair,
    seen: Seen,
    charge: &Charge<'_>,
    now: Moment,
) -> Result<Decision, Obstacle> {
    let (limit, fingerprint) = (charge.limit, Tag::fingerprint(charge.key));
    if !seen
        .tag
        .is_plain_bucket_of(fingerprint, charge.history.revision())
    {
        return Err(Obstacle::Unusual);
    }
    let mut bucket = Bucket::full_at(Moment::from_nanos(seen.word));
    if bucket.is_ahead(limit, now) {
        return Err(Obstacle::Unusual);
    }
    let decision = step(&mut bucket, limit, now, charge.cost, charge.on_own_denial());
    match keep(slot, seen, bucket.word(), now.as_nanos(), &decision) {
        true => Ok(decision),
        false => Err(Obstacle::Rival),
    }
}

/// Decides on a key that others are charging at the same time.
#[inline(never)]
fn among_rivals(slot: &Pair, charge: Charge<'_>, steady: impl Fn() -> Moment) -> Option<Flat> {
    for turn in 0..RIVALS_MAX {
        stand_aside(turn);
        match attempt(slot, slot.load(), &charge, steady()) {
            Ok(decision) => return Some(Flat::from_decision(decision)),
            Err(Obstacle::Unusual) => return None,
            Err(Obstacle::Rival) => {}
        }
    }
    None
}

impl<C: Clock> Memory<C> {
    /// Decides on a bucket; `None` if there is anything unusual, and then nothing was charged.
    #[inline(always)]
    pub(super) fn check_quickly(
        &self,
        place: Place,
        charge: &Charge<'_>,
        steady: impl Fn() -> Moment,
    ) -> Option<Decision> {
        if !charge.limit.is_bucket() {
            return None;
        }
        let slot = self.table.likely(place, Tag::fingerprint(charge.key))?;
        match attempt(slot, slot.load(), charge, steady()) {
            Ok(decision) => Some(decision),
            Err(Obstacle::Unusual) => None,
            Err(Obstacle::Rival) => among_rivals(slot, *charge, steady).map(Flat::into_decision),
        }
    }

    /// Decides at a time that was read before.
    #[inline(always)]
    pub(super) fn check_timed(
        &self,
        charge: &Charge<'_>,
        time: &mut Time<'_>,
    ) -> Result<Decision, StoreError> {
        let place = self.table.place(charge.key);
        match self.check_quickly(place, charge, || time.now.monotonic) {
            Some(decision) => Ok(decision),
            None => self
                .check_late(place, *charge, time)
                .map(Flat::into_decision),
        }
    }

    #[inline(never)]
    fn check_late(
        &self,
        place: Place,
        charge: Charge<'_>,
        time: &mut Time<'_>,
    ) -> Result<Flat, StoreError> {
        Ok(Flat::from_decision(self.check_in(place, &charge, time)?))
    }

    /// Decides in the general way, at a new reading of the clock.
    #[inline(never)]
    pub(super) fn check_anew(&self, place: Place, charge: Charge<'_>) -> Result<Flat, StoreError> {
        self.check_late(place, charge, &mut Time::of(&self.clock))
    }
}

// === impl Flat ===

impl Flat {
    fn from_decision(decision: Decision) -> Flat {
        let (delay, over_soft) = match decision {
            Decision::Allow(grant) => (grant.delay, grant.over_soft),
            Decision::Deny(_) => (Span::ZERO, false),
        };
        Flat {
            wait: decision.wait(),
            remaining: decision.remaining(),
            reset: decision.reset(),
            delay,
            over_soft,
        }
    }

    #[inline]
    pub(super) fn into_decision(self) -> Decision {
        let (remaining, reset) = (self.remaining, self.reset);
        match self.wait {
            None => Decision::Allow(Grant {
                remaining,
                reset,
                delay: self.delay,
                over_soft: self.over_soft,
            }),
            Some(wait) => Decision::Deny(Denial {
                wait,
                remaining,
                reset,
            }),
        }
    }
}
