//! A primary and its replica, which is a little behind.

use std::collections::VecDeque;

use tokio::time::{Duration, Instant};

use crate::keyspace::{Entry, Keyspace};

/// A primary and its replica.
pub(crate) struct Shard {
    pub(crate) primary: usize,
    pub(crate) replica: usize,
    /// What the replica has, and the writes on their way to it.
    pub(super) copy: Keyspace,
    pub(super) behind: VecDeque<(Instant, Vec<u8>, Option<Entry>)>,
    pub(super) lag: Duration,
}

// === impl Shard ===

impl Shard {
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
