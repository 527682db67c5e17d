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
    /// Whether requests of the last round failed, maybe because they had waited for too long.
    is_late: bool,
    /// The queues of these nodes that other requests may join.
    pub(super) queues: BTreeSet<u64>,
    /// The number of requests that wait in all queues of these nodes.
    pub(super) waiting: usize,
    /// The number of tasks that run rounds.
    pub(super) tasks: usize,
}

/// What the time of a round says about the next ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoundTime {
    /// They take as long.
    Typical,
    /// A slot was not called for some of its requests, or did not reply: it may have had too little
    /// time left.
    Failed,
    /// Nothing: another instance blocked it.
    Blocked,
}

// === impl RoundTime ===

impl RoundTime {
    pub(super) const fn of(has_failed: bool, is_blocked: bool) -> RoundTime {
        match (has_failed, is_blocked) {
            (true, _) => RoundTime::Failed,
            (false, true) => RoundTime::Blocked,
            (false, false) => RoundTime::Typical,
        }
    }
}

// === impl Load ===

impl Load {
    pub(super) fn new(reply_timeout: Duration) -> Load {
        Load {
            window: Window::new(IN_ROUNDS, reply_timeout, Instant::now()),
            reply_timeout,
            in_rounds: 0,
            waiting_max: usize::MAX,
            is_late: false,
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

    /// Whether the requests that have waited longest would miss their deadlines. After a round that
    /// failed they may: if rounds got slower, every round of the oldest requests ends too late, and
    /// none is left to measure how many may wait.
    pub(super) const fn is_overfull(&self) -> bool {
        self.is_late || self.waiting > self.waiting_max
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

    /// Ends such a round, which began at `began_at`.
    pub(super) fn end(&mut self, began_at: Instant, requests: usize, time: RoundTime) {
        let now = Instant::now();
        let took = now.saturating_duration_since(began_at);
        let is_typical = time == RoundTime::Typical;
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
        if time != RoundTime::Blocked {
            self.is_late = !is_typical;
        }
        self.in_rounds -= requests;
    }
}
