//! Decisions that lock their slots: several limits at once, and states that are larger than a word.
//!
//! All slots are locked in the order of their keys, so no two decisions deadlock; then the clock is
//! read, all charges are judged, and the new states are committed, which unlocks the slots. Nothing
//! is charged before all slots are locked, so there is nothing to roll back.
//!
//! A key without a slot gets one, locked, only if the request charges it: a peek or a denied
//! request on a new key takes no memory, and evicts nothing.

mod joint;

mod reserved;

use tollgate_core::{
    Account, Charge, Clock, Cost, Decision, Limit, Now, OnDenial, StoreError, Usage, step,
};

use super::{Memory, Time};
use crate::chain::Spares;
use crate::packed_log::PackedLog;
use crate::pair::{Pair, SlotValue};
use crate::spill::{self, KeyState};
use crate::sync::Backoff;
use crate::table::{Place, Table};
use crate::tag::Tag;

/// How often a decision searches for blocks to free before it fails. More often than the largest
/// state takes blocks, since concurrent decisions may take what was freed.
const SEARCHES_MAX: usize = 64;

/// The lock on a slot; dropping it unlocks the slot and changes nothing else.
pub(super) struct SlotLock<'t> {
    slot: &'t Pair,
    /// The slot's value while it is locked.
    current: SlotValue,
}

/// A locked slot whose state was read, and the blocks to write the new state to.
struct LockedState<'t> {
    lock: SlotLock<'t>,
    table: &'t Table,
    spares: Spares<'t>,
    was_live: bool,
}

impl<C: Clock> Memory<C> {
    /// Decides on one limit of any algorithm, also one that changed since the key's last decision.
    pub(super) fn decide_locked(
        &self,
        place: Place,
        charge: &Charge<'_>,
        time: &mut Time<'_>,
    ) -> Result<Decision, StoreError> {
        let mut backoff = Backoff::default();
        let lock = loop {
            let existing = self.lock_existing(place, charge, &mut backoff)?;
            if existing.as_ref().is_none_or(SlotLock::is_empty)
                && let Some(decision) = decide_without_slot(charge, time)
            {
                return Ok(decision);
            }
            if let Some(lock) = existing {
                break lock;
            }
            if let Some(lock) = self.insert_locked(place, charge, time.now, &mut backoff)? {
                break lock;
            }
        };
        time.refresh();
        let (locked_state, mut state) = self.read_state(lock, charge, charge.limit, time)?;
        let now = time.on(charge.limit);
        let decision = step(
            &mut state,
            charge.limit,
            now,
            charge.cost,
            charge.on_own_denial(),
        );
        locked_state.commit(
            state,
            charge.limit,
            charge.history.revision(),
            Some(&decision),
        );
        Ok(decision)
    }

    /// Locks the key's slot; `None` if it has none.
    fn lock_existing(
        &self,
        place: Place,
        charge: &Charge<'_>,
        backoff: &mut Backoff,
    ) -> Result<Option<SlotLock<'_>>, StoreError> {
        while let Some((slot, current)) = self.table.find(place, Tag::fingerprint(charge.key)) {
            if !current.tag.is_locked() {
                if charge.is_superseded_by(current.tag.revision()) {
                    return Err(StoreError::Superseded);
                }
                if let Some(lock) = SlotLock::new(slot, current) {
                    return Ok(Some(lock));
                }
            }
            backoff.wait()?;
        }
        Ok(None)
    }

    /// Inserts the key, with a locked slot; `None` if it has one by now.
    pub(super) fn insert_locked(
        &self,
        place: Place,
        charge: &Charge<'_>,
        now: Now,
        backoff: &mut Backoff,
    ) -> Result<Option<SlotLock<'_>>, StoreError> {
        let locked = SlotValue {
            tag: Tag::of(charge).with_lock(),
            word: 0,
        };
        let inserted = self.insert(place, locked, now, backoff)?;
        Ok(inserted.map(|(slot, current)| SlotLock { slot, current }))
    }

    /// Reads the state of a locked slot, migrated to the charge's limit, and reserves all the
    /// blocks that the decision can need. It is charged by the limit `widest`, which may be larger
    /// than the charge's.
    fn read_state<'t>(
        &'t self,
        lock: SlotLock<'t>,
        charge: &Charge<'_>,
        widest: &Limit,
        time: &mut Time<'_>,
    ) -> Result<(LockedState<'t>, KeyState<'t>), StoreError> {
        let current = lock.current;
        let tag = current.tag;
        let was_live = current.word > time.now.on(tag.timeline()).as_nanos();
        let mut locked_state = LockedState {
            lock,
            table: &self.table,
            spares: Spares::new(&self.arena),
            was_live,
        };
        let made_under = charge
            .history
            .limit_at(tag.revision())
            .unwrap_or(charge.limit);
        let mut state = spill::read(made_under, current, &mut locked_state.spares);
        time.catch_up(made_under, state.not_before(made_under));
        for _ in 0..SEARCHES_MAX {
            let is_changed = made_under != charge.limit;
            let spares = &mut locked_state.spares;
            let is_reserved = spill::reserve(&mut state, charge.limit, is_changed, spares)
                && (widest == charge.limit || spill::reserve_for_larger(charge.limit, spares));
            if is_reserved {
                let state = state.migrate_with(charge, tag.revision(), time.now, || {
                    let mut log = PackedLog::new(Spares::new(&self.arena));
                    log.adopt(&mut locked_state.spares);
                    log
                });
                return Ok((locked_state, state));
            }
            // Blocks that the key itself no longer needs go before those of others.
            state.settle(made_under, time.on(made_under));
            if !self.reclaim(time.now) {
                break;
            }
        }
        locked_state.commit(state, made_under, tag.revision(), None);
        Err(StoreError::Full)
    }
}

