//! One key's lease, and the decisions while it is spent.

use std::sync::Arc;

use tokio::sync::Notify;
use tollgate_core::{
    Account, Bucket, Charge, Cost, Decision, FixedWindow, Limit, Moment, OnDenial, Span, step,
};

use crate::fit::FittedLimit;
use crate::snapshot::{Snapshot, moment};

/// How long a lease lasts.
pub const LASTS: Span = Span::from_secs(10);
/// What a warm key leases first at least, in requests, and what is not worth a lease.
const FIRST: u64 = 8;
pub(super) const LEAST: u32 = 4;
/// How much more than the last time is asked for at most, and the most at all.
const GROWTH: u64 = 8;
pub(super) const WANT_MAX: u64 = 1 << 24;
/// Limits below this have too little to lease a quarter of, even when nothing but the request that
/// asks has been charged.
pub const CAPACITY_MIN: u32 = 4 * LEAST + 1;
/// A lease aims at one renewal in this time, or at this many units if they last longer.
const TARGET: Span = Span::SECOND;
const FEW: u64 = 64;

/// A limit, as it was asked and as Redis keeps it: one for all its leases.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) limit: Limit,
    pub(crate) fitted: FittedLimit,
}

/// Units of one key.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) shape: Arc<Shape>,
    pub(crate) name: u64,
    /// Units that can be spent: none while Redis is asked for more.
    pub(crate) left: u32,
    pub(crate) spent: u32,
    granted: u32,
    /// Fewer than these are not worth a lease.
    pub(crate) least: u32,
    /// When it was asked for, when it must not be spent any more, and when it was used last.
    began: Moment,
    pub(crate) until: Moment,
    pub(crate) used_at: Moment,
    /// It ends with its window, after which nobody minds what was spent of it.
    pub(crate) ends_with_window: bool,
    mirror: Mirror,
    /// Nanoseconds from our time to Redis's, modulo 2^64.
    ahead: u64,
    /// The last renewal has no reply: what is held in Redis is unknown. Nothing is leased until it
    /// was given back, or `until`.
    pub(crate) is_lost: bool,
    /// Wakes those who wait while Redis is asked for more; nothing otherwise.
    pub(crate) renewed: Option<Arc<Notify>>,
}

/// The account as if the leases of others were charged, and ours as they are spent: only for
/// what decisions say of the key.
#[derive(Debug)]
enum Mirror {
    /// When it is full again: it was charged just now, at the price of its limit.
    Bucket(Moment),
    Window(FixedWindow),
    Other(Box<Snapshot>),
}

/// What Redis has leased.
#[derive(Debug)]
pub(crate) struct GrantedLease {
    pub(crate) units: u64,
    /// How long, in microseconds.
    pub(crate) lasts: u64,
    /// The account, and Redis's time in microseconds.
    pub(crate) snapshot: Snapshot,
    pub(crate) now: u64,
}

// === impl Lease ===

impl Lease {
    /// Nothing yet, while Redis is asked.
    pub(crate) fn new(shape: Arc<Shape>, here: Moment, least: u32) -> Lease {
        Lease {
            shape,
            // A name from 128 to 191: a lease, not a reservation, and not the mark of an account.
            name: crate::names::unique_name() >> 2 | 1 << 63,
            left: 0,
            spent: 0,
            granted: 0,
            least,
            began: here,
            until: Moment::ZERO,
            used_at: here,
            ends_with_window: false,
            mirror: Mirror::Bucket(Moment::ZERO),
            ahead: 0,
            is_lost: false,
            renewed: Some(Arc::new(Notify::new())),
        }
    }

    /// Spends units, if there are enough of this limit.
    #[inline]
    pub(crate) fn take(
        &mut self,
        charge: &Charge<'_>,
        units: u32,
        here: Moment,
    ) -> Option<Decision> {
        if self.left < units || here >= self.until || self.shape.limit != *charge.limit {
            return None;
        }
        let now = here.as_nanos().wrapping_add(self.ahead);
        let now = Moment::from_nanos(now - now % 1_000);
        let decision = self.mirror.step(&self.shape.fitted.limit, now, charge.cost);
        if !decision.is_allowed() {
            // Our mirror disagrees with the units that we hold, so ask Redis.
            return None;
        }
        self.left -= units;
        self.spent += units;
        self.used_at = here;
        Some(decision)
    }

