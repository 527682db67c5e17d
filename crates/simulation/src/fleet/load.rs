//! What the decisions of instances cost, and which of them were made without Redis.

use tollgate_core::Span;

use crate::instance::Instance;
use crate::redis_memory::RedisMemory;

/// What came of requests beside their answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Decisions that were made without Redis because it did not answer.
    pub without_redis: u64,
    /// Requests without a decision: no instance was up, or `on_store_error: error`.
    pub failed: u64,
    /// Script calls that carried decisions or reports.
    pub calls: u64,
    /// Writes to connections: what the network carries at once.
    pub writes: u64,
    /// Decisions and reports that Redis was sent.
    pub to_redis: u64,
    /// What Redis had at most at any moment, beyond what it had before the requests: of a
    /// prediction, computed from what keys were measured to take; of a measurement, the most of
    /// what was asked for now and then.
    pub redis_most: RedisMemory,
    /// The same at the end of the requests.
    pub redis_end: RedisMemory,
    /// From the first request or retry to the last one.
    pub length: Span,
}

/// What an instance has sent: script calls, writes, and requests.
pub(super) type Sent = [u64; 3];

// === impl Load ===

impl Load {
    /// A count per second of the requests' length, rounded down; the count if it is shorter.
    pub fn per_second(&self, count: u64) -> u64 {
        count.saturating_mul(1_000) / (self.length.as_nanos() / 1_000_000).max(1_000)
    }

    /// Adds what an instance has sent, less what it had sent `before`.
    pub(super) fn add_sent(&mut self, instance: &Instance, before: Sent) {
        let [calls, writes, to_redis] = count_sent(instance);
        self.calls += calls - before[0];
        self.writes += writes - before[1];
        self.to_redis += to_redis - before[2];
    }
}

/// What an instance has sent so far.
pub(super) fn count_sent(instance: &Instance) -> Sent {
    let counts = instance.redis.counts();
    [counts.calls, counts.writes, counts.requests]
}
