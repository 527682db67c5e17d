//! Units taken ahead, and spent here without asking.
//!
//! A key that is asked often at this instance leases units: Redis counts them as consumed, and this
//! instance spends them at the speed of memory. When they run out or are about to end, what was
//! spent is charged, the rest goes back, and units are leased again, in one step; a request that
//! needs more than there is goes along in that step and is decided as any other. When a key falls
//! idle, and when the store is closed, its units go back as well. If a lease ends unreported,
//! because its instance died or could not reach Redis, all of it is charged as of its end.
//!
//! # Never more than the limit
//!
//! Take the latest moment at which Redis granted any of the units that were spent until now. What
//! it counted then, leases included, was no more than the limit. Each unit spent until now was
//! granted by then: either it was still out, and counted in full; or it had been charged, no
//! earlier than it was spent. So it is enough that a unit charged later weighs no less than if it
//! had been charged when it was spent, at any moment after that:
//!
//! * A token bucket owes it for longer.
//! * A window aligned to the clock counts it until its end, and the lease ends with the window.
//! * So does a window that its first request began: the asking request begins it, and it stays
//!   begun as long as units of it are out.
//! * A sliding log keeps it for longer.
//! * A sliding window counts it in a later segment, which weighs as much or more, and its estimate
//!   does not fall by rounding: what is leaving is multiplied by a part of at most one.
//!
//! A leaky bucket orders its requests, and its delays are one sequence over all instances, so it is
//! always asked ([`Mode::suits`]). So is whatever is charged for a denial, and a request that
//! meets several limits.
//!
//! # How much
//!
//! A cold key leases nothing and asks Redis for each decision. A warm one (two asks within a second
//! and a half, or one every two seconds for a while) leases as much as its rate needs until the
//! lease ends, but if that is more than 64 units, no more than it needs in a second; each time at
//! most eight times what it had. And a lease is at most a quarter of what is free after the request
//! that asked, so that other instances always find three times as much. If that is less than four
//! times what the request costs, nothing is leased, as it would not pay for its return. For limits
//! below [`CAPACITY_MIN`] every decision asks. Near the end of a larger limit, and of a bucket that
//! is asked for more than its rate that is always, each unit that comes back is asked for once, and
//! requests beyond that are denied here (see `estimates.rs`).
//!
//! Smaller leases would gain little and cost much. A limit of 16 units allows 16 requests a window,
//! so that many calls are all that leases could spare; what is denied is answered here for up to a
//! second without a call. But of its 16 units three instances that ask once could hold 3 + 2 + 2
//! and use none of them for the time of a lease, while a fourth is denied what nobody spends:
//! nearly half of so small a budget, where of a large one instances lease what they need in a
//! second.
//!
//! A request that meets several limits is asked of Redis even if each of its keys is leased here:
//! they are taken all or none, and whichever lease ends first would take the others along to Redis,
//! since a renewal decides for one key. What this instance holds of those keys counts there as
//! consumed, like the units of all instances.
//!
//! If there is no reply to a renewal, Redis may hold the former lease or what it has granted again.
//! Each grant has a name of its own, so giving back both by name is right in either case, however
//! often it is asked for. The keeper does so until there is a reply or both have ended; meanwhile
//! every decision on the key is Redis's, and nothing is leased.
//!
//! Leases end after [`LASTS`], by Redis's clock, and with their window. This instance stops a
//! hundredth and a millisecond earlier, counted by its own clock from before it asked. Shortly
//! before that a lease that was used is renewed without waiting for a request, and one that was not
//! goes back; whatever lies unused for [`IDLE`] goes back then, but for a few units of a key that
//! is asked slowly. One instance holds leases of at most [`KEYS_MAX`] keys, about 130 bytes each;
//! the others ask.
//!
//! A refund finds what this instance has spent, as that is reported in the same call, and the lease
//! goes back. What other instances have spent and not reported is not there to be given back.
//!
//! While units are out, a denial's wait may be longer than it turns out to be.

mod estimates;

mod heat;

mod lease;

mod renewal;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::futures::OwnedNotified;
use tollgate_core::{Charge, Cost, Decision, Key, Limit, Mode, Moment, Span};

pub(crate) use estimates::{Ask, Estimates};
use heat::Heat;
pub(crate) use lease::GrantedLease;
pub use lease::{CAPACITY_MIN, LASTS};
use lease::{LEAST, Lease, Shape, first_want};
pub(crate) use renewal::Renewal;

use crate::fit::FittedLimit;
use crate::key_map::KeyMap;
use crate::monotonic::MonotonicClock;
use crate::sharded::{Sharded, lock};

