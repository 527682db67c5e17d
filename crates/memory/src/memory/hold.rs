//! Decisions that hold their slots: several limits at once, and states that are larger than a word.
//!
//! All slots are locked in the order of their keys, so no two decisions wait for each other in a
//! circle; then the clock is read, everything is judged and charged, and the slots are written and
//! unlocked. Nothing is charged before everything is held, so there is nothing to roll back.

use tollgate_core::{
    Account, Bill, Charge, Clock, Decision, Limit, Line, StoreError, Usage, Verdict, step,
};

use super::{Memory, Time};
use crate::chain::Spares;
use crate::packed_log::PackedLog;
use crate::pair::{Pair, Seen};
use crate::sync::Patience;
use crate::table::{Place, Table};
use crate::tag::{Heat, Tag};
use crate::wide::{self, Held};

/// How often a decision searches for memory before it gives up: more often than the largest state
/// takes blocks, as rivals may be faster.
const SEARCHES_MAX: usize = 64;

/// A slot that this decision has locked; dropping it undoes the locking and nothing else.
pub(super) struct Locked<'t> {
    pub(super) slot: &'t Pair,
    /// What the slot holds while it is locked.
    pub(super) seen: Seen,
}

/// A key's state, out of its slot.
struct Drawer<'t> {
    locked: Locked<'t>,
    table: &'t Table,
    spares: Spares<'t>,
    was_live: bool,
}

impl<C: Clock> Memory<C> {
    /// One limit, of whatever algorithm, or changed since the key's last decision.
    pub(super) fn check_held(
        &self,
        place: Place,
        charge: &Charge<'_>,
        time: &mut Time<'_>,
    ) -> Result<Decision, StoreError> {
        let locked = self.lock(place, charge, time, &mut Patience::default())?;
        time.refresh();
        let (drawer, mut held) = self.open(locked, charge, time)?;
        let now = time.on(charge.limit);
        let decision = step(
            &mut held,
            charge.limit,
            now,
            charge.cost,
            charge.on_own_denial(),
        );
        drawer.close(
            held,
            charge.limit,
            charge.history.revision(),
            Some(&decision),
        );
        Ok(decision)
    }

    /// Several limits, all or nothing.
    pub(super) fn decide_all(
        &self,
        bill: &Bill<'_>,
        time: &mut Time<'_>,
    ) -> Result<Verdict, StoreError> {
        let lines = bill.lines();
        let mut order: Vec<usize> = (0..lines.len()).collect();
        order.sort_unstable_by_key(|line| lines[*line].charge.key);
        let mut patience = Patience::default();
        let mut locked: Vec<Option<Locked<'_>>> = lines.iter().map(|_| None).collect();
        for line in order {
            let charge = &lines[line].charge;
            let place = self.table.place(charge.key);
            locked[line] = Some(self.lock(place, charge, time, &mut patience)?);
        }
        time.refresh();
        let mut drawers = Vec::with_capacity(lines.len());
        let mut helds = Vec::with_capacity(lines.len());
        for (locked, line) in locked.into_iter().flatten().zip(lines) {
            let opened = self.open(locked, &line.charge, time);
            let (drawer, held) = match opened {
                Ok(opened) => opened,
                Err(error) => {
                    put_back(drawers, helds, lines);
                    return Err(error);
                }
            };
            drawers.push(drawer);
            helds.push(held);
        }
        let verdict = bill.settle(&mut helds, time.now);
        let decisions = bill.decisions(&verdict);
        for (((drawer, held), line), decision) in
            drawers.into_iter().zip(helds).zip(lines).zip(decisions)
        {
            let revision = line.charge.history.revision();
            drawer.close(held, line.charge.limit, revision, Some(decision));
        }
        Ok(verdict)
    }

