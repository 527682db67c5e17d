//! Estimates of keys that have nothing left to lease.
//!
//! A bucket with more demand than its rate has no units to lease: each one is taken as soon as it
//! is refilled. To avoid a call for each request, this keeps the state from Redis's last reply on
//! such a key, advances it by the local clock, and charges to it every request that is sent to
//! Redis. A request that does not fit even there is denied locally. So each instance requests each
//! refilled unit once, and all other requests cost Redis nothing.
//!
//! An estimate is never below what remains in Redis once the requests in flight are decided there:
//!
//! * Other instances only take units. Units that they return (refunds, unused leases) are seen
//!   after [`LASTS`], when Redis is asked again.
//! * Time before a reply arrived is not counted, so a unit may be requested later than it is
//!   refilled, by at most one round trip.
//! * A request in flight that fits here is charged in Redis before any later one, or it is denied
//!   because others were first. If its reply is lost, the estimate is dropped. Requests that
//!   cost less than one in flight might fit where that does not: they are sent.
//! * A connection opened since may lead to another primary: the estimate is dropped.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::{Duration, Instant};
use tollgate_core::{
    Account, Charge, Cost, Enforcement, Key, Limit, Moment, OnDenial, Usage, Verdict, Wait, step,
};

use super::lease::{CAPACITY_MIN, LEAST};
use crate::fit::FittedLimit;
use crate::key_map::KeyMap;
use crate::script_reply::{ScriptReply, coarsen};
use crate::sharded::Sharded;
use crate::single::Single;
use crate::snapshot::{Snapshot, moment};

/// The lifetime of an estimate: after that, units returned by others are seen.
const LASTS: Duration = Duration::from_secs(1);
/// The most estimates, about 150 bytes each, or 400 for a sliding window. Redis decides on the
/// other keys.
const KEYS_MAX: usize = SHARDS * SHARD_MAX;
const SHARDS: usize = 16;
const SHARD_MAX: usize = 1_024;

/// Estimates of keys that have nothing left to lease.
#[derive(Debug, Default)]
pub(crate) struct Estimates {
    /// Whether estimates are kept.
    is_enabled: bool,
    shards: Sharded<KeyMap<Estimate>, SHARDS>,
    count: AtomicUsize,
}

/// The estimate of one key.
#[derive(Debug)]
struct Estimate {
    fitted: FittedLimit,
    account: Box<Account>,
    /// The largest cost of the requests charged here since the last reply.
    largest: u64,
    /// Redis's time, in microseconds, and the local time when its reply arrived.
    now: u64,
    received_at: Instant,
    /// The number of connections opened until then.
    connections: u64,
}

/// A request in flight. If it is dropped before its reply, the estimate is dropped.
#[derive(Debug)]
pub(crate) struct InFlight<'e> {
    estimates: &'e Estimates,
    key: Key,
    connections: u64,
    is_over: bool,
}

// === impl Estimates ===

impl Estimates {
    pub(crate) fn new(is_enabled: bool) -> Estimates {
        Estimates {
            is_enabled,
            ..Estimates::default()
        }
    }

