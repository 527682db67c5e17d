//! Decisions that lock their slots: several limits at once, and states that are larger than a word.
//!
//! All slots are locked in the order of their keys, so no two decisions deadlock; then the clock is
//! read, all charges are judged, and the new states are committed, which unlocks the slots. Nothing
//! is charged before all slots are locked, so there is nothing to roll back.

mod reserved;

use tollgate_core::{
    Bill, Charge, Clock, Decision, Limit, Line, PerCharge, StoreError, Usage, Verdict, step,
};

use super::{Memory, Time};
use crate::chain::Spares;
use crate::packed_log::PackedLog;
use crate::pair::{Pair, SlotValue};
use crate::spill::{self, KeyState};
use crate::sync::Backoff;
use crate::table::{Place, Table};
use crate::tag::{Heat, Tag};

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
        let lock = self.lock(place, charge, time, &mut Backoff::default())?;
        time.refresh();
        let (locked_state, mut state) = self.read_state(lock, charge, time)?;
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

    /// Decides on several limits, all or nothing.
    pub(super) fn decide_all(
        &self,
        bill: &Bill<'_>,
        time: &mut Time<'_>,
    ) -> Result<Verdict, StoreError> {
        let lines = bill.lines();
        let mut order: PerCharge<usize> = (0..lines.len()).collect();
        order.sort_unstable_by_key(|line| lines[*line].charge.key);
        let mut backoff = Backoff::default();
        let mut locks: PerCharge<Option<SlotLock<'_>>> = lines.iter().map(|_| None).collect();
        for line in order {
            let charge = &lines[line].charge;
            let place = self.table.place(charge.key);
            locks[line] = Some(self.lock(place, charge, time, &mut backoff)?);
        }
        time.refresh();
        let mut locked_states = PerCharge::with_capacity(lines.len());
        let mut states = PerCharge::with_capacity(lines.len());
        for (lock, line) in locks.into_iter().flatten().zip(lines) {
            let (locked_state, state) = match self.read_state(lock, &line.charge, time) {
                Ok(read) => read,
                Err(error) => {
                    release_unchanged(locked_states, states, lines);
                    return Err(error);
                }
            };
            locked_states.push(locked_state);
            states.push(state);
        }
        let verdict = bill.settle(&mut states, time.now);
        let decisions = bill.decisions(&verdict);
        for (((locked_state, state), line), decision) in locked_states
            .into_iter()
            .zip(states)
            .zip(lines)
            .zip(decisions)
        {
            let revision = line.charge.history.revision();
            locked_state.commit(state, line.charge.limit, revision, Some(decision));
        }
        Ok(verdict)
    }

    /// Finds or inserts the key's slot and locks it.
    fn lock(
        &self,
        place: Place,
        charge: &Charge<'_>,
        time: &Time<'_>,
        backoff: &mut Backoff,
    ) -> Result<SlotLock<'_>, StoreError> {
        loop {
            let found = self.table.find(place, Tag::fingerprint(charge.key));
            if let Some((slot, current)) = found {
                if current.tag.is_locked() {
                    backoff.wait()?;
                    continue;
                }
                if charge.is_superseded_by(current.tag.revision()) {
                    return Err(StoreError::Superseded);
                }
                if let Some(lock) = SlotLock::new(slot, current) {
                    return Ok(lock);
                }
                backoff.wait()?;
                continue;
            }
            let tag = Tag::new(
                charge.key,
                charge.history.revision(),
                charge.limit.timeline(),
            );
            let locked = SlotValue {
                tag: tag.with_lock(),
                word: 0,
            };
            if let Some(inserted) = self.table.insert(place, locked, time.now, backoff)? {
                if inserted.displaced.tag.is_spilled() {
                    spill::free(inserted.displaced.word, &self.arena);
                }
                return Ok(SlotLock {
                    slot: inserted.slot,
                    current: inserted.current,
                });
            }
        }
    }

    /// Reads the state of a locked slot, migrated to the charge's limit, and reserves all the
    /// blocks that the decision can need.
    fn read_state<'t>(
        &'t self,
        lock: SlotLock<'t>,
        charge: &Charge<'_>,
        time: &mut Time<'_>,
    ) -> Result<(LockedState<'t>, KeyState<'t>), StoreError> {
        let SlotValue { tag, word } = lock.current;
        let was_live = word > time.now.on(tag.timeline()).as_nanos();
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
        let mut state = spill::read(made_under, tag.is_spilled(), word, &mut locked_state.spares);
        time.catch_up(made_under, state.not_before(made_under));
        for _ in 0..SEARCHES_MAX {
            let is_changed = made_under != charge.limit;
            if spill::reserve(
                &mut state,
                charge.limit,
                is_changed,
                &mut locked_state.spares,
            ) {
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

/// Writes states back on which nothing was decided, and unlocks their slots.
fn release_unchanged(
    locked_states: PerCharge<LockedState<'_>>,
    states: PerCharge<KeyState<'_>>,
    lines: &[Line<'_>],
) {
    for ((locked_state, state), line) in locked_states.into_iter().zip(states).zip(lines) {
        locked_state.commit(
            state,
            line.charge.limit,
            line.charge.history.revision(),
            None,
        );
    }
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
        let (word, is_spilled) = spill::write(state, limit, &mut self.spares);
        let heat = match decision {
            Some(Decision::Deny(_)) => Heat::Denied,
            _ if old.tag.heat() == Heat::Denied => Heat::Denied,
            _ if !self.was_live => Heat::New,
            Some(_) => old.tag.heat().max(Heat::Returning),
            None => old.tag.heat(),
        };
        let tag = old
            .tag
            .with_limit(revision, limit.timeline())
            .with_heat(heat);
        let tag = if is_spilled { tag.with_spill() } else { tag };
        let slot = self.lock.slot;
        self.lock.commit(SlotValue { tag, word });
        if is_spilled && !old.tag.is_spilled() {
            self.table.mark_spilled(slot);
        }
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests;
