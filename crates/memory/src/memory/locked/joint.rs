//! Several limits at once, all or nothing.
//!
//! The slots of keys that have one are locked first, in the order of the keys; a thread waits for
//! locks only here. The other keys are judged as never seen. Those that the request charges are
//! then inserted, in slots that are locked from the start, and the rest must still have no slot.
//! At that moment every key is as it was judged: locked, or without a slot since it was searched
//! for. If another thread has inserted one of them meanwhile, all slots are unlocked and the
//! decision starts over: waiting for that slot out of order could be a deadlock.

use tollgate_core::{Bill, Clock, Decision, Line, PerCharge, StoreError, Verdict};

use super::{LockedState, SlotLock};
use crate::memory::{Memory, Time};
use crate::spill::{self, KeyState};
use crate::sync::{Backoff, Ordering, fence};
use crate::tag::Tag;

/// The states of a request's lines while it is decided, and their locked slots. They are written
/// back by [`LockedLines::commit`] or [`LockedLines::release`], and must be: the blocks of a state
/// are not in its slot meanwhile.
struct LockedLines<'t> {
    /// `None` for a key without a slot, whose state is that of a key never seen.
    slots: PerCharge<Option<LockedState<'t>>>,
    states: PerCharge<KeyState<'t>>,
}

impl<C: Clock> Memory<C> {
    /// Decides on several limits, all or nothing.
    pub(in crate::memory) fn decide_all(
        &self,
        bill: &Bill<'_>,
        time: &mut Time<'_>,
    ) -> Result<Verdict, StoreError> {
        let lines = bill.lines();
        let mut order: PerCharge<usize> = (0..lines.len()).collect();
        order.sort_unstable_by_key(|line| lines[*line].charge.key);
        let mut backoff = Backoff::default();
        loop {
            if let Some(verdict) = self.try_decide_all(bill, &order, time, &mut backoff)? {
                return Ok(verdict);
            }
            backoff.wait()?;
        }
    }

    /// `None` if another thread has inserted one of the keys meanwhile; then nothing was charged.
    fn try_decide_all(
        &self,
        bill: &Bill<'_>,
        order: &[usize],
        time: &mut Time<'_>,
        backoff: &mut Backoff,
    ) -> Result<Option<Verdict>, StoreError> {
        let lines = bill.lines();
        let locks = self.lock_lines(lines, order, backoff)?;
        time.refresh();
        let mut locked = LockedLines::with_capacity(lines.len());
        let is_complete = self
            .read_lines(&mut locked, locks, lines, time)
            .and_then(|()| self.insert_charged(&mut locked, bill, order, time, backoff));
        if !matches!(is_complete, Ok(true)) {
            locked.release(lines);
            return is_complete.map(|_| None);
        }
        let verdict = bill.settle(&mut locked.states, time.now);
        locked.commit(bill, &verdict);
        Ok(Some(verdict))
    }

    /// Locks the slots of those keys that have one.
    fn lock_lines(
        &self,
        lines: &[Line<'_>],
        order: &[usize],
        backoff: &mut Backoff,
    ) -> Result<PerCharge<Option<SlotLock<'_>>>, StoreError> {
        let mut locks: PerCharge<Option<SlotLock<'_>>> = lines.iter().map(|_| None).collect();
        for line in order {
            let charge = &lines[*line].charge;
            locks[*line] = self.lock_existing(self.table.place(charge.key), charge, backoff)?;
        }
        Ok(locks)
    }

    /// Reads the states of all lines into `locked`, after an error those before it.
    fn read_lines<'t>(
        &'t self,
        locked: &mut LockedLines<'t>,
        locks: PerCharge<Option<SlotLock<'t>>>,
        lines: &[Line<'_>],
        time: &mut Time<'_>,
    ) -> Result<(), StoreError> {
        for (lock, line) in locks.into_iter().zip(lines) {
            let (slot, state) = match lock {
                Some(lock) => {
                    let (slot, state) = self.read_state(lock, &line.charge, line.widest(), time)?;
                    (Some(slot), state)
                }
                None => (None, spill::fresh(line.charge.limit, &self.arena)),
            };
            locked.slots.push(slot);
            locked.states.push(state);
        }
        Ok(())
    }

