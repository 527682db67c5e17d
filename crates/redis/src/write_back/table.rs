//! The keys that this node counts itself: bounded, and forgotten when they fall idle.

use std::collections::VecDeque;
#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tollgate_core::{
    Account, Bill, Charge, Decision, Key, Limit, Moment, Now, Span, StoreError, Usage, Verdict,
    step,
};

use super::report::{Line, Report};
use super::tally::{Counting, Tally};
use crate::fit::Fitted;
use crate::key_map::KeyMap;
use crate::question;
use crate::seen::moment;
use crate::store::unfit;
use crate::told::{self, coarsen};
use crate::watch::Watch;

/// The most keys that one node counts itself; it asks Redis for the others.
pub const KEYS_MAX: usize = SHARDS * SHARD_MAX;
const SHARDS: usize = 16;
const SHARD_MAX: usize = 4_096;
/// How many keys of a shard are looked at in one interval, and when there is no room for another
/// one, to find those that can be forgotten.
const LOOKED_AT: usize = 64;
const LOOKED_AT_FOR_ROOM: usize = 8;
/// How long a key may lie unused, and how long if it has recovered.
const IDLE: Span = Span::from_secs(10);
const RESTING: Span = Span::SECOND;
/// How far Redis's clock may go back and still be taken for the same time.
const STEADY_MICROS: u64 = 1_000_000;

/// The keys that this node counts itself.
#[derive(Debug)]
pub(crate) struct Table {
    shards: [Mutex<Shard>; SHARDS],
    watch: Watch,
    /// How long units may be admitted that Redis was not told of.
    lasts: Span,
    #[cfg(test)]
    told: Option<Arc<AtomicU64>>,
}

#[derive(Debug, Default)]
struct Shard {
    entries: KeyMap<Entry>,
    /// Keys with something to report, each once.
    dirty: Vec<Key>,
    /// All keys, those that were looked at longest ago first.
    ring: VecDeque<Key>,
    /// Decisions that were made.
    decided: u64,
}

/// One key.
#[derive(Debug)]
struct Entry {
    limit: Limit,
    fitted: Fitted,
    tally: Tally,
    /// Redis has told its count, and was told ours since whenever we asked.
    is_known: bool,
    /// A report of this key is on its way.
    is_asking: bool,
    is_dirty: bool,
    /// When the first unit was admitted that is not reported yet, and the first of those that are on
    /// their way.
    since: Option<Moment>,
    sent_since: Option<Moment>,
    /// Redis's time in microseconds, and ours when it was told.
    now: u64,
    heard_at: Moment,
    /// The latest time, as Redis tells it, at which anything was decided.
    latest: u64,
    used_at: Moment,
    told: Arc<Notify>,
}

/// What is to be done with a request.
pub(crate) enum Outcome {
    Decided(Verdict),
    /// Report this, then try again.
    Ask(Report),
    /// Somebody else is reporting: try again then.
    Wait(OwnedNotified),
    /// Ask Redis for this request.
    NoRoom,
}

/// Whether a key can be decided on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readiness {
    Ready,
    Asking,
    ToAsk,
}

// === impl Table ===

impl Table {
    pub(crate) fn new(watch: Watch, lasts: Span) -> Arc<Table> {
        Arc::new(Table {
            shards: std::array::from_fn(|_| Mutex::default()),
            watch,
            lasts,
            #[cfg(test)]
            told: None,
        })
    }

    /// A table whose time, and that of Redis, the test tells.
    #[cfg(test)]
    pub(crate) fn under_test(told: Option<Arc<AtomicU64>>, lasts: Span) -> Arc<Table> {
        Arc::new(Table {
            shards: std::array::from_fn(|_| Mutex::default()),
            watch: Watch::told(told.clone()),
            lasts,
            told,
        })
    }

    /// Decides over one charge.
    pub(crate) fn decide(&self, charge: &Charge<'_>) -> Result<Outcome, StoreError> {
        let now = self.watch.now();
        let mut shard = self.shard(index(charge.key));
        if !shard.entries.contains_key(&charge.key) {
            let fitted = Fitted::new(charge.limit).map_err(unfit)?;
            if !shard.admit(charge.key, charge.limit, fitted, now) {
                return Ok(Outcome::NoRoom);
            }
        }
        let Shard { entries, dirty, .. } = &mut *shard;
        let Some(entry) = entries.get_mut(&charge.key) else {
            return Ok(Outcome::NoRoom);
        };
        match entry.readiness(charge.limit, now, self.lasts) {
            Readiness::Ready => {}
            Readiness::Asking => return Ok(entry.wait()),
            Readiness::ToAsk => {
                let line = entry.ask(charge.key, charge.limit)?;
                return Ok(Outcome::Ask(Report { lines: vec![line] }));
            }
        }
        let decision = entry.step(charge, self.redis_time(entry, now));
        entry.used(charge.key, dirty, now);
        shard.decided += 1;
        drop(shard);
        let mut verdict = Verdict::of_one(charge, decision);
        coarsen(&mut verdict);
        Ok(Outcome::Decided(verdict))
    }

