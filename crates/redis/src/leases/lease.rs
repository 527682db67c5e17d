//! One key's lease, and the decisions on its units.

use std::sync::Arc;

use tokio::sync::Notify;
use tollgate_core::{
    Account, Bucket, Charge, Cost, Decision, FixedWindow, Limit, Moment, OnDenial, Span, step,
};

use crate::fit::{FittedLimit, GRAIN};
use crate::script_reply::coarsen_decision;
use crate::snapshot::{Snapshot, moment};

/// The lifetime of a lease.
pub const LASTS: Span = Span::from_secs(10);
/// The least that a warm key leases first, in requests, and the least that is worth a lease.
const FIRST: u64 = 8;
pub(super) const LEAST: u32 = 4;
/// How much larger than the last lease one may be, and the largest lease.
const GROWTH: u64 = 8;
pub(super) const WANT_MAX: u64 = 1 << 24;
/// Limits below this have too little to lease a quarter of, even when only the current request has
/// been charged.
pub const CAPACITY_MIN: u32 = 4 * LEAST + 1;
/// A lease aims at one renewal in this time, or at this many units if they last longer.
const TARGET: Span = Span::SECOND;
const FEW: u64 = 64;

/// A limit as configured and as Redis keeps it, shared by all its leases.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) limit: Limit,
    pub(crate) fitted: FittedLimit,
}

/// The lease of one key.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) shape: Arc<Shape>,
    pub(crate) name: u64,
    /// Units that can be spent: none during a renewal.
    pub(crate) left: u32,
    pub(crate) spent: u32,
    granted: u32,
    /// The smallest lease that is worth it.
    pub(crate) least: u32,
    /// When it was requested, when spending must stop, and when it was last used.
    began: Moment,
    pub(crate) until: Moment,
    pub(crate) used_at: Moment,
    /// Whether it expires with its window, after which its spent units no longer matter.
    pub(crate) ends_with_window: bool,
    mirror: Mirror,
    /// Nanoseconds from the local time to Redis's, modulo 2^64.
    ahead: u64,
    /// Whether the last renewal had no reply, so that the units held in Redis are unknown. Nothing
    /// is leased until they are returned, or `until`.
    pub(crate) is_lost: bool,
    /// During a renewal, wakes the requests that wait for it.
    pub(crate) renewed: Option<Arc<Notify>>,
}

/// The state as if the leases of other instances were charged, and our units as they are spent:
/// only for the remaining units and reset times in decisions.
#[derive(Debug)]
enum Mirror {
    /// It was charged just now, at the price of its limit.
    Bucket {
        /// The time at which it is full again.
        full_at: Moment,
        /// The same by the local clock, if nobody had taken anything but the units that were spent
        /// of this lease.
        spent_full_at: Moment,
    },
    Window(FixedWindow),
    Other(Box<Snapshot>),
}

/// A lease granted by Redis.
#[derive(Debug)]
pub(crate) struct GrantedLease {
    pub(crate) units: u64,
    /// Its lifetime in microseconds.
    pub(crate) lasts: u64,
    /// The state, and Redis's time in microseconds.
    pub(crate) snapshot: Snapshot,
    pub(crate) now: u64,
}

// === impl Lease ===

