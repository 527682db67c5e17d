//! `ratelimit`: one bucket, no keys.

use std::time::Duration;

use ratelimit::Ratelimiter;

use crate::contender::{Contender, Outcome};

/// A single bucket for all keys: it takes part only where there is one key.
pub(crate) struct Ratelimit(Ratelimiter);

// === impl Ratelimit ===

impl<K> Contender<K> for Ratelimit {
    fn build(_keys: u64, outcome: Outcome) -> Ratelimit {
        let (count, burst) = outcome.per_hour_and_burst();
        let built = Ratelimiter::builder(u64::from(count))
            .period(Duration::from_secs(3600))
            .max_tokens(u64::from(burst))
            .initial_available(u64::from(burst))
            .build();
        Ratelimit(built.expect("the bucket starts no fuller than full"))
    }

    #[inline(always)]
    fn check(&self, _key: &K) -> bool {
        self.0.try_wait().is_ok()
    }
}
