//! A primary and its replica, which is a little behind.

use std::collections::VecDeque;

use tokio::time::{Duration, Instant};

use crate::keyspace::{Entry, Keyspace};
use crate::redis_memory::MemoryPeak;

/// A primary and its replica.
pub(crate) struct Shard {
    pub(crate) primary: usize,
    pub(crate) replica: usize,
    /// What the replica has, and the writes on their way to it.
    pub(super) copy: Keyspace,
    pub(super) behind: VecDeque<(Instant, Vec<u8>, Option<Entry>)>,
    pub(super) lag: Duration,
    /// What its keys have taken at most, in a simulation that reports it.
    pub(crate) peak: Option<MemoryPeak>,
}

// === impl Shard ===

impl Shard {
    /// Sends changes of the primary, which it made in this millisecond, to the replica.
    pub(super) fn send(&mut self, changes: Vec<(Vec<u8>, Option<Entry>)>, millis: u64) {
        if let Some(peak) = &mut self.peak {
            peak.note(&changes, millis);
        }
        let now = Instant::now();
        let sent = changes.into_iter().map(|(key, entry)| (now, key, entry));
        self.behind.extend(sent);
        self.catch_up();
    }

    /// Applies the writes that have arrived at the replica.
    pub(super) fn catch_up(&mut self) {
        let now = Instant::now();
        while self
            .behind
            .front()
            .is_some_and(|(at, ..)| *at + self.lag <= now)
        {
            if let Some((_, key, entry)) = self.behind.pop_front() {
                self.copy.apply(key, entry);
            }
        }
    }
}
