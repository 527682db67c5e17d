//! Operations: counters, health, inspection and resets.

use std::sync::Arc;

use tokio::time::{Instant, timeout_at};
use tollgate_core::{
    CLOSE_WITHIN, Charge, InspectStore, Key, KeyState, Span, StoreError, StoreEvent,
};

use super::Redis;
use crate::denials::DENIAL_CACHE_MAX;
use crate::inspect;
use crate::stats::Counts;
use crate::trouble::ErrorCount;

impl Redis {
    /// The counters of the store.
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

    /// How many callers of decisions over several slots went away while a round decided: before
    /// anything was charged, and later. Not part of the crate's interface: it may change with any
    /// version.
    #[doc(hidden)]
    pub fn departures(&self) -> [u64; 2] {
        self.cross_slot.departures()
    }

    /// Whether every known Redis node that is needed is reachable.
    pub fn is_up(&self) -> bool {
        self.router.is_up()
    }

    /// Why Redis nodes or sentinels cannot be used now, each with its address, as the system or
    /// Redis reports it: `10.0.0.1:6379: connection refused`. `None` if all can; a connection that
    /// is open and silent gives no reason.
    pub fn trouble(&self) -> Option<String> {
        self.stats.trouble.reason()
    }

    /// The events to be logged since the last call.
    pub fn events(&self) -> Vec<StoreEvent> {
        self.stats.trouble.events(Instant::now())
    }

    /// The number of error replies, by Redis node and code; redirects are not counted.
    pub fn error_replies(&self) -> Vec<ErrorCount> {
        self.stats.trouble.error_counts()
    }

    /// Joins the members.
    pub(crate) fn join_instances(&self) {
        self.membership.join();
    }

    /// The number of instances that Redis counts: the stores that have joined and share this Redis
    /// and its prefix; 1 before its first reply. They send a heartbeat once a second
    /// ([`HEARTBEAT`](crate::HEARTBEAT)), and expire three seconds after the last one. A smaller
    /// count takes effect once it has lasted for as long: Redis may have come back empty.
    pub fn instances(&self) -> u32 {
        self.membership.count()
    }

    /// The name of a key in Redis.
    pub fn name_of(&self, key: Key) -> String {
        inspect::name_of(&self.router, key)
    }

    /// Reports every local count, returns every lease, stops leasing, and leaves the members. To
    /// be called before the store is dropped; units that are not returned are charged when their
    /// lease expires, [`crate::LEASE_LASTS`] later. Takes [`CLOSE_WITHIN`] at most, however short
    /// [`Config::timeout`](crate::Config::timeout) is: nobody waits for a decision any more.
    pub async fn close(&self) {
        let deadline = Instant::now() + CLOSE_WITHIN;
        // While a node is away, not everything is reported, but this instance can leave.
        let closed = async {
            tokio::join!(
                self.write_back.report_all(deadline),
                self.leased.close(deadline),
                self.membership.leave()
            )
        };
        let _or_given_up = timeout_at(deadline, closed).await;
    }
}

impl InspectStore for Redis {
    fn name_of(&self, key: Key) -> String {
        Redis::name_of(self, key)
    }

    async fn inspect(&self, charge: &Charge<'_>) -> Result<KeyState, StoreError> {
        inspect::inspect(&self.router, charge).await
    }

    /// Drops this instance's lease as well, which would be spent in addition to the new budget.
    async fn reset(&self, key: Key) -> Result<bool, StoreError> {
        let guard = self.caches.guard(vec![key]);
        self.leased.forget(key);
        let router = Arc::clone(&self.router);
        let deleted = guard.complete(async move { inspect::delete(&router, key).await });
        let deleted = deleted.await;
        deleted.unwrap_or_else(|| Err(self.router.timeout_error()))
    }

    fn denial_cache_max(&self) -> Span {
        DENIAL_CACHE_MAX
    }
}
