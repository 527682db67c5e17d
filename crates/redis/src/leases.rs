//! Leases: units that Redis has granted in advance, spent locally without a round trip.
//!
//! Redis counts leased units as consumed, and this instance spends them at the speed of memory.
//! When they run out, or the lease is about to expire, one script call charges the spent units,
//! returns the rest and leases again. A request that needs more than remains is decided in that
//! call like any other. When a key becomes idle, or the store is closed, its unspent units are
//! returned. If a lease expires unreported, because its instance crashed or could not reach Redis,
//! all of it is charged as of its end.
//!
//! # Never more than the limit
//!
//! Consider the latest time at which Redis granted any of the units spent so far. The units it
//! counted then, leases included, were within the limit. Each unit spent so far had been granted by
//! then: either it was still leased, and counted in full, or it had been charged. So it suffices
//! that a unit charged later weighs, at any later time, no less than if it had been charged when it
//! was spent:
//!
//! * A token bucket owes it for as long, or longer ([`Lease::owed`]).
//! * A window aligned to the clock counts it until its end, and the lease expires with the window.
//! * So does a window that starts with its first request: the request that leases starts it, and it
//!   does not end while its units are leased.
//! * A sliding window counts it in the segment in which it was spent, with which the lease expires:
//!   none is granted in the last second of a segment, in which it might be reported too late.
//!
//! A sliding log has a time for each of its units. A leaky bucket orders its requests, and its
//! delays are one sequence over all instances. So Redis makes all their decisions
//! ([`Mode::suits`]), as it does for charged denials, and for requests with several limits.
//!
//! # How much
//!
//! A cold key leases nothing: Redis makes each decision. A warm one (two requests within a second
//! and a half, or one every two seconds for a while) leases as much as its rate consumes during the
//! lease; above 64 units, only as much as it consumes in a second; each time at most eight times as
//! much as before. And a lease is at most a quarter of the units that remain after the request, so
//! that other instances always find three times as many. If that is less than four times the cost
//! of the request, nothing is leased, as the return would cost more than the lease saves. For
//! limits below [`CAPACITY_MIN`] Redis makes every decision. A larger limit that is nearly used up
//! has the same problem, and a bucket with more demand than its rate always has it. Then each
//! refilled unit is requested once, and requests beyond that are denied locally (see
//! `estimates.rs`).
//!
//! Leases of small limits would save little and cost much. A limit of 16 units allows 16 requests
//! per window, so leases could save no more than 16 calls; denials are cached for up to a second
//! anyway. But three instances with one request each could hold 3 + 2 + 2 of the 16 units, unused
//! for the time of a lease, while a fourth instance is denied units that no one spends: nearly half
//! of so small a budget, where instances lease a second's worth of a large one.
//!
//! A request with several limits goes to Redis even if each of its keys is leased here: it is
//! all or nothing, and whichever lease ended first would take the others to Redis with it, since
//! a renewal decides for one key. The units that this instance holds of those keys count as
//! consumed there: if that denies the request, they are returned, and it is decided again.
//!
//! If a renewal gets no reply, Redis may hold the previous lease or a new grant. Each grant has a
//! unique name, so returning both by name is right in either case, and can be repeated. The task
//! does so until there is a reply or both have expired; meanwhile Redis makes every decision on the
//! key, and nothing is leased.
//!
//! Leases expire after [`LASTS`], by Redis's clock, and with their window or segment. This instance
//! stops spending a hundredth and a millisecond earlier, by its own clock, counted from before it
//! sent the request. Shortly before that a used lease is renewed in the background, and an unused
//! one is returned. Units unused for [`IDLE`] are returned then too, except a few units of a slow
//! key. An instance holds leases of at most [`KEYS_MAX`] keys, about 130 bytes each; Redis decides
//! on the others.
//!
//! A refund first reports what this instance has spent, in the same call, and returns the lease.
//! The unreported units of other instances cannot be refunded. Redis answers a peek, as if what
//! this instance holds were returned; a peek at a bucket reports what was spent, and leases again.
//!
//! While other instances hold units, a denial's retry time may be later than necessary.