/// How long many units may lie unused before they go back, and how many are not many.
const IDLE: Span = Span::from_secs(2);
const IDLE_UNITS: u32 = 16;
/// How often leases are looked after, and how long before its end a lease is renewed at the
/// latest.
pub(crate) const LOOK_EVERY: Span = Span::from_millis(250);
const ENDING: Span = Span::from_millis(750);
/// Decisions that a lease must have made to be renewed at its end; and if the room for leases is
/// nearly spent.
const WORTH: u32 = 2;
const WORTH_WHEN_FULL: u32 = 8;
/// The most keys that hold leases at one instance.
pub const KEYS_MAX: usize = SHARDS * SHARD_MAX;
const SHARDS: usize = 64;
/// As many as a map of 4096 places takes.
const SHARD_MAX: usize = 3_584;
/// The most limits whose shapes are shared by their leases; others have one each.
const SHAPES_MAX: usize = 1_024;

/// What this instance has leased.
#[derive(Debug)]
pub(crate) struct Leases {
    shards: Sharded<Shard, SHARDS>,
    heat: Heat,
    estimates: Estimates,
    shapes: Mutex<HashMap<Limit, Arc<Shape>>>,
    clock: MonotonicClock,
    /// Nothing is leased any more.
    is_closed: AtomicBool,
}

#[derive(Debug, Default)]
struct Shard {
    leases: KeyMap<Lease>,
    /// Decisions that were made on leases.
    decided: u64,
}

/// What is to be done with a charge.
pub(crate) enum Spend {
    /// It is allowed.
    Granted(Decision),
    /// Another request is asking for more: try again when it is done.
    Wait(OwnedNotified),
    /// Ask for more, and tell what became of it.
    Ask(Renewal),
    /// Ask Redis for this decision alone.
    Cold,
}

// === impl Leases ===

impl Leases {
    pub(crate) fn new(clock: MonotonicClock, estimates: Estimates) -> Arc<Leases> {
        Arc::new(Leases {
            shards: Sharded::default(),
            heat: Heat::new(),
            estimates,
            shapes: Mutex::default(),
            clock,
            is_closed: AtomicBool::new(false),
        })
    }

    /// What is known of keys that have nothing left to lease.
    pub(crate) const fn estimates(&self) -> &Estimates {
        &self.estimates
    }

    /// Spends what the charge takes, if it is here.
    #[inline]
    pub(crate) fn spend(self: &Arc<Leases>, charge: &Charge<'_>) -> Spend {
        let Some(units) = leasable(charge) else {
            return self.report_before_refund(charge);
        };
        let here = self.clock.now();
        let mut shard = self.shards.of(charge.key);
        let Some(lease) = shard.leases.get_mut(&charge.key) else {
            drop(shard);
            return self.first(charge, units, here);
        };
        if let Some(decision) = lease.take(charge, units, here) {
            shard.decided += 1;
            return Spend::Granted(decision);
        }
        self.more(lease, charge, units, here)
    }

    /// The same for a caller that has waited: if nothing was leased, it does not ask again.
    pub(crate) fn spend_after_wait(self: &Arc<Leases>, charge: &Charge<'_>) -> Spend {
        let is_here = self.shards.of(charge.key).leases.contains_key(&charge.key);
        if is_here {
            self.spend(charge)
        } else {
            Spend::Cold
        }
    }

    /// A key without a lease: leases its first units if it is warm.
    #[cold]
    fn first(self: &Arc<Leases>, charge: &Charge<'_>, units: u32, here: Moment) -> Spend {
        let limit = charge.limit;
        let suits = Mode::Leased.suits(limit) && limit.capacity() >= CAPACITY_MIN;
        if !suits || self.is_closed.load(Ordering::Relaxed) {
            return Spend::Cold;
        }
        let Some(rate) = self.heat.ask(charge.key, here) else {
            return Spend::Cold;
        };
        let Some(shape) = self.shape(limit) else {
            return Spend::Cold;
        };
        let mut shard = self.shards.of(charge.key);
        if shard.leases.len() >= SHARD_MAX || shard.leases.contains_key(&charge.key) {
            return Spend::Cold;
        }
        let lease = Lease::new(shape, here, LEAST.saturating_mul(units));
        let want = first_want(rate, units);
        let renewal = Renewal::new(self, charge.key, &lease, want, here);
        shard.leases.insert(charge.key, lease);
        Spend::Ask(renewal)
    }

    /// A lease that does not suffice.
    #[cold]
    fn more(
        self: &Arc<Leases>,
        lease: &mut Lease,
        charge: &Charge<'_>,
        units: u32,
        here: Moment,
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
        // A reload may have made it a limit of which nothing is leased.
        let want = match Mode::Leased.suits(charge.limit) {
            true => lease.want(here).max(lease.least.into()),
            false => 0,
        };
        Spend::Ask(self.ask(charge.key, lease, want, here))
    }

