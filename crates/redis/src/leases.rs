//! Units taken ahead, and spent here without asking.
//!
//! A key that is asked often at this node leases units: Redis counts them as consumed, and this
//! node spends them at the speed of memory. Before they run out or end, what was spent is charged,
//! the rest goes back, and units are leased anew, in one step. When a key falls idle, and when the
//! store is closed, they go back as well. If a lease ends unreported, because its node died or
//! could not reach Redis, all of it is charged as of its end. So nothing is ever over-admitted:
//! what is charged and what is out together never exceed what the limit admits, and a unit is
//! charged no earlier than it was spent.
//!
//! How much: a cold key leases nothing and asks Redis for each decision. A warm one ([`WARM`] asks
//! within [`WARMTH`]) begins with [`FIRST`] units and aims at one renewal in [`TARGET`]; but a
//! lease is at most a quarter of what is free, or what is asked at that moment, so that other nodes
//! always find three times as much. Near a limit's end leases shrink to single units.
//!
//! Leases end after [`LASTS`], by Redis's clock, and with their window. This node stops a hundredth
//! and a millisecond earlier, counted by its own clock from before it asked.
//!
//! Token buckets and windows aligned to the clock can be leased exactly. A leaky bucket orders its
//! requests, and logs and sliding windows date each unit: those are always asked ([`can_lease`]).
//! While units are out, a refusal's wait may be longer than it turns out to be.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::time::{Duration, Instant};
use tollgate_core::{Charge, Cost, Decision, Key, OnDenial, Span, Verdict, step};

use crate::fit::{Fitted, Kind};
use crate::seen::{Seen, moment};

/// How long a lease lasts.
pub const LASTS: Span = Span::from_secs(10);
/// How often a warm key's lease is renewed.
const TARGET: Duration = Duration::from_secs(1);
/// How long a lease may lie unused before it goes back.
pub(crate) const IDLE: Duration = Duration::from_secs(2);
/// How many asks within this time make a key warm.
const WARMTH: Duration = Duration::from_secs(4);
const WARM: u64 = 2;
/// What a warm key leases first, and the most that is ever asked for.
const FIRST: u64 = 4;
const WANT_MAX: u64 = 1 << 20;
/// The most keys that hold leases at one node, over all shards; the others ask Redis.
const SHARDS: usize = 16;
const SHARD_MAX: usize = 4 * 1024;
/// Places in which asks are counted, 2 MiB of them. A place knows one key; another one takes it.
const PLACES: usize = 1 << 18;

/// What this node has leased.
#[derive(Debug)]
pub(crate) struct Leases {
    shards: [Mutex<HashMap<Key, Lease>>; SHARDS],
    /// For each place 24 bits of its key, the half of [`WARMTH`] in which that was asked last (24
    /// bits), and how often (16 bits).
    heat: Box<[AtomicU64]>,
    began: Instant,
}

/// Units of one key.
#[derive(Debug)]
struct Lease {
    fitted: Fitted,
    name: u64,
    left: u64,
    spent: u64,
    granted: u64,
    began: Instant,
    until: Instant,
    used_at: Instant,
    /// The account as if the leases of others were charged, and ours as they are spent: only for
    /// what is told.
    mirror: Seen,
    /// Redis's time, in microseconds, and ours when it was told.
    now: u64,
    told_at: Instant,
    /// Somebody asks Redis for more; nobody else does.
    is_asking: bool,
    renewed: Arc<Notify>,
}

/// What is to be done with a charge.
pub(crate) enum Spend {
    /// It is admitted.
    Granted(Verdict),
    /// Somebody else is asking for more: try again then.
    Wait(OwnedNotified),
    /// Ask for more, and tell what became of it.
    Ask(Renewal),
    /// The key is cold: ask Redis for this decision alone.
    Cold,
}

/// What to ask Redis for; if nothing is told, the lease is given up and ends by itself.
#[derive(Debug)]
pub(crate) struct Renewal {
    leases: Arc<Leases>,
    pub(crate) key: Key,
    pub(crate) fitted: Fitted,
    pub(crate) name: u64,
    pub(crate) spent: u64,
    /// Units that were not spent.
    pub(crate) left: u64,
    pub(crate) want: u64,
    asked_at: Instant,
    is_done: bool,
}

/// Whether units of such a limit can be spent here.
pub(crate) const fn can_lease(fitted: &Fitted) -> bool {
    matches!(fitted.kind, Kind::Token | Kind::FixedClock) && fitted.limit.capacity() > 0
}

// === impl Leases ===

impl Leases {
    pub(crate) fn new() -> Arc<Leases> {
        Arc::new(Leases {
            shards: Default::default(),
            heat: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
            began: Instant::now(),
        })
    }

    /// Spends what the charge takes, if it is here.
    pub(crate) fn spend(
        self: &Arc<Leases>,
        charge: &Charge<'_>,
        fitted: &Fitted,
        now: Instant,
    ) -> Spend {
        let Cost::Take(units @ 1..) = charge.cost else {
            return Spend::Cold;
        };
        if !can_lease(fitted) || charge.on_own_denial() == OnDenial::Charge {
            return Spend::Cold;
        }
        let mut shard = self.shard(charge.key);
        let Some(lease) = shard.get_mut(&charge.key) else {
            if !self.is_warm(charge.key, now) || shard.len() >= SHARD_MAX {
                return Spend::Cold;
            }
            let lease = Lease::new(fitted, now);
            let renewal = self.renewal(charge.key, &lease, FIRST.max(units), now);
            shard.insert(charge.key, lease);
            return Spend::Ask(renewal);
        };
        if lease.is_asking {
            return Spend::Wait(Arc::clone(&lease.renewed).notified_owned());
        }
        if lease.fitted != *fitted {
            // The limit has changed: what is out ends by itself.
            shard.remove(&charge.key);
            return Spend::Cold;
        }
        if let Some(decision) = lease.take(charge, units, now) {
            drop(shard);
            return Spend::Granted(Verdict::of_one(charge, decision));
        }
        lease.is_asking = true;
        let want = lease.want(now).max(units);
        Spend::Ask(self.renewal(charge.key, lease, want, now))
    }

