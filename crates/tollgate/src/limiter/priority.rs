//! Requests with priority, for which a share of the limit is kept.

use std::hash::Hash;

use tollgate_core::{Clock, Cost, Decision};

use super::{Limiter, Priority, denial_without_answer};

impl<C: Clock> Limiter<C> {
    /// Consumes `units` of `key`, all or none, for a request with priority: it may use the share
    /// that [`Limit::priority_share`] keeps. Otherwise as [`Limiter::check_n`].
    ///
    /// Which requests have priority is for the caller to decide, from something that clients
    /// cannot choose.
    ///
    /// [`Limit::priority_share`]: tollgate_core::Limit::priority_share
    ///
    /// # Example
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Limiter::new(Limit::per_hour(10).priority_share(20));
    /// assert!(limiter.check_n("alice", 8).is_allowed());
    /// assert!(!limiter.check("alice").is_allowed());
    /// assert!(limiter.check_with_priority("alice", 2).is_allowed());
    /// ```
    pub fn check_with_priority<K: Hash + ?Sized>(&self, key: &K, units: u64) -> Decision {
        let key = (Priority::With, self.keys.of(key));
        let cost = Cost::Take(units);
        let decision = self
            .terms
            .decide(key, cost, |charge| self.store.check(charge));
        decision.unwrap_or_else(|_| {
            self.count_failure();
            Decision::Deny(denial_without_answer())
        })
    }
}
