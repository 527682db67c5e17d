//! Units that are charged before it is known how many will be used.

mod attempt;

mod error;

use std::fmt;
use std::sync::Arc;

use tollgate_core::{Cost, Decision, Denial, Grant, Key, SettledCharge, Settlement, StoreError};

use super::charged_share::ChargedShare;
use super::key::SharedKey;
use super::limiter::Limiter;
use crate::limiter::{Priority, denial_without_answer};
use attempt::Attempt;

pub use error::SettleError;

/// Units that are charged as an estimate, until [`Reservation::settle`] says how many were used;
/// made by [`Limiter::reserve`].
///
/// It is settled once, and completely or not at all: one script call decides and stores a record
/// of what was charged; another one removes the record and settles. Units that still count are
/// refunded, as [`crate::Reservation`] says. If the limit was replaced meanwhile, the refund goes
/// to the new one.
///
/// # Dropping it
///
/// Dropping it refunds all of its units, so a task that fails or is cancelled costs nothing. A task
/// in the background does that; at most [`REFUNDS_MAX`](super::REFUNDS_MAX) of them wait for Redis.
/// If as many wait already, if Redis does not answer, or if the Tokio runtime ends, the units stay
/// charged until they age out of the limit; [`Limiter::failures`] counts the first two. Before the
/// program ends, [`Redis::close`](super::Redis::close) waits for these tasks. [`std::mem::forget`]
/// leaves the estimate charged.
///
/// # When Redis does not answer
///
/// A reservation is settled where it was charged. If Redis did not answer, and
/// [`OnStoreError::Local`](super::OnStoreError::Local) decided, that is the share of this process,
/// also when Redis is back; if the share has changed meanwhile, nothing is refunded. With
/// [`OnStoreError::Allow`](super::OnStoreError::Allow), nothing was charged, and
/// [`Settlement::charged`] is 0.
///
/// If Redis answered too late, it may have charged the estimate as well: those units age out of the
/// limit. Nothing is ever refunded that Redis has not charged, and nothing twice.
///
/// There is nothing to settle, and the estimate stays charged, after
/// [`RESERVATION_LASTS`](super::RESERVATION_LASTS), if Redis has lost its data, or if the slot of a
/// Cluster has just migrated, so that a record could not be stored.
#[must_use = "a reservation that is dropped refunds its units"]
pub struct Reservation {
    charged: Charged,
    /// What it is settled to if it is dropped.
    actual: u64,
    progress: Progress,
}

/// How far its settlement has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Open,
    /// Redis may have settled it.
    Begun,
    Settled,
}

/// What was charged, and what settles it.
#[derive(Clone)]
struct Charged {
    attempt: Attempt,
    grant: Grant,
    place: Place,
}

/// Where the units are charged.
#[derive(Clone, Copy)]
enum Place {
    /// In Redis, which has stored this record of them.
    Redis(Key),
    /// In Redis, which could not store a record.
    Unrecorded,
    /// In the share of this process.
    Share(ChargedShare),
    /// Nowhere: the request was allowed without a charge.
    Nowhere,
}

// === impl Limiter ===

impl Limiter {
    /// Consumes an estimate of `units` of `key`, all or none, to be settled when the actual number
    /// is known. An estimate of 0 consumes nothing, but needs one unit to be left, like a peek.
    ///
    /// As [`crate::Limiter::reserve`]; the [`Reservation`] says what is different over Redis. Redis
    /// decides, also in [`Mode::Leased`](super::Mode::Leased): units that are leased and not spent
    /// count as consumed. [`Mode::WriteBack`](super::Mode::WriteBack) has no reservations, because
    /// Redis does not know all of its units: they are denied, and [`Limiter::try_reserve`] has the
    /// reason.
    ///
    /// If the future is dropped, the units are refunded, as those of a dropped reservation are.
    ///
    /// # Errors
    ///
    /// The [`Denial`], as [`Limiter::check_n`] would deny it; nothing was charged.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use tollgate::Limit;
    /// use tollgate::redis::Redis;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let redis = Redis::open("redis://localhost:6379")?;
    /// let tokens = redis.limiter("tokens", Limit::per_hour(10_000))?;
    /// let reservation = tokens.reserve("alice", 4_000).await?;
    /// assert_eq!(reservation.remaining(), 6_000);
    /// // The answer took only 1 200 tokens.
    /// let settlement = reservation.settle(1_200).await;
    /// assert_eq!((settlement.charged, settlement.remaining), (1_200, 8_800));
    /// redis.close().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reserve<K: SharedKey + ?Sized>(
        &self,
        key: &K,
        units: u64,
    ) -> Result<Reservation, Denial> {
        self.reserve_or_deny(Priority::Without, self.key_of(key), units)
            .await
    }

    /// As [`Limiter::reserve`], for a request with priority: it may use the share that
    /// [`Limit::priority_share`](tollgate_core::Limit::priority_share) keeps, also when it is
    /// settled.
    ///
    /// # Errors
    ///
    /// As [`Limiter::reserve`].
    pub async fn reserve_with_priority<K: SharedKey + ?Sized>(
        &self,
        key: &K,
        units: u64,
    ) -> Result<Reservation, Denial> {
        self.reserve_or_deny(Priority::With, self.key_of(key), units)
            .await
    }

    /// As [`Limiter::reserve`], but returns an error if there is no decision.
    ///
    /// # Errors
    ///
    /// As [`Limiter::try_check`], and [`StoreError::Unfit`] in
    /// [`Mode::WriteBack`](super::Mode::WriteBack). A denial is the inner error.
    pub async fn try_reserve<K: SharedKey + ?Sized>(
        &self,
        key: &K,
        units: u64,
    ) -> Result<Result<Reservation, Denial>, StoreError> {
        let attempt = self.attempt(Priority::Without, self.key_of(key), units);
        attempt.complete().await
    }

    async fn reserve_or_deny(
        &self,
        priority: Priority,
        key: Key,
        units: u64,
    ) -> Result<Reservation, Denial> {
        let reserved = self.attempt(priority, key, units).complete().await;
        reserved.unwrap_or_else(|_| {
            self.count_failure();
            Err(denial_without_answer())
        })
    }

    fn attempt(&self, priority: Priority, key: Key, units: u64) -> Attempt {
        let (state, sharing) = self.parts();
        Attempt {
            redis: self.redis().clone(),
            state: Arc::clone(state),
            sharing,
            priority,
            key,
            units,
        }
    }
}

