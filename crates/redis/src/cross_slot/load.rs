//! How many requests to the same Redis nodes are in rounds concurrently, and how many may wait.

use std::collections::BTreeSet;

use tokio::time::{Duration, Instant};

use crate::window::{Bounds, Window};

/// Bounds of the requests in rounds: few enough for a round to end long before their deadlines.
const IN_ROUNDS: Bounds = Bounds {
    least: 4,
    first: 16,
    most: 1_024,
};
/// The size of a round is at least this, if enough requests wait.
const ROUND_MIN: usize = 4;
/// How many quarters of the reply timeout a request may wait for its round.
const WAITS_QUARTERS: u32 = 3;
/// Nodes are near if the shortest round, of two round trips, took at most this fraction of the
/// reply timeout.
const NEAR: u32 = 4;

/// The load of the requests to the same nodes.
pub(super) struct Load {
    window: Window,
    reply_timeout: Duration,
    in_rounds: usize,
    /// The most that may wait while the window is full, as measured by the last round.
    waiting_max: usize,
    /// The queues of these nodes, and the number of requests that wait in them.
    pub(super) queues: BTreeSet<u64>,
    pub(super) waiting: usize,
    /// The number of tasks that run rounds.
    pub(super) tasks: usize,
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
            tasks: 0,
        }
    }

    /// Whether another concurrent round would make all of them late.
    pub(super) const fn is_busy(&self) -> bool {
        self.window.room(self.in_rounds) == 0
    }

    /// Whether one more request would wait too long.
    pub(super) const fn is_full(&self) -> bool {
        self.is_busy() && self.waiting >= self.waiting_max
    }

    /// Whether the requests that have waited longest would miss their deadlines.
    pub(super) const fn is_overfull(&self) -> bool {
        self.waiting > self.waiting_max
    }

    /// Whether the nodes are near enough for a round to take a third round trip.
    pub(super) fn is_near(&self) -> bool {
        let shortest = self.window.shortest();
        shortest.is_some_and(|shortest| shortest <= self.reply_timeout / NEAR)
    }

    /// The most requests in the next round.
    pub(super) fn round_max(&self) -> usize {
        self.window.room(self.in_rounds).max(ROUND_MIN)
    }

    /// Begins a round of this many requests.
    pub(super) const fn begin(&mut self, requests: usize) {
        self.in_rounds += requests;
    }

    /// Ends such a round, which began at `began_at`. A round is not typical if a slot was not
    /// called for some of its requests, or another instance blocked it: its time is then not
    /// representative.
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
            // By Little's law, this many are answered while a request may wait.
            let in_rounds = u128::try_from(self.in_rounds).unwrap_or(u128::MAX);
            let time = (self.reply_timeout * WAITS_QUARTERS / 4).as_nanos();
            let waiting = in_rounds * time / took.as_nanos().max(1);
            self.waiting_max = usize::try_from(waiting).unwrap_or(usize::MAX);
        }
        self.in_rounds -= requests;
    }
}