mod estimates;

mod heat;

mod lease;

mod renewal;

mod spend;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tollgate_core::{Charge, Cost, Key, Limit, Mode, Moment, Span};

pub(crate) use estimates::{Estimates, InFlight};
use heat::Heat;
pub(crate) use lease::GrantedLease;
pub use lease::{CAPACITY_MIN, LASTS};
use lease::{LEAST, Lease, Shape, first_want};
pub(crate) use renewal::Renewal;
pub(crate) use spend::Spend;

use crate::fit::FittedLimit;
use crate::key_map::KeyMap;
use crate::monotonic::MonotonicClock;
use crate::sharded::{Sharded, lock};

/// How long unused units are kept, and how many may be kept for longer.
const IDLE: Span = Span::from_secs(2);
const IDLE_UNITS: u32 = 16;
/// How often leases are checked, and how long before its end a lease is renewed.
pub(crate) const CHECK_EVERY: Span = Span::from_millis(250);
const RENEW_BEFORE_END: Span = Span::from_millis(750);
/// Decisions that a lease must have made to be renewed at its end; and if the table of leases is
/// nearly full.
const DECISIONS_MIN: u32 = 2;
const DECISIONS_MIN_WHEN_FULL: u32 = 8;
/// The most keys with leases in one instance.
pub const KEYS_MAX: usize = SHARDS * SHARD_MAX;
const SHARDS: usize = 64;
/// As many as a hash map of 4096 buckets takes.
const SHARD_MAX: usize = 3_584;
/// The most limits whose shapes are shared by their leases; others have one each.
const SHAPES_MAX: usize = 1_024;

/// The leases of this instance.
#[derive(Debug)]
pub(crate) struct Leases {
    shards: Sharded<Shard, SHARDS>,
    heat: Heat,
    shapes: Mutex<HashMap<Limit, Arc<Shape>>>,
    clock: MonotonicClock,
    /// Whether leasing has stopped.
    is_closed: AtomicBool,
}

#[derive(Debug, Default)]
struct Shard {
    leases: KeyMap<Lease>,
    /// Decisions made on leased units.
    decided: u64,
}

// === impl Leases ===

impl Leases {
    pub(crate) fn new(clock: MonotonicClock) -> Arc<Leases> {
        Arc::new(Leases {
            shards: Sharded::default(),
            heat: Heat::new(),
            shapes: Mutex::default(),
            clock,
            is_closed: AtomicBool::new(false),
        })
    }

    /// Spends the charge's units, if the lease has enough.
    #[inline]
    pub(crate) fn spend(self: &Arc<Leases>, charge: &Charge<'_>) -> Spend {
        let Some(units) = leasable(charge) else {
            return self.decide_without_taking(charge);
        };
        let local_now = self.clock.now();
        let mut shard = self.shards.of(charge.key);
        let Some(lease) = shard.leases.get_mut(&charge.key) else {
            drop(shard);
            return self.first(charge, units, local_now);
        };
        if let Some(decision) = lease.take(charge, units, local_now) {
            shard.decided += 1;
            return Spend::Granted(decision);
        }
        self.more(lease, charge, units, local_now)
    }

    /// The same for a caller that has waited: if nothing was leased, it does not try to lease
    /// again.
    pub(crate) fn spend_after_wait(self: &Arc<Leases>, charge: &Charge<'_>) -> Spend {
        match self.is_leased(charge.key) {
            true => self.spend(charge),
            false => Spend::Cold,
        }
    }

