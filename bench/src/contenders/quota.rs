//! `quota`: its pool, sized in advance as its documentation recommends.

use quota::{QuotaPolicy, QuotaPool, RefillRate};

use crate::contender::{Contender, Outcome};
use crate::keys::BenchKey;

/// `QuotaPool::check`, which its own benchmark uses and which says only yes or no.
pub(crate) struct Quota<K: BenchKey>(QuotaPool<K>);

// === impl Quota ===

impl<K: BenchKey> Contender<K> for Quota<K> {
    fn build(keys: u64, outcome: Outcome) -> Quota<K> {
        let (count, burst) = outcome.per_hour_and_burst();
        let policy = QuotaPolicy::new()
            .set_capacity(f64::from(burst))
            .set_refill_rate(RefillRate::per_hour(count));
        let keys = usize::try_from(keys).unwrap_or(usize::MAX);
        Quota(QuotaPool::with_capacity(policy, u64::from(burst), keys))
    }

    #[inline(always)]
    fn check(&self, key: &K) -> bool {
        self.0.check(key, 1)
    }
}