    /// Begins a request; or the verdict, if the charge certainly does not fit.
    #[expect(
        clippy::result_large_err,
        reason = "the verdict is the answer, and returned as it is"
    )]
    pub(crate) fn ask(
        &self,
        charge: &Charge<'_>,
        fitted: &FittedLimit,
        connections: u64,
        at: Instant,
    ) -> Result<InFlight<'_>, Verdict> {
        let ask = InFlight {
            estimates: self,
            key: charge.key,
            connections,
            is_over: false,
        };
        // Relaxed: a caller that misses the newest estimate goes to Redis.
        if self.count.load(Ordering::Relaxed) == 0 {
            return Ok(ask);
        }
        let mut shard = self.shards.of(charge.key);
        let Some(estimate) = shard.get_mut(&charge.key) else {
            return Ok(ask);
        };
        let stands = estimate.connections == connections
            && estimate.fitted == *fitted
            && at.saturating_duration_since(estimate.received_at) < LASTS;
        if !stands {
            shard.remove(&charge.key);
            self.count.fetch_sub(1, Ordering::Relaxed);
            return Ok(ask);
        }
        match estimate.judge(charge, at) {
            None => Ok(ask),
            Some(verdict) => {
                drop(ask.end());
                Err(verdict)
            }
        }
    }

    /// Drops an estimate: units were returned, or a reply was lost.
    pub(crate) fn forget(&self, key: Key) {
        if self.shards.of(key).remove(&key).is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Updates the estimate from Redis's reply on a decided charge. Returns whether the reply
    /// contains the state of the key.
    pub(crate) fn learn(&self, only: &Single<'_>, reply: &ScriptReply, connections: u64) -> bool {
        let left = account_after(only.charge, &only.fitted, reply);
        let Some(left) = left.filter(|_| self.is_enabled) else {
            return false;
        };
        self.update(only, left, connections);
        true
    }

    /// Stores the state of a key at `now`, after the charge, unless the key got units back since
    /// the request began.
    fn update(&self, only: &Single<'_>, (account, now): (Account, u64), connections: u64) {
        let Single { charge, fitted, .. } = only;
        let limit = &fitted.limit;
        if !is_exhausted(&account, limit, moment(now), charge.cost) {
            return self.forget(charge.key);
        }
        let mut shard = self.shards.of(charge.key);
        if !only.generation.is_current() {
            return;
        }
        let known = shard.get(&charge.key);
        // Replies may be processed in another order than they were made.
        if known.is_some_and(|known| known.connections == connections && known.now > now) {
            return;
        }
        if known.is_none() && shard.len() >= SHARD_MAX {
            return;
        }
        let estimate = Estimate {
            fitted: *fitted,
            account: Box::new(account),
            largest: 0,
            now,
            received_at: Instant::now(),
            connections,
        };
        if shard.insert(charge.key, estimate).is_none() {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

// === impl Estimate ===

impl Estimate {
    /// The verdict on a charge that does not fit; one that fits is charged here and sent.
    fn judge(&mut self, charge: &Charge<'_>, at: Instant) -> Option<Verdict> {
        let units = units_if_enforced(charge)?;
        if units < self.largest {
            return None;
        }
        let passed = at.saturating_duration_since(self.received_at).as_micros();
        let now = self.now.saturating_add(u64::try_from(passed).ok()?);
        let mut account = self.account.clone();
        let limit = &self.fitted.limit;
        let decision = step(
            &mut *account,
            limit,
            moment(now),
            charge.cost,
            OnDenial::Keep,
        );
        match decision.wait() {
            Some(Wait::For(_)) => {
                let mut verdict = Verdict::of_one(charge, decision);
                coarsen(&mut verdict);
                Some(verdict)
            }
            Some(_) => None,
            None => {
                self.account = account;
                self.largest = self.largest.max(units);
                None
            }
        }
    }
}

// === impl Ask ===

impl InFlight<'_> {
    /// Completes the request with Redis's reply.
    pub(crate) fn finish(self, only: &Single<'_>, reply: &ScriptReply) {
        if self.estimates.learn(only, reply, self.connections) {
            drop(self.end());
        }
    }

    fn end(mut self) -> Self {
        self.is_over = true;
        self
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.estimates.forget(self.key);
        }
    }
}

/// The state of a key after the charge, and its time; `None` for a log.
fn account_after(
    charge: &Charge<'_>,
    fitted: &FittedLimit,
    reply: &ScriptReply,
) -> Option<(Account, u64)> {
    let (mut snapshot, now) = reply.snapshot(fitted).ok()?;
    snapshot.charge(charge, fitted, now);
    match snapshot {
        Snapshot::Account(account) => Some((account, now)),
        Snapshot::Marked(_) | Snapshot::Log(_) => None,
    }
}

/// Whether so little remains that the next such request could lease nothing: a quarter of it is
/// less than is worth a lease.
fn is_exhausted(account: &Account, limit: &Limit, now: Moment, cost: Cost) -> bool {
    let Some(units) = cost.units_needed() else {
        return false;
    };
    let mut account = account.clone();
    account.settle(limit, now);
    let least = u64::from(LEAST).saturating_mul(units).saturating_mul(4);
    limit.capacity() >= CAPACITY_MIN && u64::from(account.remaining(limit, now)) < least
}

/// The units that must fit, if the charge is enforced and its denial costs nothing.
fn units_if_enforced(charge: &Charge<'_>) -> Option<u64> {
    if charge.on_denial == OnDenial::Charge || charge.enforcement != Enforcement::Enforce {
        return None;
    }
    charge.cost.units_needed()
}

const _: () = assert!(KEYS_MAX == 16_384);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tollgate_core::{Bucket, Span};

    use super::*;
    use crate::generations::Generations;

    const KEY: Key = Key::from_bits(7);
    /// Redis's time, in microseconds.
    const NOW: u64 = 1_000_000_000;

    /// A bucket that refills one unit per millisecond, with this many units left.
    fn left(units: u64) -> (Account, u64) {
        let full_at = moment(NOW + 1_000 * (100 - units));
        (Account::Bucket(Bucket::full_at(full_at)), NOW)
    }

    fn limit() -> Limit {
        let limit = Limit::token_bucket(1_000, Span::SECOND).unwrap();
        limit.with_burst(100).unwrap()
    }

    fn heard(estimates: &Estimates, limit: &Limit, units: u64) -> Instant {
        let charge = Charge::new(KEY, limit, Cost::ONE);
        let fitted = FittedLimit::new(limit).unwrap();
        let before = Instant::now();
        let generations = Generations::default();
        let only = Single {
            charge: &charge,
            fitted,
            generation: generations.of(KEY),
            charges: generations.of(KEY),
        };
        estimates.update(&only, left(units), 1);
        let mut shard = estimates.shards.of(KEY);
        if let Some(estimate) = shard.get_mut(&KEY) {
            estimate.received_at = before;
        }
        before
    }

    /// Whether a request for these units is sent to Redis; its reply is still in flight afterwards.
    fn is_asked(estimates: &Estimates, limit: &Limit, units: u64, at: Instant) -> bool {
        let charge = Charge::new(KEY, limit, Cost::Take(units));
        let fitted = FittedLimit::new(limit).unwrap();
        match estimates.ask(&charge, &fitted, 1, at) {
            Ok(ask) => {
                drop(ask.end());
                true
            }
            Err(verdict) => {
                assert!(!verdict.is_allowed());
                false
            }
        }
    }

    #[test]
    fn each_unit_is_asked_for_once() {
        let (estimates, limit) = (Estimates::default(), limit());
        let start = heard(&estimates, &limit, 2);
        let mut asked = 0;
        for tenths in 0..500 {
            let at = start + Duration::from_micros(100 * tenths);
            asked += u32::from(is_asked(&estimates, &limit, 1, at));
        }
        // Two that are there, and those that are refilled in 49.9 ms.
        assert_eq!(asked, 2 + 49);
    }

    #[test]
    fn an_ask_without_an_answer_ends_what_is_known() {
        let (estimates, limit) = (Estimates::default(), limit());
        let at = heard(&estimates, &limit, 1);
        let charge = Charge::new(KEY, &limit, Cost::ONE);
        let fitted = FittedLimit::new(&limit).unwrap();
        let ask = estimates.ask(&charge, &fitted, 1, at).unwrap();
        assert!(!is_asked(&estimates, &limit, 1, at));
        drop(ask);
        assert!(is_asked(&estimates, &limit, 1, at));
    }

    #[test]
    fn what_costs_less_than_an_ask_on_its_way_is_asked() {
        let (estimates, limit) = (Estimates::default(), limit());
        let at = heard(&estimates, &limit, 5);
        assert!(is_asked(&estimates, &limit, 5, at));
        assert!(!is_asked(&estimates, &limit, 5, at));
        assert!(is_asked(&estimates, &limit, 1, at));
    }

    #[test]
    fn what_is_known_ends() {
        let other = Limit::token_bucket(10, Span::SECOND).unwrap();
        for (limit, connections, after) in [
            (limit(), 1, Duration::from_secs(1)),
            (limit(), 2, Duration::ZERO),
            (other, 1, Duration::ZERO),
        ] {
            let estimates = Estimates::default();
            let at = heard(&estimates, &self::limit(), 0) + after;
            let charge = Charge::new(KEY, &limit, Cost::ONE);
            let fitted = FittedLimit::new(&limit).unwrap();
            assert!(estimates.ask(&charge, &fitted, connections, at).is_ok());
        }
    }

    #[test]
    fn with_enough_to_lease_nothing_is_kept() {
        let (estimates, limit) = (Estimates::default(), limit());
        heard(&estimates, &limit, 15);
        assert_eq!(estimates.count.load(Ordering::Relaxed), 1);
        heard(&estimates, &limit, 16);
        assert_eq!(estimates.count.load(Ordering::Relaxed), 0);
    }
}
