//! `governor`: its keyed rate limiter over DashMap, with its default clock.

use std::num::NonZeroU32;

use governor::{DefaultKeyedRateLimiter, RateLimiter};

use crate::contender::{Contender, Outcome};
use crate::keys::BenchKey;

/// `RateLimiter::keyed`, as in governor's guide.
pub(crate) struct Governor<K: BenchKey>(DefaultKeyedRateLimiter<K>);

// === impl Governor ===

/// The quota that `outcome` asks for.
pub(crate) fn quota(outcome: Outcome) -> governor::Quota {
    let (count, burst) = outcome.per_hour_and_burst();
    let positive = |units| NonZeroU32::new(units).expect("neither limit is 0");
    governor::Quota::per_hour(positive(count)).allow_burst(positive(burst))
}

impl<K: BenchKey> Contender<K> for Governor<K> {
    fn build(_keys: u64, outcome: Outcome) -> Governor<K> {
        Governor(RateLimiter::keyed(quota(outcome)))
    }

    #[inline(always)]
    fn check(&self, key: &K) -> bool {
        self.0.check_key(key).is_ok()
    }
}