    /// Decides over several charges, all or nothing.
    pub(crate) fn decide_all(&self, charges: &[Charge<'_>]) -> Result<Outcome, StoreError> {
        let fitted = question::fitted(charges).map_err(unfit)?;
        let in_micros = told::charges_in_micros(charges, &fitted);
        let (bill, fitted) = told::bill(&in_micros, &fitted)?;
        let limit_of = |key| charges.iter().find(|charge| charge.key == key);
        let limits: Vec<&Limit> = bill
            .lines()
            .iter()
            .filter_map(|line| limit_of(line.charge.key).map(|charge| charge.limit))
            .collect();
        let now = self.watch.now();
        let mut shards = self.shards_of(bill.lines().iter().map(|line| line.charge.key));
        let (mut asks, mut waits) = (Vec::new(), None);
        for ((line, fitted), limit) in bill.lines().iter().zip(&fitted).zip(&limits) {
            let key = line.charge.key;
            let shard = &mut *shards.of(key);
            if !shard.entries.contains_key(&key) && !shard.admit(key, limit, *fitted, now) {
                return Ok(Outcome::NoRoom);
            }
            let Some(entry) = shard.entries.get_mut(&key) else {
                return Ok(Outcome::NoRoom);
            };
            match entry.readiness(limit, now, self.lasts) {
                Readiness::Ready => {}
                Readiness::Asking => waits = Some(entry.wait()),
                Readiness::ToAsk => asks.push((key, *limit)),
            }
        }
        if let Some(wait) = waits {
            return Ok(wait);
        }
        if !asks.is_empty() {
            let lines = asks.into_iter().filter_map(|(key, limit)| {
                let entry = shards.of(key).entries.get_mut(&key)?;
                Some(entry.ask(key, limit))
            });
            let lines = lines.collect::<Result<_, _>>()?;
            return Ok(Outcome::Ask(Report { lines }));
        }
        let mut verdict = self.settle(&bill, &fitted, &mut shards, now);
        coarsen(&mut verdict);
        Ok(Outcome::Decided(verdict))
    }

    /// Decides over keys that are all known.
    fn settle(
        &self,
        bill: &Bill<'_>,
        fitted: &[Fitted],
        shards: &mut Shards<'_>,
        now: Moment,
    ) -> Verdict {
        let keys = bill.lines().iter().map(|line| line.charge.key);
        let keys: Vec<Key> = keys.collect();
        let mut time = 0;
        let mut tallies: Vec<Tally> = Vec::with_capacity(keys.len());
        for key in &keys {
            if let Some(entry) = shards.of(*key).entries.get_mut(key) {
                // Of several servers' clocks the one that is ahead.
                time = time.max(self.redis_time(entry, now));
                let nothing = Tally::fresh(&entry.fitted.limit);
                tallies.push(std::mem::replace(&mut entry.tally, nothing));
            }
        }
        let pairs = tallies.iter_mut().zip(fitted);
        let mut counting: Vec<Counting<'_>> = pairs
            .map(|(tally, fitted)| Counting { tally, fitted })
            .collect();
        let verdict = bill.settle(&mut counting, Now::at(moment(time)));
        for (key, tally) in keys.iter().zip(tallies) {
            let Shard { entries, dirty, .. } = &mut *shards.of(*key);
            if let Some(entry) = entries.get_mut(key) {
                entry.tally = tally;
                entry.latest = entry.latest.max(time);
                entry.used(*key, dirty, now);
            }
        }
        shards.of(keys[0]).decided += 1;
        verdict
    }

    /// Has everything reported that is known of these keys, and forgets what Redis told: it is asked
    /// for a request that concerns them. Nothing, if there is nothing to report.
    pub(crate) fn give_up(&self, keys: impl Iterator<Item = Key>) -> Option<Outcome> {
        let mut lines = Vec::new();
        for key in keys {
            let mut shard = self.shard(index(key));
            let Some(entry) = shard.entries.get_mut(&key) else {
                continue;
            };
            if entry.is_asking {
                if lines.is_empty() {
                    return Some(entry.wait());
                }
            } else if entry.tally.is_reported() {
                entry.is_known = false;
            } else {
                lines.push(entry.gather(key));
            }
        }
        (!lines.is_empty()).then_some(Outcome::Ask(Report { lines }))
    }

    /// All that there is to report and not on its way; forgets some keys that lie idle.
    pub(crate) fn due(&self) -> Report {
        let now = self.watch.now();
        let mut lines = Vec::new();
        for index in 0..SHARDS {
            let mut shard = self.shard(index);
            shard.gather(&mut lines);
            shard.forget_idle(LOOKED_AT, now, |entry| self.redis_time(entry, now));
        }
        Report { lines }
    }

    /// Whether there is nothing to report and nothing on its way.
    pub(crate) fn is_reported(&self) -> bool {
        (0..SHARDS).all(|index| {
            let shard = self.shard(index);
            let rest = |entry: &Entry| entry.tally.is_reported() && !entry.is_asking;
            shard.entries.values().all(rest)
        })
    }

    /// Redis was told a line, and has told its count.
    pub(crate) fn told(&self, line: &Line, account: Account, redis_now: u64) {
        let now = self.watch.now();
        let mut shard = self.shard(index(line.key));
        if let Some(entry) = shard.entries.get_mut(&line.key) {
            entry.told(account, redis_now, now);
        }
    }

    /// Nobody was told a line.
    pub(crate) fn unsent(&self, line: Line) {
        let mut shard = self.shard(index(line.key));
        let Shard { entries, dirty, .. } = &mut *shard;
        if let Some(entry) = entries.get_mut(&line.key) {
            entry.tally.put_back(&line.fitted, line.parts);
            entry.since = line.since.or(entry.since);
            entry.failed();
            entry.note_dirty(line.key, dirty);
        }
    }

    /// Nobody knows whether Redis was told a line. It is not told again: see [`super`].
    pub(crate) fn lost(&self, line: &Line) {
        let mut shard = self.shard(index(line.key));
        if let Some(entry) = shard.entries.get_mut(&line.key) {
            entry.failed();
        }
    }

    /// Decisions that were made here, and the keys that are counted here.
    pub(crate) fn decided_and_count(&self) -> (u64, usize) {
        let shards = (0..SHARDS).map(|index| self.shard(index));
        shards.fold((0, 0), |(decided, count), shard| {
            (decided + shard.decided, count + shard.entries.len())
        })
    }

    /// What Redis's clock says by now, at least, and never less than before.
    fn redis_time(&self, entry: &Entry, now: Moment) -> u64 {
        #[cfg(test)]
        if let Some(told) = &self.told {
            return told.load(Ordering::SeqCst);
        }
        let passed = now.since(entry.heard_at).as_nanos() / 1_000;
        let time = entry.now.saturating_add(passed);
        if time < entry.latest && entry.latest - time < STEADY_MICROS {
            return entry.latest;
        }
        time
    }

    fn shard(&self, index: usize) -> MutexGuard<'_, Shard> {
        // Nothing that holds it can panic half-way.
        self.shards[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The shards of all these keys, locked in one order.
    fn shards_of(&self, keys: impl Iterator<Item = Key>) -> Shards<'_> {
        let mut indices: Vec<usize> = keys.map(index).collect();
        indices.sort_unstable();
        indices.dedup();
        let locked = indices.into_iter().map(|index| (index, self.shard(index)));
        Shards(locked.collect())
    }
}

/// Some shards, locked.
struct Shards<'t>(Vec<(usize, MutexGuard<'t, Shard>)>);