    /// Finds or makes the key's slot and locks it.
    fn lock(
        &self,
        place: Place,
        charge: &Charge<'_>,
        time: &Time<'_>,
        patience: &mut Patience,
    ) -> Result<Locked<'_>, StoreError> {
        loop {
            let found = self.table.find(place, Tag::fingerprint(charge.key));
            if let Some((slot, seen)) = found {
                let held = Seen {
                    tag: seen.tag.locked(),
                    ..seen
                };
                if seen.tag.is_locked() {
                    patience.wait()?;
                    continue;
                }
                if charge.is_superseded_by(seen.tag.revision()) {
                    return Err(StoreError::Superseded);
                }
                if slot.replace(seen, held) {
                    return Ok(Locked { slot, seen: held });
                }
                patience.wait()?;
                continue;
            }
            let tag = Tag::new(
                charge.key,
                charge.history.revision(),
                charge.limit.timeline(),
            );
            let held = Seen {
                tag: tag.locked(),
                word: 0,
            };
            if let Some(inserted) = self.table.insert(place, held, time.now, patience)? {
                if inserted.displaced.tag.is_wide() {
                    wide::free(inserted.displaced.word, &self.arena);
                }
                return Ok(Locked {
                    slot: inserted.slot,
                    seen: inserted.seen,
                });
            }
        }
    }

    /// Takes the state out of a locked slot, converted to the charge's limit, with all the blocks
    /// that the decision can need.
    fn open<'t>(
        &'t self,
        locked: Locked<'t>,
        charge: &Charge<'_>,
        time: &mut Time<'_>,
    ) -> Result<(Drawer<'t>, Held<'t>), StoreError> {
        let Seen { tag, word } = locked.seen;
        let was_live = word > time.now.on(tag.timeline()).as_nanos();
        let mut drawer = Drawer {
            locked,
            table: &self.table,
            spares: Spares::new(&self.arena),
            was_live,
        };
        let made_under = charge
            .history
            .limit_at(tag.revision())
            .unwrap_or(charge.limit);
        let mut held = wide::open(made_under, tag.is_wide(), word, &mut drawer.spares);
        time.catch_up(made_under, held.not_before(made_under));
        for _ in 0..SEARCHES_MAX {
            let is_changed = made_under != charge.limit;
            if wide::reserve(&mut held, charge.limit, is_changed, &mut drawer.spares) {
                let held = held.migrate_with(charge, tag.revision(), time.now, || {
                    let mut log = PackedLog::new(Spares::new(&self.arena));
                    log.adopt(&mut drawer.spares);
                    log
                });
                return Ok((drawer, held));
            }
            // What the key itself no longer needs comes before what others have.
            held.settle(made_under, time.on(made_under));
            if !self.reclaim(time.now) {
                break;
            }
        }
        drawer.close(held, made_under, tag.revision(), None);
        Err(StoreError::Full)
    }
}

/// Closes drawers in which nothing was decided.
fn put_back(drawers: Vec<Drawer<'_>>, helds: Vec<Held<'_>>, lines: &[Line<'_>]) {
    for ((drawer, held), line) in drawers.into_iter().zip(helds).zip(lines) {
        drawer.close(
            held,
            line.charge.limit,
            line.charge.history.revision(),
            None,
        );
    }
}

// === impl Locked ===

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let unlocked = Seen {
            tag: self.seen.tag.unlocked(),
            ..self.seen
        };
        self.slot.replace(self.seen, unlocked);
    }
}

// === impl Drawer ===

impl Drawer<'_> {
    /// Writes the state down, made under `limit`, and unlocks the slot.
    fn close(mut self, held: Held<'_>, limit: &Limit, revision: u8, decision: Option<&Decision>) {
        let old = self.locked.seen;
        let revision = match &held {
            // Still at the former limit's price: that is how the word must be read next time.
            Account::Bucket(bucket) if !bucket.is_priced_by(limit) => old.tag.revision(),
            _ => revision,
        };
        let word = wide::close(held, limit, &mut self.spares);
        let heat = match decision {
            Some(Decision::Deny(_)) => Heat::Refused,
            _ if old.tag.heat() == Heat::Refused => Heat::Refused,
            _ if !self.was_live => Heat::New,
            Some(_) => old.tag.heat().max(Heat::Seen),
            None => old.tag.heat(),
        };
        let tag = old.tag.remade(revision, limit.timeline()).with_heat(heat);
        let is_spilled = word != 0 && wide::is_wide(limit);
        let tag = if is_spilled { tag.wide() } else { tag };
        self.locked.slot.replace(old, Seen { tag, word });
        if is_spilled && !old.tag.is_wide() {
            self.table.note_spilled(self.locked.slot);
        }
        // The slot is unlocked, and may be another's already.
        std::mem::forget(self.locked);
    }
}