    /// Begins a lease of a key without one, if the key is warm.
    #[cold]
    fn first(self: &Arc<Leases>, charge: &Charge<'_>, units: u32, local_now: Moment) -> Spend {
        let limit = charge.limit;
        let suits = Mode::Leased.suits(limit) && limit.capacity() >= CAPACITY_MIN;
        if !suits || self.is_closed.load(Ordering::Relaxed) {
            return Spend::Cold;
        }
        let Some(rate) = self.heat.record(charge.key, local_now) else {
            return Spend::Cold;
        };
        let Some(shape) = self.shape(limit) else {
            return Spend::Cold;
        };
        let mut shard = self.shards.of(charge.key);
        if shard.leases.len() >= SHARD_MAX || shard.leases.contains_key(&charge.key) {
            return Spend::Cold;
        }
        let lease = Lease::new(shape, local_now, LEAST.saturating_mul(units));
        let want = first_want(rate, units);
        let renewal = Renewal::new(self, charge.key, &lease, want, local_now);
        shard.leases.insert(charge.key, lease);
        Spend::Renew(renewal)
    }

    /// Renews a lease that has not enough units.
    #[cold]
    fn more(
        self: &Arc<Leases>,
        lease: &mut Lease,
        charge: &Charge<'_>,
        units: u32,
        local_now: Moment,
    ) -> Spend {
        if lease.is_lost {
            return Spend::Cold;
        }
        if let Some(renewed) = &lease.renewed {
            return Spend::Wait(Arc::clone(renewed).notified_owned());
        }
        if lease.shape.limit != *charge.limit {
            let Some(shape) = self.shape(charge.limit) else {
                return Spend::Cold;
            };
            lease.shape = shape;
        }
        lease.least = LEAST.saturating_mul(units);
        // After a reload, the limit may be of a kind that is not leased.
        let want = match Mode::Leased.suits(charge.limit) {
            true => lease.want(local_now).max(lease.least.into()),
            false => 0,
        };
        Spend::Renew(self.begin_renewal(charge.key, lease, want, local_now))
    }

    /// A charge that takes nothing, or more than any lease has. A refund returns only units that
    /// Redis has counted as consumed, and leased units are not yet: the same call reports what was
    /// spent here, and returns the lease. So does a peek at the end of a lease. Any other peek at a
    /// bucket reports them as well, so that it sees what they have refilled, and leases again; all
    /// others are judged together with the units held here. Redis alone decides any other charge.
    #[cold]
    fn decide_without_taking(self: &Arc<Leases>, charge: &Charge<'_>) -> Spend {
        if matches!(charge.cost, Cost::Take(1..)) {
            return Spend::Cold;
        }
        let local_now = self.clock.now();
        let mut shard = self.shards.of(charge.key);
        let Some(lease) = shard.leases.get_mut(&charge.key) else {
            return Spend::Cold;
        };
        if let Some(renewed) = &lease.renewed {
            return Spend::Wait(Arc::clone(renewed).notified_owned());
        }
        match charge.cost {
            Cost::Refund(1..) if lease.is_lost => Spend::Cold,
            Cost::Refund(1..) => self.return_first(lease, charge, local_now),
            // A new lease would start a window that starts with its first request.
            _ if lease.ended_unspent(local_now) => self.return_first(lease, charge, local_now),
            _ if lease.refills_unreported() => self.more(lease, charge, 1, local_now),
            _ => match lease.free(local_now) {
                0 => Spend::Cold,
                units => Spend::Peek(units),
            },
        }
    }

    /// Reports what was spent, and returns the lease, before the charge is decided.
    fn return_first(
        self: &Arc<Leases>,
        lease: &mut Lease,
        charge: &Charge<'_>,
        local_now: Moment,
    ) -> Spend {
        if lease.shape.limit != *charge.limit {
            let Some(shape) = self.shape(charge.limit) else {
                return Spend::Cold;
            };
            lease.shape = shape;
        }
        Spend::Renew(self.begin_renewal(charge.key, lease, 0, local_now))
    }

    /// Whether this instance has a lease of a key.
    pub(crate) fn is_leased(&self, key: Key) -> bool {
        self.shards.of(key).leases.contains_key(&key)
    }

    /// The units of a key that this instance holds and has not spent.
    pub(crate) fn free(&self, key: Key) -> u32 {
        let shard = self.shards.of(key);
        let lease = shard.leases.get(&key);
        lease.map_or(0, |lease| lease.free(self.clock.now()))
    }

