//! Units that are charged before it is known how many will be used.

use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;

use tollgate_core::{Clock, Cost, Decision, Denial, Grant, Key, Reserved, Settlement, StoreError};
use tollgate_memory::SystemClock;

use super::{Limiter, Priority, denial_without_answer};

/// Units that are charged as an estimate, until [`Reservation::settle`] says how many were used.
///
/// Dropping it refunds all of them, so a task that fails or is cancelled costs nothing.
/// [`std::mem::forget`] leaves the estimate charged.
///
/// A refund is limited to units that still count. Others are available again already:
///
/// * fixed window: none once the window is over; the next window gains nothing,
/// * sliding window and sliding log: the units leave the segment or the entry that they were
///   charged to; none once it has left the window,
/// * token and leaky bucket: those that have not refilled yet. Units refill in the order in which
///   they were consumed; of one that has refilled in part, the rest is refunded, and
///   [`Settlement::charged`](tollgate_core::Settlement::charged) leaves it out.
///
/// So nothing that others consumed is refunded, with one exception: a bucket does not know that
/// units in front of a reservation were refunded, so that its own refill earlier. If reservations
/// of one key overlap, and the bucket was full between a refund of one and that of a later one, the
/// later refund may return units of others: a burst of up to twice the capacity, but over a longer
/// time no more than one burst and what has refilled.
///
/// What a leaky bucket is refunded is its last turn, which may be that of a request that is held:
/// see [`Limiter::refund`].
///
/// If the limit was replaced meanwhile, the refund goes to the new one; if its window or its
/// algorithm changed, nothing is refunded. A key that was evicted or reset meanwhile is refunded at
/// most what it consumed since.
#[must_use = "a reservation that is dropped refunds its units"]
pub struct Reservation<'l, C: Clock = SystemClock> {
    limiter: Owner<'l, C>,
    priority: Priority,
    key: Key,
    reserved: Reserved,
    grant: Grant,
    is_settled: bool,
}

/// How a reservation refers to its limiter.
pub(crate) enum Owner<'l, C> {
    Borrowed(&'l Limiter<C>),
    Shared(Arc<Limiter<C>>),
    /// The limiter with this index.
    OneOf(Arc<[Limiter<C>]>, usize),
}

// === impl Limiter ===

impl<C: Clock> Limiter<C> {
    /// Consumes an estimate of `units` of `key`, all or none, to be settled when the actual number
    /// is known. An estimate of 0 consumes nothing, but needs one unit to be left, like a peek.
    ///
    /// # Errors
    ///
    /// The [`Denial`], as [`Limiter::check_n`] would deny it; nothing was charged.
    ///
    /// # Example
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    ///
    /// let tokens = Limiter::new(Limit::per_hour(10_000));
    /// let reservation = tokens.reserve("alice", 4_000)?;
    /// assert_eq!(reservation.remaining(), 6_000);
    /// // The answer took only 1 200 tokens.
    /// let settlement = reservation.settle(1_200);
    /// assert_eq!((settlement.charged, settlement.remaining), (1_200, 8_800));
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    pub fn reserve<K: Hash + ?Sized>(
        &self,
        key: &K,
        units: u64,
    ) -> Result<Reservation<'_, C>, Denial> {
        let key = (Priority::Without, self.keys.of(key));
        Reservation::make(Owner::Borrowed(self), key, units)
    }

    /// As [`Limiter::reserve`], for a reservation that is stored or moved to another task: it
    /// shares the limiter.
    ///
    /// # Errors
    ///
    /// As [`Limiter::reserve`].
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{Limit, Limiter, Reservation};
    ///
    /// struct Job {
    ///     reservation: Reservation<'static>,
    /// }
    ///
    /// let limiter = Arc::new(Limiter::new(Limit::per_hour(10)));
    /// let job = Job { reservation: limiter.reserve_owned("alice", 4)? };
    /// std::thread::spawn(move || job.reservation.settle(3)).join().expect("it does not panic");
    /// assert_eq!(limiter.peek("alice", 1).remaining(), 7);
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    pub fn reserve_owned<K: Hash + ?Sized>(
        self: &Arc<Self>,
        key: &K,
        units: u64,
    ) -> Result<Reservation<'static, C>, Denial> {
        let key = (Priority::Without, self.keys.of(key));
        Reservation::make(Owner::Shared(Arc::clone(self)), key, units)
    }

    /// As [`Limiter::reserve`], for a request with priority: it may use the share that
    /// [`Limit::priority_share`](tollgate_core::Limit::priority_share) keeps, also when it is
    /// settled.
    ///
    /// # Errors
    ///
    /// As [`Limiter::reserve`].
    pub fn reserve_with_priority<K: Hash + ?Sized>(
        &self,
        key: &K,
        units: u64,
    ) -> Result<Reservation<'_, C>, Denial> {
        let key = (Priority::With, self.keys.of(key));
        Reservation::make(Owner::Borrowed(self), key, units)
    }

    fn try_reserve(
        &self,
        key: (Priority, Key),
        units: u64,
    ) -> Result<Result<(Grant, Reserved), Denial>, StoreError> {
        self.terms.decide(key, Cost::Take(units), |charge| {
            let (decision, now) = self.store.check_timed(charge)?;
            Ok(decision
                .into_result()
                .map(|grant| (grant, Reserved::new(charge, &grant, now))))
        })
    }

    /// Charges `actual` units in place of the reserved ones. If the store fails, the reserved ones
    /// stay charged.
    fn settle(&self, key: (Priority, Key), reserved: &Reserved, actual: u64) -> Settlement {
        let settled = self.terms.decide(key, Cost::Take(actual), |charge| {
            self.store.settle_reserved(charge, reserved, actual)
        });
        if actual < reserved.units() {
            self.queues.refund(key.1);
        }
        settled.unwrap_or_else(|_| {
            self.count_failure();
            Settlement::new(reserved.units(), 0)
        })
    }
}