    /// The name of what is leased next. Each grant has a name of its own, so that giving back by
    /// name after a lost reply never gives back what was granted by another call.
    pub(crate) const fn next_name(&self) -> u64 {
        self.name.wrapping_add(1) & !(1 << 62) | 1 << 63
    }

    /// Units that were granted and not spent.
    pub(crate) const fn unspent(&self) -> u32 {
        self.granted.saturating_sub(self.spent)
    }

    /// Nothing is held in Redis, if the last renewal was not sent.
    pub(crate) const fn was_never_granted(&self) -> bool {
        self.granted == 0 && !self.is_lost
    }

    /// Whatever is held in Redis has ended.
    pub(crate) fn has_ended(&self, here: Moment) -> bool {
        self.is_lost && here >= self.until
    }

    /// There was no reply to the last renewal.
    pub(crate) fn lose(&mut self, here: Moment) {
        if !self.is_lost {
            self.is_lost = true;
            self.until = here + LASTS;
        }
        self.left = 0;
    }

    /// Begins again, with what Redis has leased.
    pub(crate) fn grant(&mut self, granted: GrantedLease, asked_at: Moment, here: Moment) {
        let units = u32::try_from(granted.units).unwrap_or(u32::MAX);
        let margin = granted.lasts / 100 + 1_000;
        let micros = |micros: u64| Span::from_nanos(micros.saturating_mul(1_000));
        (self.granted, self.left, self.spent) = (units, units, 0);
        self.name = self.next_name();
        self.began = asked_at;
        self.until = asked_at + micros(granted.lasts.saturating_sub(margin));
        self.used_at = here;
        self.ends_with_window = micros(granted.lasts) < LASTS;
        self.ahead = moment(granted.now).as_nanos().wrapping_sub(here.as_nanos());
        self.mirror = Mirror::new(granted.snapshot);
        self.renewed = None;
    }

    /// How much to ask for, given how fast the last units went.
    pub(crate) fn want(&self, here: Moment) -> u64 {
        let passed = here.since(self.began).as_nanos() / 1_000 + 1;
        let grows_to = u64::from(self.granted.max(self.least)).saturating_mul(GROWTH);
        let lasting = |span: Span| {
            let micros = u128::from(span.as_nanos() / 1_000);
            let units = u128::from(self.spent) * micros / u128::from(passed) + 1;
            u64::try_from(units).unwrap_or(u64::MAX)
        };
        want_at_rate(lasting(LASTS), lasting(TARGET)).min(grows_to)
    }
}

/// How much a key leases first that is asked so often in 16 seconds, each time for so many units.
pub(crate) fn first_want(in_16_seconds: u64, units: u32) -> u64 {
    let each = u64::from(units);
    let lasting = in_16_seconds * (LASTS.as_nanos() / TARGET.as_nanos()) / 16;
    let want = want_at_rate(lasting, in_16_seconds / 16).max(FIRST);
    want.saturating_mul(each).min(WANT_MAX)
}

/// Units for as long as a lease lasts, but no more than for [`TARGET`] if those are many.
fn want_at_rate(for_all_its_time: u64, for_target: u64) -> u64 {
    let most = for_target.max(FEW);
    for_all_its_time.clamp(u64::from(LEAST), most)
}

// === impl Mirror ===

impl Mirror {
    fn new(snapshot: Snapshot) -> Mirror {
        match snapshot {
            Snapshot::Account(Account::Bucket(bucket)) => {
                Mirror::Bucket(Moment::from_nanos(bucket.word()))
            }
            Snapshot::Account(Account::FixedWindow(window)) => Mirror::Window(window),
            other => Mirror::Other(Box::new(other)),
        }
    }

    #[inline]
    fn step(&mut self, limit: &Limit, now: Moment, cost: Cost) -> Decision {
        match self {
            Mirror::Bucket(full_at) => {
                let mut bucket = Bucket::full_at(*full_at);
                let decision = step(&mut bucket, limit, now, cost, OnDenial::Keep);
                *full_at = Moment::from_nanos(bucket.word());
                decision
            }
            Mirror::Window(window) => step(window, limit, now, cost, OnDenial::Keep),
            Mirror::Other(snapshot) => step(&mut **snapshot, limit, now, cost, OnDenial::Keep),
        }
    }
}

const _: () = assert!(
    size_of::<(tollgate_core::Key, Lease)>() <= 136,
    "as the module says"
);
