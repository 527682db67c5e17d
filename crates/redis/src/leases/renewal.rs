//! The renewal of one lease, and its outcome.

use std::sync::Arc;

use tollgate_core::{Key, Moment};

use super::lease::{GrantedLease, Lease, Shape, WANT_MAX, next_name};
use super::{Leases, Spend};
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
    /// For how many microseconds these are owed: [`Lease::owed`].
    pub(crate) owed: u64,
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
    /// Redis did not execute it, or it was not sent.
    NotDone,
    /// No reply yet, or none at all.
    Unknown,
    /// Redis holds none of our units any more.
    Returned,
    Granted,
}

// === impl Leases ===

impl Leases {
    /// Begins to report what was spent, and to return the lease, without a charge.
    pub(crate) fn begin_return(self: &Arc<Leases>, key: Key) -> Spend {
        let mut shard = self.shards.of(key);
        match shard.leases.get_mut(&key) {
            None => Spend::Cold,
            Some(lease) if lease.is_lost => Spend::Cold,
            Some(lease) => match &lease.renewed {
                Some(renewed) => Spend::Wait(Arc::clone(renewed).notified_owned()),
                None => Spend::Renew(self.begin_renewal(key, lease, 0, self.clock.now())),
            },
        }
    }
}

// === impl Renewal ===

impl Renewal {
    /// A renewal of `lease` that asks for `want` units more, not sent yet.
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
            next: next_name(lease.name),
            spent: lease.spent.into(),
            owed: lease.owed(local_now),
            left: lease.unspent().into(),
            want: want.min(WANT_MAX),
            least: lease.least.into(),
            asked_at: local_now,
            outcome: Outcome::NotDone,
        }
    }

    pub(crate) fn fitted_limit(&self) -> &FittedLimit {
        &self.shape.fitted
    }

    /// Notes that it is sent: from now on, its outcome is unknown until a reply says otherwise,
    /// also if it is dropped.
    pub(crate) fn send(&mut self) {
        self.outcome = Outcome::Unknown;
    }

    /// Completes it: Redis has taken everything back, and granted nothing.
    pub(crate) fn confirm_return(mut self) {
        self.outcome = Outcome::Returned;
    }

    /// Completes it: Redis has not executed it.
    pub(crate) fn abort(mut self) {
        self.outcome = Outcome::NotDone;
    }

    /// Completes it with a grant. If its key was reset meanwhile, there is no place for the granted
    /// units: they are not spent, and another renewal is to return them.
    #[must_use]
    pub(crate) fn confirm_grant(mut self, granted: GrantedLease) -> Option<Renewal> {
        self.outcome = Outcome::Granted;
        let local_now = self.leases.clock.now();
        let mut shard = self.leases.shards.of(self.key);
        let ours = shard.leases.get_mut(&self.key);
        let Some(lease) = ours.filter(|lease| lease.name == self.name) else {
            return Some(self.give_back(granted.units));
        };
        let renewed = lease.renewed.take();
        lease.grant(granted, self.asked_at, local_now);
        drop(shard);
        renewed.inspect(|renewed| renewed.notify_waiters());
        None
    }

    /// The renewal that returns units which this one was granted.
    fn give_back(&self, units: u64) -> Renewal {
        Renewal {
            leases: Arc::clone(&self.leases),
            key: self.key,
            shape: Arc::clone(&self.shape),
            name: self.next,
            next: next_name(self.next),
            spent: 0,
            owed: 0,
            left: units,
            want: 0,
            least: self.least,
            asked_at: self.asked_at,
            outcome: Outcome::NotDone,
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tollgate_core::{Charge, Cost, Limit, Span};

    use super::*;
    use crate::monotonic::MonotonicClock;
    use crate::snapshot::Snapshot;

    /// Redis has granted units of a key that was reset meanwhile, and may be leased again already.
    /// Nobody may spend them, so they are returned.
    #[test]
    fn a_grant_for_a_key_that_was_reset_is_returned() {
        let start = Moment::ZERO + Span::from_secs(1_000);
        let limit = Limit::token_bucket(100, Span::SECOND).unwrap();
        let charge = Charge::new(Key::from_bits(1 << 8), &limit, Cost::ONE);
        for (is_leased_again, held) in [(false, 0), (true, 1)] {
            let clock = MonotonicClock::new(Some(Arc::new(move || start)));
            let leases = Leases::new(clock);
            assert!(matches!(leases.spend(&charge), Spend::Cold));
            let begin = || match leases.spend(&charge) {
                Spend::Renew(renewal) => renewal,
                _ => panic!("a warm key is leased"),
            };
            let grant = |units| GrantedLease {
                units,
                lasts: 10_000_000,
                snapshot: Snapshot::plain(&FittedLimit::new(&limit).unwrap(), 1, 1),
                now: 1,
            };
            let mut renewal = begin();
            renewal.send();
            leases.forget(charge.key);
            let again = is_leased_again.then(begin);
            let next = renewal.next;
            let returned = renewal.confirm_grant(grant(8)).unwrap();
            let fields = (returned.name, returned.want, returned.spent, returned.left);
            assert_eq!(fields, (next, 0, 0, 8));
            returned.confirm_return();
            assert_eq!(leases.count(), held, "that of the next request is left");
            if let Some(again) = again {
                assert!(again.confirm_grant(grant(4)).is_none());
                assert!(matches!(leases.spend(&charge), Spend::Granted(_)));
            }
        }
    }

    /// A denial from the denial cache drops the first renewal of a key before it is sent: there is
    /// nothing to return to Redis.
    #[test]
    fn a_first_renewal_that_is_not_sent_leaves_no_lease() {
        let start = Moment::ZERO + Span::from_secs(1_000);
        let clock = MonotonicClock::new(Some(Arc::new(move || start)));
        let leases = Leases::new(clock);
        let limit = Limit::token_bucket(100, Span::SECOND).unwrap();
        for (key, is_sent, held) in [(1 << 8, false, 0), (2 << 8, true, 1)] {
            let charge = Charge::new(Key::from_bits(key), &limit, Cost::ONE);
            assert!(matches!(leases.spend(&charge), Spend::Cold));
            let Spend::Renew(mut renewal) = leases.spend(&charge) else {
                panic!("a warm key is leased");
            };
            if is_sent {
                renewal.send();
            }
            drop(renewal);
            assert_eq!(leases.count(), held);
        }
    }
}
