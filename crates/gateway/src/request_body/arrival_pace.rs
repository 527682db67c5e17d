//! How long a client may take to send a body.

use std::time::Duration;

use tokio::time::Instant;

/// How long a client is waited for: at most a while at a time, and altogether that while and the
/// time that the bytes so far take at the least rate. So a client that sends a byte now and then
/// does not hold a connection to an upstream for long, as with Apache's `RequestReadTimeout` and
/// Kestrel's `MinRequestBodyDataRate`. Time in which the upstream is waited for does not count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrivalPace {
    /// The longest wait at a time.
    idle: Duration,
    /// In bytes a second; 0 means no minimum rate.
    rate: u64,
    bytes: u64,
    /// All waits that have ended.
    waited: Duration,
    waits_since: Option<Instant>,
}

// === impl ArrivalPace ===

impl ArrivalPace {
    pub(super) fn new(idle: Duration, rate: u64) -> ArrivalPace {
        ArrivalPace {
            idle,
            rate,
            bytes: 0,
            waited: Duration::ZERO,
            waits_since: None,
        }
    }

    pub(super) fn add(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// How long the client is waited for, once the wait has begun.
    pub(super) fn begin_wait(&mut self) -> Duration {
        self.waits_since.get_or_insert_with(Instant::now);
        self.idle.min(self.budget())
    }

    pub(super) fn end_wait(&mut self) {
        if let Some(since) = self.waits_since.take() {
            self.waited += since.elapsed();
        }
    }

    /// What is left of the time for all waits.
    fn budget(&self) -> Duration {
        if self.rate == 0 {
            return Duration::MAX;
        }
        let millis = u128::from(self.bytes) * 1000 / u128::from(self.rate);
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        let earned = Duration::from_millis(millis);
        self.idle.saturating_add(earned).saturating_sub(self.waited)
    }

    /// If a wait was too long: the rate that the client fell behind, unless it was the longest wait
    /// at a time.
    pub(super) fn missed_rate(&self) -> Option<u64> {
        (self.budget() < self.idle).then_some(self.rate)
    }
}
