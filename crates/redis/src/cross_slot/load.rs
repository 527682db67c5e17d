//! How many requests to the same Redis nodes are in rounds at once, and how many may wait.

use std::collections::BTreeSet;

use tokio::time::{Duration, Instant};

use crate::window::{Bounds, Window};

/// The requests that are in rounds: so many that a round is over long before they are too old.
const IN_ROUNDS: Bounds = Bounds {
    least: 4,
    first: 16,
    most: 1_024,
};
/// The fewest requests that a round takes, if so many wait.
const ROUND_MIN: usize = 4;
/// The part of the time that callers have in which those who wait for a round get into one.
const WAITS_QUARTERS: u32 = 3;
/// Nodes are near if the shortest round, of two round trips, took such a part of the time that
/// callers have.
const NEAR: u32 = 4;

/// What the requests to the same nodes have in common.
pub(super) struct Load {
    window: Window,
    reply_timeout: Duration,
    in_rounds: usize,
    /// The most that may wait while the window is used up, as the last round has shown.
    waiting_max: usize,
    /// The queues of these nodes, and how many requests wait in them.
    pub(super) queues: BTreeSet<u64>,
    pub(super) waiting: usize,
    /// How many run rounds.
    pub(super) turns: usize,
}

// === impl Load ===

impl Load {
    pub(super) fn new(reply_timeout: Duration) -> Load {
        Load {
            window: Window::new(IN_ROUNDS, reply_timeout, Instant::now()),
            reply_timeout,
            in_rounds: 0,
            waiting_max: usize::MAX,
            queues: BTreeSet::new(),
            waiting: 0,
            turns: 0,
        }
    }

    /// Whether another round at the same time would make all of them late.
    pub(super) const fn is_busy(&self) -> bool {
        self.window.room(self.in_rounds) == 0
    }

    /// Whether one more request would wait too long.
    pub(super) const fn is_full(&self) -> bool {
        self.is_busy() && self.waiting >= self.waiting_max
    }

    /// Whether those who wait longest are too old to be answered in time.
    pub(super) const fn is_overfull(&self) -> bool {
        self.waiting > self.waiting_max
    }

    /// Whether the nodes are so near that a round has time for another round trip.
    pub(super) fn is_near(&self) -> bool {
        let shortest = self.window.shortest();
        shortest.is_some_and(|shortest| shortest <= self.reply_timeout / NEAR)
    }

    /// The most requests that the next round takes.
    pub(super) fn round_max(&self) -> usize {
        self.window.room(self.in_rounds).max(ROUND_MIN)
    }

    /// A round of so many requests begins.
    pub(super) const fn begin(&mut self, requests: usize) {
        self.in_rounds += requests;
    }

    /// Such a round, which began then, is over. If a slot was not asked for some of its requests,
    /// or another instance was in its way, it is not typical: its time says nothing about others.
    pub(super) fn end(&mut self, began_at: Instant, requests: usize, is_typical: bool) {
        let now = Instant::now();
        let took = now.saturating_duration_since(began_at);
        if took >= self.reply_timeout {
            self.window.on_loss(began_at, now, self.in_rounds);
        } else if is_typical {
            self.window
                .on_reply(began_at, now, requests, self.in_rounds);
        }
        if is_typical {
            // By Little's law so many are answered in the time of those who wait.
            let in_rounds = u128::try_from(self.in_rounds).unwrap_or(u128::MAX);
            let time = (self.reply_timeout * WAITS_QUARTERS / 4).as_nanos();
            let waiting = in_rounds * time / took.as_nanos().max(1);
            self.waiting_max = usize::try_from(waiting).unwrap_or(usize::MAX);
        }
        self.in_rounds -= requests;
    }
}
