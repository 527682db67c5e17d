//! The fast path of states in the arena that a decision leaves in their blocks: sliding windows
//! whose counters fit one block, and sliding logs whose last block has room for one entry more.
//!
//! The slot is locked, and the state is decided on and written where it is. Other states that spill
//! may change their blocks with a decision, so those are reserved first, and the state passes
//! through a form that fits all of them (`locked.rs`). Anything unusual is left to that path: a key
//! without a state in the arena, or with one of another revision, and refunds.

use tollgate_core::{Algorithm, Charge, Clock, Decision, Limit, Moment, Segments, Usage, step};

use super::locked::SlotLock;
use super::{Memory, Time};
use crate::arena::BlockId;
use crate::spill::{self, Stored};
use crate::table::Place;
use crate::tag::Tag;

/// Which states the decisions of a limit leave in their blocks.
#[derive(Clone, Copy)]
enum InPlace {
    Window,
    Log,
}

impl<C: Clock> Memory<C> {
    /// Decides on a state in the arena; `None` if anything is unusual: nothing was charged then.
    pub(super) fn try_block_path(
        &self,
        place: Place,
        charge: &Charge<'_>,
        time: &mut Time<'_>,
    ) -> Option<Decision> {
        let in_place = InPlace::of(charge)?;
        let tag = Tag::of(charge).with_spill();
        let slot = self.table.find_likely(place, tag.fingerprint_bits())?;
        let current = slot.load();
        if !current.tag.matches_except_heat(tag) {
            return None;
        }
        let block = spill::block(current.word)?;
        self.arena.prefetch(block);
        let lock = SlotLock::new(slot, current)?;
        let (decision, stored) = match in_place {
            InPlace::Window => self.decide_in_block(block, charge, time),
            InPlace::Log => self.decide_in_log(block, charge, time),
        }?;
        let was_live = current.word > time.on(charge.limit).as_nanos();
        let heat = current.tag.heat().after(was_live, Some(&decision));
        lock.commit(stored.in_slot(current.tag.with_heat(heat)));
        Some(decision)
    }

    /// Decides on a sliding window; `None` if there is nothing to store afterwards.
    fn decide_in_block(
        &self,
        block: BlockId,
        charge: &Charge<'_>,
        time: &mut Time<'_>,
    ) -> Option<(Decision, Stored)> {
        let limit = charge.limit;
        let mut window = spill::read_block(block, &self.arena)?;
        let now = moment_for(&window, limit, time);
        let decision = step(&mut window, limit, now, charge.cost, charge.on_own_denial());
        let expires_at = window.expires_at(limit);
        if expires_at == Moment::ZERO {
            return None;
        }
        spill::write_block(&window, limit, block, &self.arena);
        Some((decision, Stored::in_arena(expires_at, block)))
    }

    /// Decides on a sliding log; `None` if that may take another block.
    fn decide_in_log(
        &self,
        head: BlockId,
        charge: &Charge<'_>,
        time: &mut Time<'_>,
    ) -> Option<(Decision, Stored)> {
        let limit = charge.limit;
        let mut log = spill::open_log(head, &self.arena)?;
        // Another thread may have dropped entries at a later moment, which nothing in the log says.
        time.refresh();
        let now = moment_for(&log, limit, time);
        let decision = step(&mut log, limit, now, charge.cost, charge.on_own_denial());
        Some((decision, spill::write_log(log, limit, &self.arena)))
    }
}

/// When to decide on a state whose slot is locked: another thread, which has read the clock later,
/// may have written it.
fn moment_for<U: Usage>(state: &U, limit: &Limit, time: &mut Time<'_>) -> Moment {
    if state.is_ahead(limit, time.on(limit)) {
        time.refresh();
        time.catch_up(limit, state.not_before(limit));
    }
    time.on(limit)
}

// === impl InPlace ===

impl InPlace {
    /// `None` if the state after this charge may need other blocks than before.
    fn of(charge: &Charge<'_>) -> Option<InPlace> {
        if charge.cost.is_refund() {
            return None;
        }
        match charge.limit.algorithm() {
            Algorithm::SlidingWindow(segments) => {
                let fits = segments != Segments::ONE && spill::fits_block(segments);
                fits.then_some(InPlace::Window)
            }
            Algorithm::SlidingLog => Some(InPlace::Log),
            _ => None,
        }
    }
}
