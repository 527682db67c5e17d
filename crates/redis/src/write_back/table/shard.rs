//! A shard of the keys, behind one lock.

use std::collections::VecDeque;

use tollgate_core::{Key, Limit, Moment};

use super::aside::Aside;
use super::entry::Entry;
use crate::fit::FittedLimit;
use crate::key_map::KeyMap;
use crate::write_back::report::Line;

/// The most keys of one shard.
pub(super) const KEYS_MAX: usize = 4_096;
/// How many keys are checked for eviction in one interval, and when there is no room for another
/// one.
const CHECKED: usize = 64;
const CHECKED_FOR_ROOM: usize = 8;

/// Some of the keys.
#[derive(Debug, Default)]
pub(super) struct Shard {
    pub(super) entries: KeyMap<Entry>,
    /// Keys with something to report, each once: for the round after this one, and for the rest of
    /// this round.
    pub(super) dirty: VecDeque<Key>,
    due: VecDeque<Key>,
    /// Keys that Redis is deciding on, with requests in flight: no more than there are callers.
    pub(super) aside: KeyMap<Aside>,
    /// All keys, those that were checked longest ago first.
    ring: VecDeque<Key>,
    /// The number of decisions made.
    pub(super) decided: u64,
}

// === impl Shard ===

impl Shard {
    /// Adds an entry, if there is room.
    pub(super) fn insert(
        &mut self,
        key: Key,
        limit: &Limit,
        fitted: FittedLimit,
        now: Moment,
    ) -> bool {
        if self.entries.len() >= KEYS_MAX {
            self.evict_idle(CHECKED_FOR_ROOM, now, |entry| entry.now);
            if self.entries.len() >= KEYS_MAX {
                return false;
            }
        }
        self.entries.insert(key, Entry::new(limit, fitted, now));
        self.ring.push_back(key);
        true
    }

    /// Moves all lines that are due into this round.
    pub(super) fn begin_round(&mut self) {
        self.due.append(&mut self.dirty);
    }

    /// The number of lines that wait to be reported.
    pub(super) fn backlog(&self) -> usize {
        self.dirty.len() + self.due.len()
    }

    /// Adds the lines of this round, up to `most` lines in all.
    pub(super) fn gather(&mut self, most: usize, lines: &mut Vec<Line>) {
        while lines.len() < most
            && let Some(key) = self.due.pop_front()
        {
            let Some(entry) = self.entries.get_mut(&key) else {
                continue;
            };
            if entry.is_in_flight {
                // In the next round: until then a script call may have reported it.
                self.dirty.push_back(key);
                continue;
            }
            entry.is_dirty = false;
            if !entry.tally.is_reported() {
                lines.push(entry.gather(key));
            }
        }
    }

    /// Evicts some idle keys.
    pub(super) fn evict_some_idle(&mut self, now: Moment, time: impl Fn(&Entry) -> u64) {
        self.evict_idle(CHECKED, now, time);
    }

    fn evict_idle(&mut self, most: usize, now: Moment, time: impl Fn(&Entry) -> u64) {
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