// === impl Reservation ===

impl Reservation {
    const fn new(attempt: Attempt, grant: Grant, place: Place) -> Reservation {
        Reservation {
            charged: Charged {
                attempt,
                grant,
                place,
            },
            actual: 0,
            progress: Progress::Open,
        }
    }

    /// Charges the `actual` units in place of the estimate.
    ///
    /// If they are fewer, the difference is refunded, as far as its units still count. If they are
    /// more, the difference is charged even if the limit would deny it, until the limit is
    /// exhausted: the units have been used already.
    ///
    /// If the future is dropped, also before it is polled, a task in the background settles, as
    /// for a dropped reservation: to `actual`.
    ///
    /// If it cannot be settled, the estimate stays charged, unless the answer was only late, and
    /// [`Limiter::failures`] increases. [`Reservation::try_settle`] returns the error instead.
    pub fn settle(self, actual: u64) -> impl Future<Output = Settlement> + Send + 'static {
        let (units, state) = (self.estimate(), Arc::clone(&self.charged.attempt.state));
        let settling = self.try_settle(actual);
        async move {
            settling.await.unwrap_or_else(|_| {
                state.count_failure();
                Settlement::new(units, 0)
            })
        }
    }

    /// As [`Reservation::settle`], but returns an error if it cannot be settled.
    ///
    /// # Errors
    ///
    /// [`SettleError`]; the estimate stays charged. After [`StoreError::TimedOut`] it may have been
    /// settled.
    pub fn try_settle(
        mut self,
        actual: u64,
    ) -> impl Future<Output = Result<Settlement, SettleError>> + Send + 'static {
        self.actual = actual;
        async move {
            let mut reservation = self;
            // If this is dropped meanwhile, so is the reservation, which settles again: the record
            // is there for one of both.
            reservation.progress = Progress::Begun;
            let settled = reservation.charged.settle(actual).await;
            reservation.progress = Progress::Settled;
            settled
        }
    }

    /// The units that are charged until the reservation is settled.
    pub const fn estimate(&self) -> u64 {
        self.charged.attempt.units
    }

    /// The largest cost that was allowed after this reservation was made.
    pub const fn remaining(&self) -> u32 {
        self.charged.grant.remaining
    }

    /// The decision that allowed the estimate; its [`Decision::delay`] is how long a leaky bucket
    /// holds the request.
    pub const fn decision(&self) -> Decision {
        Decision::Allow(self.charged.grant)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.progress == Progress::Settled {
            return;
        }
        let Charged { attempt, place, .. } = &self.charged;
        let Place::Redis(_) = place else {
            // Nothing waits.
            if self.charged.settle_here(self.actual).is_err() {
                attempt.state.count_failure();
            }
            return;
        };
        let (charged, actual, progress) = (self.charged.clone(), self.actual, self.progress);
        let has_room = attempt.redis.background().run(async move {
            match charged.settle(actual).await {
                Ok(_) => {}
                // What was begun has settled it.
                Err(SettleError::Expired) if progress == Progress::Begun => {}
                Err(_) => charged.attempt.state.count_failure(),
            }
        });
        if !has_room {
            attempt.state.count_failure();
        }
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("estimate", &self.estimate())
            .finish_non_exhaustive()
    }
}

// === impl Charged ===

impl Charged {
    /// Charges `actual` units in place of the estimate, where that was charged.
    async fn settle(&self, actual: u64) -> Result<Settlement, SettleError> {
        match self.place {
            Place::Redis(record) => self.settle_record(record, actual).await,
            _ => self.settle_here(actual),
        }
    }

    async fn settle_record(&self, record: Key, actual: u64) -> Result<Settlement, SettleError> {
        let Attempt { redis, state, .. } = &self.attempt;
        let terms = state.terms.load();
        let charge = terms.charge_as(self.attempt.priority, self.attempt.key, Cost::Take(actual));
        let line = SettledCharge {
            line: 0,
            charge: charge.shared(self.attempt.sharing),
        };
        let settled = redis.settle(record, &[line]).await;
        let settled = settled.map_err(SettleError::Store)?;
        let settlement = settled.and_then(|lines| lines.first().copied());
        settlement.ok_or(SettleError::Expired)
    }

    /// The same for what has no record in Redis.
    fn settle_here(&self, actual: u64) -> Result<Settlement, SettleError> {
        match &self.place {
            Place::Share(share) => self.settle_share(share, actual).map_err(SettleError::Store),
            Place::Redis(_) | Place::Unrecorded => Err(SettleError::Expired),
            Place::Nowhere => Ok(Settlement::new(0, self.grant.remaining)),
        }
    }

    fn settle_share(&self, share: &ChargedShare, actual: u64) -> Result<Settlement, StoreError> {
        let Attempt { redis, state, .. } = &self.attempt;
        let (key, cost) = (
            (self.attempt.priority, self.attempt.key),
            Cost::Take(actual),
        );
        state.terms.decide(key, cost, |charge| {
            let charge = charge.shared(self.attempt.sharing);
            redis.settle_share(&charge, share, actual)
        })
    }
}
