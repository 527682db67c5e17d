//! What is asked of Redis for one lease, and what becomes of it.

use std::sync::Arc;

use tollgate_core::{Key, Moment};

use super::lease::{Granted, Lease, Shape};
use super::{Leases, WANT_MAX};
use crate::fit::Fitted;

/// What to ask Redis for; if nothing is told, the lease is given up and ends by itself.
#[derive(Debug)]
pub(crate) struct Renewal {
    leases: Arc<Leases>,
    pub(crate) key: Key,
    shape: Arc<Shape>,
    pub(crate) name: u64,
    pub(crate) spent: u64,
    /// Units that were not spent.
    pub(crate) left: u64,
    /// How many to lease: none to give all back.
    pub(crate) want: u64,
    pub(crate) least: u64,
    asked_at: Moment,
    is_done: bool,
}

// === impl Renewal ===

impl Renewal {
    pub(super) fn new(
        leases: &Arc<Leases>,
        key: Key,
        lease: &Lease,
        want: u64,
        here: Moment,
    ) -> Renewal {
        Renewal {
            leases: Arc::clone(leases),
            key,
            shape: Arc::clone(&lease.shape),
            name: lease.name,
            spent: lease.spent.into(),
            left: lease.left.into(),
            want: want.min(WANT_MAX),
            least: lease.least.into(),
            asked_at: here,
            is_done: false,
        }
    }

    pub(crate) fn fitted(&self) -> &Fitted {
        &self.shape.fitted
    }

    /// Redis has leased some.
    pub(crate) fn granted(mut self, granted: Granted) {
        self.is_done = true;
        let mut shard = self.leases.shards.of(self.key);
        if let Some(lease) = shard.leases.get_mut(&self.key)
            && lease.name == self.name
        {
            let renewed = lease.renewed.take();
            lease.grant(granted, self.asked_at, self.leases.watch.now());
            drop(shard);
            renewed.inspect(|renewed| renewed.notify_waiters());
        }
    }
}

impl Drop for Renewal {
    /// Whatever was not told to be leased is not spent: it was given back, or it ends by itself.
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        if self.want > 0 {
            self.leases.heat.rest(self.key, self.leases.watch.now());
        }
        let mut shard = self.leases.shards.of(self.key);
        let is_ours = |lease: &Lease| lease.name == self.name;
        if shard.leases.get(&self.key).is_some_and(is_ours)
            && let Some(lease) = shard.leases.remove(&self.key)
        {
            drop(shard);
            lease.renewed.inspect(|renewed| renewed.notify_waiters());
        }
    }
}