impl Shards<'_> {
    fn of(&mut self, key: Key) -> &mut Shard {
        let found = self.0.iter_mut().find(|(at, _)| *at == index(key));
        let (_, shard) = found.expect("the shards of all keys are locked");
        shard
    }
}

fn index(key: Key) -> usize {
    usize::try_from(key.bits() & 0xF).unwrap_or(0)
}

// === impl Shard ===

impl Shard {
    /// Makes an entry, if there is room.
    fn admit(&mut self, key: Key, limit: &Limit, fitted: Fitted, now: Moment) -> bool {
        if self.entries.len() >= SHARD_MAX {
            self.forget_idle(LOOKED_AT_FOR_ROOM, now, |entry| entry.now);
            if self.entries.len() >= SHARD_MAX {
                return false;
            }
        }
        self.entries.insert(key, Entry::new(limit, fitted, now));
        self.ring.push_back(key);
        true
    }

    fn gather(&mut self, lines: &mut Vec<Line>) {
        let Shard { entries, dirty, .. } = self;
        dirty.retain(|key| {
            let Some(entry) = entries.get_mut(key) else {
                return false;
            };
            if entry.is_asking {
                return true;
            }
            entry.is_dirty = false;
            if !entry.tally.is_reported() {
                lines.push(entry.gather(*key));
            }
            false
        });
    }

