//! What a store tells its operators, and what they may change.

use tokio::time::{Duration, Instant};
use tollgate_core::{Charge, InspectStore, Key, KeyState, Span, StoreError, StoreEvent};

use super::Redis;
use crate::denials::DENIAL_CACHE_MAX;
use crate::inspect;
use crate::stats::Counts;
use crate::trouble::ErrorCount;

impl Redis {
    /// What the store has done so far.
    pub fn counts(&self) -> Counts {
        let count = |count| u64::try_from(count).unwrap_or(u64::MAX);
        let (write_back_decisions, keys) = self.write_back.counts();
        let (lease_decisions, leases) = self.leased.counts();
        Counts {
            write_back_decisions,
            write_back_keys: count(keys),
            lease_decisions,
            leases_held: count(leases),
            ..self.stats.counts()
        }
    }

    /// Whether Redis answers: all of it that is known.
    pub fn is_up(&self) -> bool {
        self.router.is_up()
    }

    /// Why Redis nodes or sentinels cannot be used now, each with its address, in the words of the
    /// system or of Redis: `10.0.0.1:6379: connection refused`. None if all can; a connection that
    /// is open and silent gives no reason.
    pub fn trouble(&self) -> Option<String> {
        self.stats.trouble.reason()
    }

    /// What belongs into the log since this was called last.
    pub fn events(&self) -> Vec<StoreEvent> {
        self.stats.trouble.events(Instant::now())
    }

    /// Error replies so far, by Redis node and code; those that only say where to ask instead are
    /// left out.
    pub fn error_replies(&self) -> Vec<ErrorCount> {
        self.stats.trouble.error_counts()
    }

    /// Counts among the instances from now on.
    pub(crate) fn join_instances(&self) {
        self.membership.join();
    }

    /// How many instances there were when Redis last said so: the stores that have joined and share
    /// this Redis and its prefix; one, as long as Redis has not said it. They report once a second
    /// ([`HEARTBEAT`](crate::HEARTBEAT)), and count for three seconds after their last report.
    pub fn nodes(&self) -> u32 {
        self.membership.count()
    }

    /// The name of a key in Redis.
    pub fn name_of(&self, key: Key) -> String {
        inspect::name_of(&self.router, key)
    }

    /// Reports every local count and returns every lease, after which this instance holds nothing
    /// and leases nothing any more. To be called before the store is dropped; what is not returned
    /// is charged when its lease ends, [`crate::LEASE_LASTS`] later.
    pub async fn close(&self) {
        let deadline = Instant::now() + 2 * Duration::from(self.router.timeout());
        self.write_back.report_all(deadline).await;
        self.membership.leave().await;
        self.leased.close(deadline).await;
    }
}

impl InspectStore for Redis {
    fn name_of(&self, key: Key) -> String {
        Redis::name_of(self, key)
    }

    async fn inspect(&self, charge: &Charge<'_>) -> Result<KeyState, StoreError> {
        inspect::inspect(&self.router, charge).await
    }

    /// A lease of this instance is not spent beside the new budget.
    async fn reset(&self, key: Key) -> Result<bool, StoreError> {
        self.denial_cache.forget(key);
        self.leased.forget(key);
        inspect::delete(&self.router, key).await
    }

    fn denial_cache_max(&self) -> Span {
        DENIAL_CACHE_MAX
    }
}
