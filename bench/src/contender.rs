//! What a rate limiter has to offer to be measured.

use ::tollgate::Limit;

/// Batched decisions, for contenders that have them.
pub(crate) const BATCH: usize = 64;

/// Whether requests are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// 10 000 an hour, and a burst that no run exhausts: every key stays live.
    Allowed,
    /// One an hour: only each key's first request is allowed.
    Denied,
}

/// A rate limiter with many keys.
pub(crate) trait Contender<K>: Sync {
    /// One for `keys` keys.
    fn build(keys: u64, outcome: Outcome) -> Self;

    /// Whether a request by `key` is allowed.
    ///
    /// Every contender is compiled into the measuring loop, as in a program with one limiter: a
    /// call would cost the fastest of them a tenth.
    fn check(&self, key: &K) -> bool;

    /// As [`Contender::check`] for each key; returns how many are allowed.
    #[inline(always)]
    fn check_many(&self, keys: &[K]) -> u64 {
        keys.iter().map(|key| u64::from(self.check(key))).sum()
    }
}

// === impl Outcome ===

impl Outcome {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Outcome::Allowed => "allowed",
            Outcome::Denied => "denied",
        }
    }

    /// Units an hour, and at once.
    pub(crate) const fn per_hour_and_burst(self) -> (u32, u32) {
        match self {
            Outcome::Allowed => (10_000, u32::MAX),
            Outcome::Denied => (1, 1),
        }
    }

    pub(crate) const fn limit(self) -> Limit {
        let (count, burst) = self.per_hour_and_burst();
        Limit::per_hour(count).burst(burst)
    }
}