    /// The keys whose leases are to be renewed or returned now.
    pub(crate) fn due(&self) -> Vec<Key> {
        let local_now = self.clock.now();
        let mut keys = Vec::new();
        for shard in self.shards.each() {
            let is_due = |lease: &Lease| self.want_if_due(&shard, lease, local_now).is_some();
            let due = shard.leases.iter().filter(|(_, lease)| is_due(lease));
            keys.extend(due.map(|(key, _)| *key));
        }
        keys
    }

    /// Begins to renew or return a key's lease, if it is still due.
    pub(crate) fn begin_if_due(self: &Arc<Leases>, key: Key) -> Option<Renewal> {
        let local_now = self.clock.now();
        let mut shard = self.shards.of(key);
        let want = self.want_if_due(&shard, shard.leases.get(&key)?, local_now)?;
        let lease = shard.leases.get_mut(&key)?;
        Some(self.begin_renewal(key, lease, want, local_now))
    }

    /// Stops leasing: from now on, all leases are due to be returned.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Drops a key's lease without spending more of it, because the key was deleted in Redis.
    pub(crate) fn forget(&self, key: Key) {
        if let Some(lease) = self.shards.of(key).leases.remove(&key) {
            lease.renewed.inspect(|renewed| renewed.notify_waiters());
        }
    }

    /// The number of leases held.
    pub(crate) fn count(&self) -> usize {
        self.shards.each().map(|shard| shard.leases.len()).sum()
    }

    /// The number of decisions made on leased units.
    pub(crate) fn decisions(&self) -> u64 {
        self.shards.each().map(|shard| shard.decided).sum()
    }

    /// How much to lease in a renewal that is due now, without a request; zero returns the lease.
    fn want_if_due(&self, shard: &Shard, lease: &Lease, local_now: Moment) -> Option<u64> {
        if lease.renewed.is_some() {
            return None;
        }
        if lease.is_lost || self.is_closed.load(Ordering::Relaxed) {
            return Some(0);
        }
        let idle = local_now.since(lease.used_at) >= IDLE && lease.left > IDLE_UNITS;
        let ends = lease.until <= local_now + RENEW_BEFORE_END && !lease.ends_with_window;
        let over = lease.until <= local_now;
        let worth = if shard.leases.len() > SHARD_MAX / 8 * 7 {
            DECISIONS_MIN_WHEN_FULL
        } else {
            DECISIONS_MIN
        };
        match lease.spent >= worth && !over {
            true if ends => Some(lease.want(local_now)),
            _ => (idle || ends || over).then_some(0),
        }
    }

    /// Begins a renewal: until it is complete nothing of the lease is spent.
    fn begin_renewal(
        self: &Arc<Leases>,
        key: Key,
        lease: &mut Lease,
        want: u64,
        local_now: Moment,
    ) -> Renewal {
        let renewal = Renewal::new(self, key, lease, want, local_now);
        lease.left = 0;
        lease.renewed = Some(Arc::default());
        renewal
    }

    /// The limit's shape; `None` if Redis cannot keep it, which is reported elsewhere.
    fn shape(&self, limit: &Limit) -> Option<Arc<Shape>> {
        let mut shapes = lock(&self.shapes);
        if let Some(shape) = shapes.get(limit) {
            return Some(Arc::clone(shape));
        }
        let shape = Arc::new(Shape {
            limit: *limit,
            fitted: FittedLimit::new(limit).ok()?,
        });
        if shapes.len() >= SHAPES_MAX {
            // Rules that were reloaded often: start over with the shapes that are in use.
            shapes.clear();
        }
        shapes.insert(*limit, Arc::clone(&shape));
        Some(shape)
    }
}

/// The units of a charge that can be taken from a lease.
#[inline]
fn leasable(charge: &Charge<'_>) -> Option<u32> {
    match charge.cost {
        Cost::Take(units @ 1..) => u32::try_from(units).ok(),
        _ => None,
    }
}
