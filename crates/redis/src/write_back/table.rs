//! The keys with a local count: bounded, and evicted when they become idle.

mod aside;

mod entry;

mod learning;

mod shard;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use aside::Aside;
use entry::{Entry, Readiness};
pub(crate) use learning::{Learning, SetAside};
use shard::Shard;
use tokio::sync::futures::OwnedNotified;
use tollgate_core::{Bill, Charge, Key, Limit, Moment, Now, Span, StoreError, Verdict};

use super::report::{Line, Report};
use super::skewed::Skewed;
use super::tally::{Counting, Tally};
use crate::environment::RedisTime;
use crate::fit::{FittedLimit, unfit};
use crate::monotonic::MonotonicClock;
use crate::script_reply::{self, coarsen};
use crate::script_request;
use crate::sharded::Sharded;
use crate::snapshot::{Snapshot, moment};

/// The most keys with a local count in one instance; Redis decides on the others.
pub const KEYS_MAX: usize = SHARDS * shard::KEYS_MAX;
const SHARDS: usize = 16;
/// How many lines may wait to be reported before Redis decides on cold keys: at first, and when
/// reports are as slow as can be.
const BACKLOG_START: usize = 1_024;
const BACKLOG_MIN: usize = 64;
/// The divisor of its growth after each round that was quick enough.
const GROWTH: usize = 4;

/// The keys with a local count.
#[derive(Debug)]
pub(crate) struct Table {
    shards: Sharded<Shard, SHARDS>,
    clock: MonotonicClock,
    /// Replaces the time in Redis's replies.
    count_time: Option<RedisTime>,
    /// How long units may be unreported.
    lasts: Span,
    /// How many lines may wait to be reported before Redis decides on cold keys.
    backlog_max: AtomicUsize,
}

/// How to proceed with a request.
#[expect(clippy::large_enum_variant, reason = "taken apart at once")]
pub(crate) enum Next {
    Decided(Verdict),
    /// Send this report, then try again.
    Report(Report),
    /// Have Redis decide, and learn the count from its reply: see [`Table::learn`].
    Redis(FittedLimit),
    /// A script call on one of its keys is in flight: try again afterwards.
    Wait(OwnedNotified),
    /// Have Redis decide: there is no room for another key, or Redis is deciding on one of these
    /// keys with a request that cannot be decided here.
    Remote,
}

// === impl Next ===

impl Next {
    /// For a request that could be decided here, on a key that is set aside.
    fn aside(aside: &Aside) -> Next {
        match aside.has_foreign() {
            true => Next::Remote,
            false => Next::Wait(aside.over()),
        }
    }
}

// === impl Table ===

impl Table {
    /// A table whose units may be unreported for this long. `count_time` is Redis's clock, if it is
    /// not derived from Redis's replies.
    pub(crate) fn new(
        clock: MonotonicClock,
        count_time: Option<RedisTime>,
        lasts: Span,
    ) -> Arc<Table> {
        Arc::new(Table {
            shards: Sharded::default(),
            clock,
            count_time,
            lasts,
            backlog_max: AtomicUsize::new(BACKLOG_START),
        })
    }

    /// Adapts the backlog after a round of reports. A round should take no longer than `half` an
    /// interval: then all units are reported within an interval.
    pub(crate) fn adapt(&self, lines: usize, took: Duration, half: Duration) {
        let most = self.backlog_max.load(Ordering::Relaxed);
        let next = if took <= half {
            most + most / GROWTH
        } else {
            let in_time = u128::try_from(lines.min(most)).unwrap_or(0) * half.as_micros();
            usize::try_from(in_time / took.as_micros().max(1)).unwrap_or(most)
        };
        // Relaxed: one task writes it, and a decision may use the previous value.
        let next = next.clamp(BACKLOG_MIN, KEYS_MAX);
        self.backlog_max.store(next, Ordering::Relaxed);
    }

    /// Whether as many lines wait in a shard as can be reported in time.
    fn is_behind(&self, shard: &Shard) -> bool {
        shard.backlog() >= self.backlog_max.load(Ordering::Relaxed) / SHARDS
    }

    /// Decides one charge.
    pub(crate) fn decide(&self, charge: &Charge<'_>) -> Result<Next, StoreError> {
        let now = self.clock.now();
        let mut shard = self.shards.of(charge.key);
        if !shard.entries.contains_key(&charge.key) {
            let fitted = FittedLimit::new(charge.limit).map_err(unfit)?;
            if !shard.insert(charge.key, charge.limit, fitted, now) {
                return Ok(Next::Remote);
            }
        }
        if let Some(aside) = shard.aside.get(&charge.key) {
            return Ok(Next::aside(aside));
        }
        let is_behind = self.is_behind(&shard);
        let Shard { entries, dirty, .. } = &mut *shard;
        let Some(entry) = entries.get_mut(&charge.key) else {
            return Ok(Next::Remote);
        };
        match entry.readiness(charge.limit, now, self.lasts) {
            Readiness::Ready if is_behind && entry.is_new_line(now, self.lasts) => {
                return entry.begin(charge.limit).map(Next::Redis);
            }
            Readiness::Unknown => return entry.begin(charge.limit).map(Next::Redis),
            Readiness::Ready => {}
            Readiness::InFlight => return Ok(Next::Wait(entry.subscribe())),
            Readiness::ToReport => {
                let line = entry.ask(charge.key, charge.limit)?;
                return Ok(Next::Report(Report { lines: vec![line] }));
            }
        }
        let decision = entry.step(charge, self.redis_time(entry, now));
        entry.mark_used(charge.key, dirty, now);
        shard.decided += 1;
        drop(shard);
        let mut verdict = Verdict::of_one(charge, decision);
        coarsen(&mut verdict);
        Ok(Next::Decided(verdict))
    }