    /// Gives slots to those keys without one that the request charges, and blocks to those states
    /// that need them for it; `false` if another thread has inserted one of the keys meanwhile, or
    /// others are charged by now.
    fn insert_charged<'t>(
        &'t self,
        locked: &mut LockedLines<'t>,
        bill: &Bill<'_>,
        order: &[usize],
        time: &mut Time<'_>,
        backoff: &mut Backoff,
    ) -> Result<bool, StoreError> {
        if (0..locked.slots.len()).all(|line| locked.is_ready(line)) {
            return Ok(true);
        }
        let lines = bill.lines();
        let mut has_inserted = false;
        let are_charged = bill.find_charged(&mut locked.states, time.now);
        for line in order.iter().copied().filter(|line| are_charged[*line]) {
            let (charge, widest) = (&lines[line].charge, lines[line].widest());
            if locked.slots[line].is_none() {
                let place = self.table.place(charge.key);
                let Some(lock) = self.insert_locked(place, charge, time.now, backoff)? else {
                    return Ok(false);
                };
                let (slot, state) = self.read_state(lock, charge, widest, time)?;
                (locked.slots[line], locked.states[line]) = (Some(slot), state);
                has_inserted = true;
            }
            if let Some(slot) = &mut locked.slots[line] {
                self.reserve(slot, &mut locked.states[line], charge.limit, time)?;
            }
        }
        // What a key without a slot was charged may have expired and been displaced since the clock
        // was read. By now it is locked.
        if has_inserted && time.refresh() {
            let are_charged = bill.find_charged(&mut locked.states, time.now);
            let mut charged = (0..lines.len()).filter(|line| are_charged[*line]);
            if !charged.all(|line| locked.is_ready(line)) {
                return Ok(false);
            }
        }
        // Of two decisions that each insert a key that the other only reads, at least one must see
        // the other's slot.
        fence(Ordering::SeqCst);
        let mut others = locked.slots.iter().zip(lines);
        Ok(others.all(|(slot, line)| slot.is_some() || !self.has_slot(line)))
    }

    fn has_slot(&self, line: &Line<'_>) -> bool {
        let key = line.charge.key;
        let found = self
            .table
            .find(self.table.place(key), Tag::fingerprint(key));
        found.is_some()
    }
}

// === impl LockedLines ===

impl LockedLines<'_> {
    fn with_capacity(lines: usize) -> Self {
        LockedLines {
            slots: PerCharge::with_capacity(lines),
            states: PerCharge::with_capacity(lines),
        }
    }

    /// Whether this line can be charged: it has a slot, and the blocks for it.
    fn is_ready(&self, line: usize) -> bool {
        let slot = self.slots[line].as_ref();
        slot.is_some_and(|slot| slot.is_reserved)
    }

    /// Writes the states after the decision, and unlocks the slots.
    fn commit(&mut self, bill: &Bill<'_>, verdict: &Verdict) {
        let decisions = bill.decisions(verdict).map(Some);
        self.write(bill.lines().iter().zip(decisions));
    }

    /// Writes states back on which nothing was decided, and unlocks their slots. A state under a
    /// limit that has changed stays migrated, as of this moment, also if the request then fails:
    /// its blocks of before are free already.
    fn release(&mut self, lines: &[Line<'_>]) {
        self.write(lines.iter().map(|line| (line, None)));
    }

    fn write<'l>(&mut self, lines: impl Iterator<Item = (&'l Line<'l>, Option<&'l Decision>)>) {
        let states = self.slots.drain(..).zip(self.states.drain(..));
        for ((slot, state), (line, decision)) in states.zip(lines) {
            if let Some(slot) = slot {
                let revision = line.charge.history.revision();
                slot.commit(state, line.charge.limit, revision, decision);
            }
        }
    }
}
