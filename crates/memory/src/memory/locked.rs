//! Decisions that lock their slots: several limits at once, and states that are larger than a word.
//!
//! All slots are locked in the order of their keys, so no two decisions deadlock; then the clock is
//! read, all charges are judged, and the new states are committed, which unlocks the slots. Nothing
//! is charged before all slots are locked, so there is nothing to roll back.
//!
//! A key without a slot gets one, locked, only if the request charges it: a peek or a denied
//! request on a new key takes no memory, and evicts nothing. Nor does one on a key that has a slot:
//! blocks of others are freed only for a charge, or for a limit that has changed.

mod joint;

mod reserved;

use std::slice;

use tollgate_core::{
    Account, Bill, Charge, Clock, Cost, Decision, Limit, Now, OnDenial, StoreError, Usage, step,
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
    /// Whether all blocks are reserved that a charge can need.
    is_reserved: bool,
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
        let (locked_state, mut state) = self.read_alone(lock, charge, time, is_charged)?;
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

    /// As [`Memory::read_state`], for a decision on one limit, which `charges` the state or not.
    fn read_alone<'t>(
        &'t self,
        lock: SlotLock<'t>,
        charge: &Charge<'_>,
        time: &mut Time<'_>,
        charges: impl FnOnce(&Charge<'_>, &mut KeyState<'t>, Now) -> bool,
    ) -> Result<(LockedState<'t>, KeyState<'t>), StoreError> {
        let (mut locked_state, mut state) = self.read_state(lock, charge, charge.limit, time)?;
        if !locked_state.is_reserved
            && charges(charge, &mut state, time.now)
            && let Err(full) = self.reserve(&mut locked_state, &mut state, charge.limit, time)
        {
            locked_state.commit(state, charge.limit, charge.history.revision(), None);
            return Err(full);
        }
        Ok((locked_state, state))
    }

    /// Reads the state of a locked slot, migrated to the charge's limit, and reserves all the
    /// blocks that the decision can need. It is charged by the limit `widest`, which may be larger
    /// than the charge's.
    ///
    /// If no block is free, and only a charge needs one, none is reserved: [`Memory::reserve`]
    /// does, once it is known that the state is charged.
    fn read_state<'t>(
        &'t self,
        lock: SlotLock<'t>,
        charge: &Charge<'_>,
        widest: &Limit,
        time: &mut Time<'_>,
    ) -> Result<(LockedState<'t>, KeyState<'t>), StoreError> {
        let current = lock.current;
        let mut locked_state = LockedState {
            lock,
            table: &self.table,
            spares: Spares::new(&self.arena),
            was_live: current.word > time.now.on(current.tag.timeline()).as_nanos(),
            is_reserved: true,
        };
        // What is not there was made under any limit.
        let revision = match current.is_empty() {
            true => charge.history.revision(),
            false => current.tag.revision(),
        };
        let made_under = charge.history.limit_at(revision).unwrap_or(charge.limit);
        let mut state = spill::read(made_under, current, &mut locked_state.spares);
        time.catch_up(made_under, state.not_before(made_under));
        let is_changed = made_under != charge.limit;
        let spares = &mut locked_state.spares;
        let mut reserve = |state: &mut KeyState<'t>| {
            spill::reserve(state, charge.limit, is_changed, spares)
                && (widest == charge.limit || spill::reserve_for_larger(charge.limit, spares))
        };
        if !reserve(&mut state) {
            // Blocks that the key itself no longer needs go before those of others.
            state.settle(made_under, time.on(made_under));
            let can_stay = current.is_empty() || spill::can_stay(&state);
            locked_state.is_reserved = is_changed || widest != charge.limit || !can_stay;
            if locked_state.is_reserved && !self.find_blocks(time.now, || reserve(&mut state)) {
                locked_state.commit(state, made_under, revision, None);
                return Err(StoreError::Full);
            }
        }
        let state = state.migrate_with(charge, revision, time.now, || {
            let mut log = PackedLog::new(Spares::new(&self.arena));
            log.adopt(&mut locked_state.spares);
            log
        });
        Ok((locked_state, state))
    }

    /// Reserves the blocks that a charge can need, if [`Memory::read_state`] has not.
    fn reserve<'t>(
        &self,
        locked_state: &mut LockedState<'t>,
        state: &mut KeyState<'t>,
        limit: &Limit,
        time: &Time<'_>,
    ) -> Result<(), StoreError> {
        let spares = &mut locked_state.spares;
        let mut reserve = || spill::reserve(state, limit, false, spares);
        if !locked_state.is_reserved && !self.find_blocks(time.now, &mut reserve) {
            return Err(StoreError::Full);
        }
        locked_state.is_reserved = true;
        Ok(())
    }

    /// Frees blocks, if necessary of live keys, until `reserve` has enough; `false` if it has not
    /// after all.
    fn find_blocks(&self, now: Now, mut reserve: impl FnMut() -> bool) -> bool {
        for _ in 0..SEARCHES_MAX {
            if reserve() {
                return true;
            }
            if !self.reclaim(now) {
                return false;
            }
        }
        false
    }
}

/// Whether a decision on this limit alone charges its state.
fn is_charged(charge: &Charge<'_>, state: &mut KeyState<'_>, now: Now) -> bool {
    let bill = Bill::new(slice::from_ref(charge));
    bill.is_ok_and(|bill| {
        bill.find_charged(slice::from_mut(state), now)
            .contains(&true)
    })
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