    /// Decides several charges, all or nothing.
    pub(crate) fn decide_all(&self, charges: &[Charge<'_>]) -> Result<Next, StoreError> {
        let fitted = script_request::fit_all(charges).map_err(unfit)?;
        let in_micros = script_reply::charges_in_micros(charges, &fitted);
        let (bill, fitted) = script_reply::bill(&in_micros, &fitted)?;
        let limit_of = |line: &tollgate_core::Line<'_>| {
            let mut pairs = charges.iter().zip(&in_micros);
            let same = pairs.find(|(_, fitted)| {
                fitted.key == line.charge.key && fitted.limit == line.charge.limit
            });
            same.map(|(charge, _)| charge.limit)
        };
        let limits: Vec<&Limit> = bill.lines().iter().filter_map(limit_of).collect();
        let now = self.clock.now();
        let mut shards = self.shards_of(bill.lines().iter().map(|line| line.charge.key));
        let (mut asks, mut waits) = (Vec::new(), None);
        for ((line, fitted), limit) in bill.lines().iter().zip(&fitted).zip(&limits) {
            let key = line.charge.key;
            let shard = &mut *shards.of(key);
            if !shard.entries.contains_key(&key) && !shard.insert(key, limit, *fitted, now) {
                return Ok(Next::Remote);
            }
            match shard.aside.get(&key).map(Next::aside) {
                None => {}
                Some(Next::Wait(over)) => {
                    waits = Some(Next::Wait(over));
                    continue;
                }
                Some(outcome) => return Ok(outcome),
            }
            let Some(entry) = shard.entries.get_mut(&key) else {
                return Ok(Next::Remote);
            };
            match entry.readiness(limit, now, self.lasts) {
                Readiness::Ready => {}
                Readiness::InFlight => waits = Some(Next::Wait(entry.subscribe())),
                Readiness::ToReport | Readiness::Unknown => asks.push((key, *limit)),
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
            return Ok(Next::Report(Report { lines }));
        }
        let mut verdict = self.settle(&bill, &fitted, &mut shards, now);
        coarsen(&mut verdict);
        Ok(Next::Decided(verdict))
    }

    /// Decides on keys whose counts are all known.
    fn settle(
        &self,
        bill: &Bill<'_>,
        fitted: &[FittedLimit],
        shards: &mut Shards<'_>,
        now: Moment,
    ) -> Verdict {
        // Each key's tally, and the time of its server.
        let mut taken: Vec<(u64, Tally)> = Vec::with_capacity(bill.lines().len());
        for line in bill.lines() {
            let key = line.charge.key;
            if let Some(entry) = shards.of(key).entries.get_mut(&key) {
                let nothing = Tally::fresh(&entry.fitted.limit);
                let tally = std::mem::replace(&mut entry.tally, nothing);
                taken.push((self.redis_time(entry, now), tally));
            }
        }
        let latest = taken.iter().map(|(time, _)| *time).max().unwrap_or(0);
        let pairs = taken.iter_mut().zip(fitted);
        let mut skewed: Vec<Skewed<'_>> = pairs
            .map(|((time, tally), fitted)| Skewed {
                counting: Counting { tally, fitted },
                behind: moment(latest).since(moment(*time)),
            })
            .collect();
        let verdict = bill.settle(&mut skewed, Now::at(moment(latest)));
        let lines = bill.lines().iter().zip(bill.decisions(&verdict));
        for ((line, decision), (time, tally)) in lines.zip(taken) {
            let key = line.charge.key;
            let Shard { entries, dirty, .. } = &mut *shards.of(key);
            if let Some(entry) = entries.get_mut(&key) {
                let charges = verdict.is_allowed() && decision.is_allowed() && line.take() > 0;
                entry.take_back(tally, time, !charges);
                entry.mark_used(key, dirty, now);
            }
        }
        shards.of(bill.lines()[0].charge.key).decided += 1;
        verdict
    }

    /// Marks keys that Redis is deciding on, with a request that could be decided here, or not
    /// (`is_foreign`): until the result is dropped, they are not counted here.
    pub(crate) fn set_aside(
        self: &Arc<Table>,
        keys: impl Iterator<Item = Key>,
        is_foreign: bool,
    ) -> SetAside {
        SetAside::new(self, keys.collect(), is_foreign)
    }

    /// Has the local counts of these keys reported, and marks them as unknown, so that Redis can
    /// decide on them. `None` if there is nothing to report.
    pub(crate) fn give_up(&self, keys: impl Iterator<Item = Key>) -> Option<Next> {
        let mut lines = Vec::new();
        for key in keys {
            let mut shard = self.shards.of(key);
            let Some(entry) = shard.entries.get_mut(&key) else {
                continue;
            };
            if entry.is_in_flight {
                if lines.is_empty() {
                    return Some(Next::Wait(entry.subscribe()));
                }
            } else if entry.tally.is_reported() {
                entry.is_known = false;
            } else {
                lines.push(entry.gather(key));
            }
        }
        (!lines.is_empty()).then_some(Next::Report(Report { lines }))
    }

    /// Begins a round of reports with all lines that are due by now. Evicts some idle keys.
    pub(crate) fn begin_round(&self) {
        let now = self.clock.now();
        for mut shard in self.shards.each() {
            shard.begin_round();
            shard.evict_some_idle(now, |entry| self.redis_time(entry, now));
        }
    }

    /// The next lines of this round, up to `most` of them; empty when it is over.
    pub(crate) fn take_due(&self, most: usize) -> Report {
        let mut lines = Vec::new();
        for mut shard in self.shards.each() {
            shard.gather(most, &mut lines);
            if lines.len() >= most {
                break;
            }
        }
        Report { lines }
    }

    /// Whether there is nothing to report and no report in flight.
    pub(crate) fn is_reported(&self) -> bool {
        let mut shards = self.shards.each();
        shards.all(|shard| shard.entries.values().all(Entry::is_reported))
    }

    /// Whether none of these keys is counted here.
    pub(crate) fn counts_none(&self, mut keys: impl Iterator<Item = Key>) -> bool {
        keys.all(|key| !self.shards.of(key).entries.contains_key(&key))
    }

    /// Applies the reply to a line, which Redis has charged.
    pub(crate) fn apply_reply(&self, line: &Line, snapshot: Snapshot, redis_now: u64) {
        let now = self.clock.now();
        let mut shard = self.shards.of(line.key);
        if let Some(entry) = shard.entries.get_mut(&line.key) {
            entry.apply_reply(snapshot, redis_now, now);
        }
    }

    /// Puts back a line that was not sent.
    pub(crate) fn put_back(&self, line: Line) {
        let mut shard = self.shards.of(line.key);
        let Shard { entries, dirty, .. } = &mut *shard;
        if let Some(entry) = entries.get_mut(&line.key) {
            entry.tally.put_back(&line.fitted, line.parts);
            entry.since = line.since.or(entry.since);
            entry.note_failure();
            if !entry.tally.is_reported() {
                entry.note_dirty(line.key, dirty);
            }
        }
    }

    /// Drops a line that Redis may have charged. It is not repeated: see [`super`].
    pub(crate) fn drop_line(&self, line: &Line) {
        self.forget(line.key);
    }

    /// Begins a decision of Redis from which this key's count is learned.
    pub(crate) fn learn(&self, key: Key) -> Learning<'_> {
        Learning::new(self, key)
    }

