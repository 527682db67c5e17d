//! The renewal of one lease, and its outcome.

use std::sync::Arc;

use tollgate_core::{Key, Moment};

use super::Leases;
use super::lease::{GrantedLease, Lease, Shape, WANT_MAX};
use crate::fit::FittedLimit;

/// The renewal of one lease. If it gets no reply, nothing more of the lease is spent, and it is
/// returned later: by name, whether it was charged or granted again.
#[derive(Debug)]
pub(crate) struct Renewal {
    leases: Arc<Leases>,
    pub(crate) key: Key,
    shape: Arc<Shape>,
    pub(crate) name: u64,
    /// The name of the new grant.
    pub(crate) next: u64,
    pub(crate) spent: u64,
    /// Units that were not spent.
    pub(crate) left: u64,
    /// How many units to lease; zero only returns the lease.
    pub(crate) want: u64,
    pub(crate) least: u64,
    asked_at: Moment,
    outcome: Outcome,
}

/// The outcome of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// No reply yet, or none at all.
    Unknown,
    /// Redis did not execute it.
    NotDone,
    /// Redis holds none of our units any more.
    Returned,
    Granted,
}

// === impl Renewal ===

impl Renewal {
    /// A renewal of `lease` that asks for `want` units more. Its outcome is unknown until a reply
    /// says otherwise, also if it is dropped.
    pub(super) fn new(
        leases: &Arc<Leases>,
        key: Key,
        lease: &Lease,
        want: u64,
        local_now: Moment,
    ) -> Renewal {
        Renewal {
            leases: Arc::clone(leases),
            key,
            shape: Arc::clone(&lease.shape),
            name: lease.name,
            next: lease.next_name(),
            spent: lease.spent.into(),
            left: lease.unspent().into(),
            want: want.min(WANT_MAX),
            least: lease.least.into(),
            asked_at: local_now,
            outcome: Outcome::Unknown,
        }
    }

    pub(crate) fn fitted_limit(&self) -> &FittedLimit {
        &self.shape.fitted
    }

    /// Completes it: Redis has taken everything back, and granted nothing.
    pub(crate) fn confirm_return(mut self) {
        self.outcome = Outcome::Returned;
    }

    /// Completes it: Redis has not executed it.
    pub(crate) fn abort(mut self) {
        self.outcome = Outcome::NotDone;
    }

    /// Completes it with a grant.
    pub(crate) fn confirm_grant(mut self, granted: GrantedLease) {
        self.outcome = Outcome::Granted;
        let mut shard = self.leases.shards.of(self.key);
        if let Some(lease) = shard.leases.get_mut(&self.key)
            && lease.name == self.name
        {
            let renewed = lease.renewed.take();
            lease.grant(granted, self.asked_at, self.leases.clock.now());
            drop(shard);
            renewed.inspect(|renewed| renewed.notify_waiters());
        }
    }
}

impl Drop for Renewal {
    /// Units that no reply has granted are not spent. The lease stays here until it is returned, or
    /// has expired.
    fn drop(&mut self) {
        if self.outcome == Outcome::Granted {
            return;
        }
        if self.want > 0 {
            self.leases.heat.rest(self.key, self.leases.clock.now());
        }
        let local_now = self.leases.clock.now();
        let mut shard = self.leases.shards.of(self.key);
        let ours = shard.leases.get_mut(&self.key);
        let Some(lease) = ours.filter(|lease| lease.name == self.name) else {
            return;
        };
        let renewed = lease.renewed.take();
        let is_over = match self.outcome {
            Outcome::Returned | Outcome::Granted => true,
            Outcome::NotDone => lease.was_never_granted() || lease.has_ended(local_now),
            Outcome::Unknown => lease.has_ended(local_now),
        };
        if is_over {
            shard.leases.remove(&self.key);
        } else {
            lease.lose(local_now);
        }
        drop(shard);
        renewed.inspect(|renewed| renewed.notify_waiters());
    }
}