impl Lease {
    /// A lease without units, during its first renewal.
    pub(crate) fn new(shape: Arc<Shape>, local_now: Moment, least: u32) -> Lease {
        Lease {
            shape,
            // The first byte is 128 to 191, which marks a lease: not a reservation, not a marker.
            name: crate::names::unique_name() >> 2 | 1 << 63,
            left: 0,
            spent: 0,
            granted: 0,
            least,
            began: local_now,
            until: Moment::ZERO,
            used_at: local_now,
            ends_with_window: false,
            mirror: Mirror::bucket(Moment::ZERO),
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
        local_now: Moment,
    ) -> Option<Decision> {
        if self.left < units || local_now >= self.until || self.shape.limit != *charge.limit {
            return None;
        }
        let now = local_now.as_nanos().wrapping_add(self.ahead);
        let now = Moment::from_nanos(now - now % 1_000);
        let decision = self.mirror.step(&self.shape.fitted.limit, now, charge.cost);
        if !decision.is_allowed() {
            // Our mirror disagrees with the units that we hold, so ask Redis.
            return None;
        }
        self.left -= units;
        self.spent += units;
        self.used_at = local_now;
        if let Mirror::Bucket { spent_full_at, .. } = &mut self.mirror {
            let interval = GRAIN.times(self.shape.fitted.span);
            *spent_full_at = (*spent_full_at).max(local_now) + interval.times(units.into());
        }
        Some(decision)
    }

    /// For how many microseconds from now a bucket that was full owes units that were spent of this
    /// lease, if nobody had taken any others. How long ago they were spent is measured by this
    /// instance's clock, for the seconds of a lease.
    ///
    /// Redis charges the later of this and of its debt with these units on top. That is no less
    /// than if every unit had been charged in its order: the debt is the largest of the sums, over
    /// every charge, of its time and of all units from it on; and if that charge is one of this
    /// lease and one of another instance follows, the sum over that one, with all units of the
    /// lease, is no smaller. If there are no others it is the same.
    pub(crate) fn owed(&self, local_now: Moment) -> u64 {
        match self.mirror {
            Mirror::Bucket { spent_full_at, .. } => {
                let owed = spent_full_at.since(local_now);
                owed.as_nanos().div_ceil(GRAIN.as_nanos())
            }
            Mirror::Window(_) | Mirror::Other(_) => 0,
        }
    }

    /// Units that were granted and not spent.
    pub(crate) const fn unspent(&self) -> u32 {
        self.granted.saturating_sub(self.spent)
    }

    /// Whether units that were spent may have refilled since, which Redis does not know.
    pub(crate) const fn refills_unreported(&self) -> bool {
        self.spent > 0 && matches!(self.mirror, Mirror::Bucket { .. })
    }

    /// Whether units of it can no longer be spent, and still count as consumed in Redis.
    pub(crate) fn ended_unspent(&self, local_now: Moment) -> bool {
        self.left > 0 && local_now >= self.until
    }

    /// Units that can be spent now.
    pub(crate) fn free(&self, local_now: Moment) -> u32 {
        if local_now < self.until { self.left } else { 0 }
    }

    /// Whether Redis holds nothing, provided that the last renewal was not sent.
    pub(crate) const fn was_never_granted(&self) -> bool {
        self.granted == 0 && !self.is_lost
    }

    /// Whether everything held in Redis has expired.
    pub(crate) fn has_ended(&self, local_now: Moment) -> bool {
        self.is_lost && local_now >= self.until
    }

    /// Notes that the last renewal had no reply.
    pub(crate) fn lose(&mut self, local_now: Moment) {
        if !self.is_lost {
            self.is_lost = true;
            self.until = local_now + LASTS;
        }
        self.left = 0;
    }

    /// Starts over with a new grant.
    pub(crate) fn grant(&mut self, granted: GrantedLease, asked_at: Moment, local_now: Moment) {
        let units = u32::try_from(granted.units).unwrap_or(u32::MAX);
        let margin = granted.lasts / 100 + 1_000;
        let micros = |micros: u64| Span::from_nanos(micros.saturating_mul(1_000));
        (self.granted, self.left, self.spent) = (units, units, 0);
        self.name = next_name(self.name);
        self.began = asked_at;
        self.until = asked_at + micros(granted.lasts.saturating_sub(margin));
        self.used_at = local_now;
        let is_cut = micros(granted.lasts) < LASTS;
        self.ahead = moment(granted.now)
            .as_nanos()
            .wrapping_sub(local_now.as_nanos());
        self.mirror = Mirror::new(granted.snapshot);
        self.ends_with_window = is_cut && matches!(self.mirror, Mirror::Window(_));
        self.renewed = None;
    }

    /// How much to lease, by how fast the last units were spent.
    pub(crate) fn want(&self, local_now: Moment) -> u64 {
        let passed = local_now.since(self.began).as_nanos() / 1_000 + 1;
        let grows_to = u64::from(self.granted.max(self.least)).saturating_mul(GROWTH);
        let lasting = |span: Span| {
            let micros = u128::from(span.as_nanos() / 1_000);
            let units = u128::from(self.spent) * micros / u128::from(passed) + 1;
            u64::try_from(units).unwrap_or(u64::MAX)
        };
        want_at_rate(lasting(LASTS), lasting(TARGET)).min(grows_to)
    }
}

/// The name of the grant that follows the one with this name. Each grant has a unique name, so that
/// a return by name after a lost reply never returns the grant of another call.
pub(super) const fn next_name(name: u64) -> u64 {
    name.wrapping_add(1) & !(1 << 62) | 1 << 63
}

/// The first lease of a key with this many requests in 16 seconds, of this many units each.
pub(crate) fn first_want(in_16_seconds: u64, units: u32) -> u64 {
    let each = u64::from(units);
    let lasting = in_16_seconds * (LASTS.as_nanos() / TARGET.as_nanos()) / 16;
    let want = want_at_rate(lasting, in_16_seconds / 16).max(FIRST);
    want.saturating_mul(each).min(WANT_MAX)
}

/// Units for the lifetime of a lease, but no more than for [`TARGET`] if those are many.
fn want_at_rate(for_all_its_time: u64, for_target: u64) -> u64 {
    let most = for_target.max(FEW);
    for_all_its_time.clamp(u64::from(LEAST), most)
}

// === impl Mirror ===

impl Mirror {
    fn new(snapshot: Snapshot) -> Mirror {
        match snapshot {
            Snapshot::Account(Account::Bucket(bucket)) => {
                Mirror::bucket(Moment::from_nanos(bucket.word()))
            }
            Snapshot::Account(Account::FixedWindow(window)) => Mirror::Window(window),
            other => Mirror::Other(Box::new(other)),
        }
    }

    /// A bucket of which nothing was spent yet.
    const fn bucket(full_at: Moment) -> Mirror {
        Mirror::Bucket {
            full_at,
            spent_full_at: Moment::ZERO,
        }
    }

    #[inline]
    fn step(&mut self, limit: &Limit, now: Moment, cost: Cost) -> Decision {
        match self {
            Mirror::Bucket { full_at, .. } => {
                let mut bucket = Bucket::full_at(*full_at);
                let decision = step(&mut bucket, limit, now, cost, OnDenial::Keep);
                *full_at = Moment::from_nanos(bucket.word());
                decision
            }
            Mirror::Window(window) => step(window, limit, now, cost, OnDenial::Keep),
            Mirror::Other(snapshot) => {
                let mut decision = step(&mut **snapshot, limit, now, cost, OnDenial::Keep);
                coarsen_decision(&mut decision);
                decision
            }
        }
    }
}

const _: () = assert!(
    size_of::<(tollgate_core::Key, Lease)>() <= 136,
    "as the module says"
);