    /// A refund gives back only what Redis has counted as consumed, and units on lease are not:
    /// what was spent of ours is reported in the same call, which returns the lease. Any other
    /// charge that cannot be leased is for Redis alone.
    #[cold]
    fn report_before_refund(self: &Arc<Leases>, charge: &Charge<'_>) -> Spend {
        if !matches!(charge.cost, Cost::Refund(1..)) {
            return Spend::Cold;
        }
        let here = self.clock.now();
        let mut shard = self.shards.of(charge.key);
        let Some(lease) = shard.leases.get_mut(&charge.key) else {
            return Spend::Cold;
        };
        if let Some(renewed) = &lease.renewed {
            return Spend::Wait(Arc::clone(renewed).notified_owned());
        }
        if lease.is_lost || lease.spent == 0 {
            return Spend::Cold;
        }
        if lease.shape.limit != *charge.limit {
            let Some(shape) = self.shape(charge.limit) else {
                return Spend::Cold;
            };
            lease.shape = shape;
        }
        Spend::Ask(self.ask(charge.key, lease, 0, here))
    }

    /// What is to be renewed or given back now.
    pub(crate) fn due(self: &Arc<Leases>) -> Vec<Renewal> {
        let here = self.clock.now();
        self.renewals(here, |lease, is_full| {
            if lease.is_lost {
                return Some(0);
            }
            let idle = here.since(lease.used_at) >= IDLE && lease.left > IDLE_UNITS;
            let ends = lease.until <= here + ENDING && !lease.ends_with_window;
            let over = lease.until <= here;
            let worth = if is_full { WORTH_WHEN_FULL } else { WORTH };
            match lease.spent >= worth && !over {
                true if ends => Some(lease.want(here)),
                _ => (idle || ends || over).then_some(0),
            }
        })
    }

    /// Leases nothing any more; all that is out and that nobody asks for, to be given back.
    pub(crate) fn close(self: &Arc<Leases>) -> Vec<Renewal> {
        self.is_closed.store(true, Ordering::Relaxed);
        self.renewals(self.clock.now(), |_, _| Some(0))
    }

    /// Redis was made to forget the key: nothing that was leased of it before is spent.
    pub(crate) fn forget(&self, key: Key) {
        if let Some(lease) = self.shards.of(key).leases.remove(&key) {
            lease.renewed.inspect(|renewed| renewed.notify_waiters());
        }
    }

    /// Leases that are held.
    pub(crate) fn count(&self) -> usize {
        self.shards.each().map(|shard| shard.leases.len()).sum()
    }

    /// Decisions that were made on leases.
    pub(crate) fn decisions(&self) -> u64 {
        self.shards.each().map(|shard| shard.decided).sum()
    }

    /// Renewals of those that `want` something, or nothing.
    fn renewals(
        self: &Arc<Leases>,
        here: Moment,
        want: impl Fn(&Lease, bool) -> Option<u64>,
    ) -> Vec<Renewal> {
        let mut renewals = Vec::new();
        for mut shard in self.shards.each() {
            let is_full = shard.leases.len() > SHARD_MAX / 8 * 7;
            for (key, lease) in &mut shard.leases {
                if lease.renewed.is_none()
                    && let Some(want) = want(lease, is_full)
                {
                    renewals.push(self.ask(*key, lease, want, here));
                }
            }
        }
        renewals
    }

    /// Begins to ask for more: meanwhile nothing of the lease is spent.
    fn ask(self: &Arc<Leases>, key: Key, lease: &mut Lease, want: u64, here: Moment) -> Renewal {
        let renewal = Renewal::new(self, key, lease, want, here);
        lease.left = 0;
        lease.renewed = Some(Arc::default());
        renewal
    }

    /// The limit's shape; nothing if Redis cannot keep it, which is an error elsewhere.
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
            // Rules that were changed often: begin again with those that are used.
            shapes.clear();
        }
        shapes.insert(*limit, Arc::clone(&shape));
        Some(shape)
    }
}

/// The units of a charge that can be spent here.
#[inline]
fn leasable(charge: &Charge<'_>) -> Option<u32> {
    match charge.cost {
        Cost::Take(units @ 1..) => u32::try_from(units).ok(),
        _ => None,
    }
}

// === impl Spend ===

impl Spend {
    /// Whether dropping it would give up units.
    pub(crate) const fn holds_some(&self) -> bool {
        matches!(self, Spend::Ask(renewal) if renewal.spent + renewal.left > 0)
    }
}