// === impl Reservation ===

impl<'l, C: Clock> Reservation<'l, C> {
    /// Reserves units; a denial also if the store fails.
    fn make(
        limiter: Owner<'l, C>,
        key: (Priority, Key),
        units: u64,
    ) -> Result<Reservation<'l, C>, Denial> {
        let (grant, reserved) = limiter.try_reserve(key, units).unwrap_or_else(|_| {
            limiter.count_failure();
            Err(denial_without_answer())
        })?;
        Ok(Reservation::new(limiter, key, grant, reserved))
    }

    pub(crate) const fn new(
        limiter: Owner<'l, C>,
        (priority, key): (Priority, Key),
        grant: Grant,
        reserved: Reserved,
    ) -> Reservation<'l, C> {
        Reservation {
            limiter,
            priority,
            key,
            reserved,
            grant,
            is_settled: false,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.limiter.name
    }

    /// Charges the `actual` units in place of the estimate.
    ///
    /// If they are fewer, the difference is refunded, as far as its units still count: the
    /// [type's documentation](Reservation) says which do. Wakes the first waiter for the key. If
    /// they are more, the difference is charged even if the limit would deny it, until the limit is
    /// exhausted: the units have been used already.
    ///
    /// If the store fails ([`Limiter::check`] says when), the estimate stays charged, and
    /// [`Limiter::failures`] increases.
    ///
    /// # Example
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    ///
    /// let tokens = Limiter::new(Limit::per_hour(1_000));
    /// let settlement = tokens.reserve("alice", 600)?.settle(5_000);
    /// assert_eq!((settlement.charged, settlement.remaining), (1_000, 0));
    /// # Ok::<(), tollgate::Denial>(())
    /// ```
    #[expect(clippy::must_use_candidate, reason = "most callers need no answer")]
    pub fn settle(mut self, actual: u64) -> Settlement {
        self.is_settled = true;
        let key = (self.priority, self.key);
        self.limiter.settle(key, &self.reserved, actual)
    }

    /// Leaves the estimate charged.
    pub(crate) fn keep(mut self) {
        self.is_settled = true;
    }

    /// The units that are charged until the reservation is settled.
    pub const fn estimate(&self) -> u64 {
        self.reserved.units()
    }

    /// The largest cost that was allowed after this reservation was made.
    pub const fn remaining(&self) -> u32 {
        self.grant.remaining
    }

    /// The decision that allowed the estimate; its [`Decision::delay`] is how long a leaky bucket
    /// holds the request.
    pub const fn decision(&self) -> Decision {
        Decision::Allow(self.grant)
    }
}

impl<C: Clock> Drop for Reservation<'_, C> {
    fn drop(&mut self) {
        if !self.is_settled {
            let key = (self.priority, self.key);
            let _refunded = self.limiter.settle(key, &self.reserved, 0);
        }
    }
}

impl<C: Clock> fmt::Debug for Reservation<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("limiter", &*self.limiter)
            .field("estimate", &self.estimate())
            .finish_non_exhaustive()
    }
}

// === impl Owner ===

impl<C> Deref for Owner<'_, C> {
    type Target = Limiter<C>;

    fn deref(&self) -> &Limiter<C> {
        match self {
            Owner::Borrowed(limiter) => limiter,
            Owner::Shared(limiter) => limiter,
            Owner::OneOf(limiters, index) => &limiters[*index],
        }
    }
}