    /// Marks a key's count as unknown.
    fn forget(&self, key: Key) {
        if let Some(entry) = self.shards.of(key).entries.get_mut(&key) {
            entry.note_failure();
        }
    }

    /// The number of decisions made here, and of keys with a local count.
    pub(crate) fn counts(&self) -> (u64, usize) {
        self.shards.each().fold((0, 0), |(decided, count), shard| {
            (decided + shard.decided, count + shard.entries.len())
        })
    }

    /// A lower bound of Redis's time now, which never goes back.
    fn redis_time(&self, entry: &Entry, now: Moment) -> u64 {
        match &self.count_time {
            Some(time) => time.load(Ordering::SeqCst),
            None => entry.redis_time(now),
        }
    }

    /// The shards of all these keys, locked in ascending order.
    fn shards_of(&self, keys: impl Iterator<Item = Key>) -> Shards<'_> {
        let mut indices: Vec<usize> = keys.map(Sharded::<Shard, SHARDS>::index).collect();
        indices.sort_unstable();
        indices.dedup();
        let locked = indices
            .into_iter()
            .map(|index| (index, self.shards.at(index)));
        Shards(locked.collect())
    }
}

/// Some shards, locked.
struct Shards<'t>(Vec<(usize, MutexGuard<'t, Shard>)>);

impl Shards<'_> {
    fn of(&mut self, key: Key) -> &mut Shard {
        let found = self
            .0
            .iter_mut()
            .find(|(at, _)| *at == Sharded::<Shard, SHARDS>::index(key));
        let (_, shard) = found.expect("the shards of all keys are locked");
        shard
    }
}