    /// Leases that nobody has used for a while, or all of them, to be given back.
    pub(crate) fn idle(self: &Arc<Leases>, for_at_least: Duration) -> Vec<Renewal> {
        let now = Instant::now();
        let mut idle = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for (key, lease) in shard.iter_mut() {
                let rests = now.saturating_duration_since(lease.used_at) >= for_at_least;
                if rests && !lease.is_asking {
                    lease.is_asking = true;
                    idle.push(self.renewal(*key, lease, 0, now));
                }
            }
        }
        idle
    }

    /// Counts the ask; says whether there were some lately.
    fn is_warm(&self, key: Key, now: Instant) -> bool {
        let bits = |shift: u32, mask: u128| u64::try_from(key.bits() >> shift & mask).unwrap_or(0);
        let print = bits(40, 0xFF_FFFF);
        let index = usize::try_from(bits(8, 0x3_FFFF)).unwrap_or(0);
        let passed = now.saturating_duration_since(self.began).as_millis();
        let half = u64::try_from(passed * 2 / WARMTH.as_millis()).unwrap_or(0) & 0xFF_FFFF;
        let place = &self.heat[index];
        // Relaxed: an ask that is counted twice or not at all warms a key a little sooner or later.
        let seen = place.load(Ordering::Relaxed);
        let (last, count) = (seen >> 16 & 0xFF_FFFF, seen & 0xFFFF);
        let count = match half.wrapping_sub(last) {
            0 | 1 if seen >> 40 == print => (count + 1).min(0xFFFF),
            _ => 1,
        };
        place.store(print << 40 | half << 16 | count, Ordering::Relaxed);
        count >= WARM
    }

    fn renewal(self: &Arc<Leases>, key: Key, lease: &Lease, want: u64, now: Instant) -> Renewal {
        Renewal {
            leases: Arc::clone(self),
            key,
            fitted: lease.fitted,
            name: lease.name,
            spent: lease.spent,
            left: lease.left,
            want: want.min(WANT_MAX),
            asked_at: now,
            is_done: false,
        }
    }

    fn shard(&self, key: Key) -> MutexGuard<'_, HashMap<Key, Lease>> {
        let index = usize::try_from(key.bits() & 0xF).unwrap_or(0);
        self.shards[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Lease ===

impl Lease {
    /// Nothing yet, and somebody asks.
    fn new(fitted: &Fitted, now: Instant) -> Lease {
        Lease {
            fitted: *fitted,
            // A name above 127: a lease, not a reservation.
            name: crate::apart::unique_name() | 1 << 63,
            left: 0,
            spent: 0,
            granted: 0,
            began: now,
            until: now,
            used_at: now,
            mirror: Seen::fresh(fitted),
            now: 0,
            told_at: now,
            is_asking: true,
            renewed: Arc::new(Notify::new()),
        }
    }

    fn take(&mut self, charge: &Charge<'_>, units: u64, now: Instant) -> Option<Decision> {
        if self.left < units || now >= self.until {
            return None;
        }
        let passed = Span::from(now.saturating_duration_since(self.told_at));
        let moment = moment(self.now + passed.as_nanos() / 1_000);
        let limit = &self.fitted.limit;
        let decision = step(&mut self.mirror, limit, moment, charge.cost, OnDenial::Keep);
        if !decision.is_allowed() {
            // What was told is out of step with what is held: ask.
            return None;
        }
        self.left -= units;
        self.spent += units;
        self.used_at = now;
        Some(decision)
    }

    /// How much would last for [`TARGET`].
    fn want(&self, now: Instant) -> u64 {
        let passed = now
            .saturating_duration_since(self.began)
            .max(Duration::from_micros(1));
        if passed < TARGET {
            return self.granted.saturating_mul(2).max(FIRST);
        }
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.spent.saturating_mul(micros(TARGET)) / micros(passed) + 1
    }
}

// === impl Renewal ===

impl Renewal {
    /// Redis leases `granted` units for so many microseconds; `seen` is what it told, at `now`.
    pub(crate) fn granted(mut self, granted: u64, lasts: u64, seen: Seen, now: u64) {
        self.is_done = true;
        let margin = lasts / 100 + 1_000;
        let here = Instant::now();
        let mut shard = self.leases.shard(self.key);
        if let Some(lease) = shard.get_mut(&self.key)
            && lease.name == self.name
        {
            lease.granted = granted;
            lease.spent = 0;
            lease.left = granted;
            lease.began = self.asked_at;
            lease.until = self.asked_at + Duration::from_micros(lasts.saturating_sub(margin));
            lease.used_at = here;
            lease.mirror = seen;
            lease.now = now;
            lease.told_at = here;
            lease.is_asking = false;
            lease.renewed.notify_waiters();
        }
    }
}

impl Drop for Renewal {
    /// Whatever was not told to be leased is not spent: it was given back, or it ends by itself.
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let mut shard = self.leases.shard(self.key);
        if shard
            .get(&self.key)
            .is_some_and(|lease| lease.name == self.name)
            && let Some(lease) = shard.remove(&self.key)
        {
            lease.renewed.notify_waiters();
        }
    }
}