    fn forget_idle(&mut self, most: usize, now: Moment, time: impl Fn(&Entry) -> u64) {
        for _ in 0..most.min(self.ring.len()) {
            let Some(key) = self.ring.pop_front() else {
                return;
            };
            let Some(entry) = self.entries.get_mut(&key) else {
                continue;
            };
            let time = time(entry);
            if entry.is_idle(now, time) {
                self.entries.remove(&key);
            } else {
                self.ring.push_back(key);
            }
        }
    }
}

// === impl Entry ===

impl Entry {
    fn new(limit: &Limit, fitted: Fitted, now: Moment) -> Entry {
        Entry {
            limit: *limit,
            tally: Tally::fresh(&fitted.limit),
            fitted,
            is_known: false,
            is_asking: false,
            is_dirty: false,
            since: None,
            sent_since: None,
            now: 0,
            heard_at: now,
            latest: 0,
            used_at: now,
            told: Arc::new(Notify::new()),
        }
    }

    fn readiness(&self, limit: &Limit, now: Moment, lasts: Span) -> Readiness {
        let oldest = self.sent_since.or(self.since);
        let is_overdue = oldest.is_some_and(|since| now.since(since) >= lasts);
        if self.is_known && !is_overdue && self.limit == *limit {
            Readiness::Ready
        } else if self.is_asking {
            Readiness::Asking
        } else {
            Readiness::ToAsk
        }
    }

    /// What to report so that the key can be decided on under `limit`.
    fn ask(&mut self, key: Key, limit: &Limit) -> Result<Line, StoreError> {
        if self.limit != *limit && self.tally.is_reported() {
            // The rule has changed, and Redis converts what it holds.
            self.fitted = Fitted::new(limit).map_err(unfit)?;
            self.limit = *limit;
            self.tally = Tally::fresh(&self.fitted.limit);
            self.is_known = false;
        }
        Ok(self.gather(key))
    }

    fn gather(&mut self, key: Key) -> Line {
        self.is_asking = true;
        let since = self.since.take();
        self.sent_since = since;
        let (base, parts) = self.tally.gather();
        Line {
            key,
            fitted: self.fitted,
            base,
            parts,
            since,
        }
    }

    fn wait(&self) -> Outcome {
        Outcome::Wait(Arc::clone(&self.told).notified_owned())
    }

    fn step(&mut self, charge: &Charge<'_>, time: u64) -> Decision {
        let mut counting = Counting {
            tally: &mut self.tally,
            fitted: &self.fitted,
        };
        self.latest = time;
        step(
            &mut counting,
            &self.fitted.limit,
            moment(time),
            charge.cost,
            charge.on_own_denial(),
        )
    }

    /// A decision was made.
    fn used(&mut self, key: Key, dirty: &mut Vec<Key>, now: Moment) {
        self.used_at = now;
        if self.tally.is_reported() {
            return;
        }
        self.since.get_or_insert(now);
        self.note_dirty(key, dirty);
    }

    fn note_dirty(&mut self, key: Key, dirty: &mut Vec<Key>) {
        if !self.is_dirty && !self.tally.is_reported() {
            self.is_dirty = true;
            dirty.push(key);
        }
    }

    fn told(&mut self, account: Account, redis_now: u64, now: Moment) {
        self.is_asking = false;
        self.is_known = true;
        self.sent_since = None;
        self.now = redis_now;
        self.heard_at = now;
        let fitted = self.fitted;
        self.tally.told(account, &fitted, moment(redis_now));
        self.told.notify_waiters();
    }

    fn failed(&mut self) {
        self.is_asking = false;
        self.is_known = false;
        self.sent_since = None;
        self.told.notify_waiters();
    }

    /// Whether nothing is lost if this is forgotten.
    fn is_idle(&mut self, now: Moment, time: u64) -> bool {
        if self.is_asking || !self.tally.is_reported() {
            return false;
        }
        let rests = now.since(self.used_at);
        let counting = Counting {
            tally: &mut self.tally,
            fitted: &self.fitted,
        };
        rests >= IDLE || rests >= RESTING && counting.forget_at(&self.fitted.limit) <= moment(time)
    }
}

const _: () = assert!(SHARDS == 16, "a shard is chosen by four bits");
