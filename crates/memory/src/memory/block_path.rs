//! The fast path of a sliding window whose counters fit one block of the arena: the slot is locked,
//! and the counters are decided on and written where they are.
//!
//! Other states that spill may change their blocks with every decision, so those are reserved
//! first, and the state passes through a form that fits all of them (`locked.rs`). Anything unusual
//! is left to that path: a key without a state in the arena, or with one of another revision, and
//! a decision after which there is nothing to store.

use tollgate_core::{Algorithm, Charge, Clock, Cost, Decision, Moment, Segments, Usage, step};

use super::locked::SlotLock;
use super::{Memory, Time};
use crate::pair::SlotValue;
use crate::spill;
use crate::table::Place;
use crate::tag::Tag;

impl<C: Clock> Memory<C> {
    /// Decides on a sliding window; `None` if anything is unusual, and then nothing was charged.
    pub(super) fn try_block_path(
        &self,
        place: Place,
        charge: &Charge<'_>,
        time: &mut Time<'_>,
    ) -> Option<Decision> {
        let limit = charge.limit;
        if !fits_block(charge) {
            return None;
        }
        let tag = Tag::of(charge).with_spill();
        let slot = self.table.find_likely(place, tag.fingerprint_bits())?;
        let current = slot.load();
        if !current.tag.matches_except_heat(tag) {
            return None;
        }
        let block = spill::block(current.word)?;
        let lock = SlotLock::new(slot, current)?;
        let mut window = spill::read_block(block, &self.arena)?;
        if window.is_ahead(limit, time.on(limit)) {
            // Of another thread, which has read the clock later.
            time.refresh();
            time.catch_up(limit, window.not_before(limit));
        }
        let now = time.on(limit);
        let decision = step(&mut window, limit, now, charge.cost, charge.on_own_denial());
        let expires_at = window.expires_at(limit);
        if expires_at == Moment::ZERO {
            return None;
        }
        spill::write_block(&window, limit, block, &self.arena);
        let was_live = current.word > now.as_nanos();
        let heat = current.tag.heat().after(was_live, Some(&decision));
        lock.commit(SlotValue {
            tag: current.tag.with_heat(heat),
            word: spill::word(expires_at, block),
        });
        Some(decision)
    }
}

/// Whether the state after this charge fits the block that it is in before.
fn fits_block(charge: &Charge<'_>) -> bool {
    match charge.limit.algorithm() {
        Algorithm::SlidingWindow(segments) => {
            let is_refund = matches!(charge.cost, Cost::Refund(_));
            segments != Segments::ONE && spill::fits_block(segments) && !is_refund
        }
        _ => false,
    }
}