/// Decides for a key that has no slot, or nothing in it; `None` if the decision charges it.
pub(super) fn decide_without_slot(charge: &Charge<'_>, time: &Time<'_>) -> Option<Decision> {
    let limit = charge.limit;
    let available = u64::from(limit.available());
    if let Cost::Take(units @ 1..) = charge.cost {
        // All that is available is there, so these units are allowed, or never fit.
        let is_allowed = units <= available;
        let is_penalised = charge.on_own_denial() == OnDenial::Charge && available > 0;
        if is_allowed || is_penalised {
            return None;
        }
    }
    let mut state: Account = Account::fresh(limit);
    let now = time.on(limit);
    // A limit of 0 has no units to charge for a denied request.
    Some(step(&mut state, limit, now, charge.cost, OnDenial::Keep))
}

// === impl SlotLock ===

impl<'t> SlotLock<'t> {
    /// Locks a slot that has this value, unlocked; `None` if it has another by now.
    #[inline]
    pub(super) fn new(slot: &'t Pair, current: SlotValue) -> Option<SlotLock<'t>> {
        let locked = SlotValue {
            tag: current.tag.with_lock(),
            ..current
        };
        // Made only if it is locked: dropping it would unlock another thread's.
        slot.replace(current, locked).then(|| SlotLock {
            slot,
            current: locked,
        })
    }

    /// Whether nothing is stored in the slot.
    fn is_empty(&self) -> bool {
        self.current.is_empty()
    }

    /// Gives a slot that was empty the state in `word`, and unlocks it.
    pub(super) fn commit_new(self, word: u64, decision: &Decision) {
        let tag = self.current.tag.without_lock();
        let heat = tag.heat().after(false, Some(decision));
        self.commit(SlotValue {
            tag: tag.with_heat(heat),
            word,
        });
    }

    /// Gives the slot this value, and unlocks it.
    #[inline]
    pub(super) fn commit(self, new: SlotValue) {
        self.slot.store(new);
        // The slot may have another owner already.
        std::mem::forget(self);
    }
}

impl Drop for SlotLock<'_> {
    fn drop(&mut self) {
        self.slot.store(SlotValue {
            tag: self.current.tag.without_lock(),
            ..self.current
        });
    }
}

// === impl LockedState ===

impl LockedState<'_> {
    /// Writes a state that was made under `limit`, and unlocks the slot.
    fn commit(
        mut self,
        state: KeyState<'_>,
        limit: &Limit,
        revision: u8,
        decision: Option<&Decision>,
    ) {
        let old = self.lock.current;
        let revision = state.revision(limit, old.tag.revision(), revision);
        let heat = old.tag.heat().after(self.was_live, decision);
        let tag = old
            .tag
            .with_limit(revision, limit.timeline())
            .with_heat(heat);
        let new = spill::write(state, limit, &mut self.spares).in_slot(tag);
        let slot = self.lock.slot;
        self.lock.commit(new);
        if new.tag.is_spilled() && !old.tag.is_spilled() {
            self.table.mark_spilled(slot);
        }
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests;
