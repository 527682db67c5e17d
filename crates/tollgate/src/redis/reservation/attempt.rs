//! An attempt to reserve units, which outlives a caller that goes away.

use std::sync::Arc;

use tollgate_core::{
    Charge, Cost, DecidedBy, Decision, Denial, Key, RESOLUTIONS_MAX, Resolution, Sharing,
    StoreError,
};
use tollgate_redis::complete;

use super::{Place, Reservation};
use crate::limiter::Priority;
use crate::redis::limiter::{State, first_of};
use crate::redis::store::{Redis, Reserved};

/// What is to be reserved, of which limit.
#[derive(Clone)]
pub(super) struct Attempt {
    pub(super) redis: Redis,
    pub(super) state: Arc<State>,
    pub(super) sharing: Sharing,
    pub(super) priority: Priority,
    pub(super) key: Key,
    pub(super) units: u64,
}

// === impl Attempt ===

impl Attempt {
    /// Reserves, and leaves that to a task of its own once it waits: if the caller goes away, Redis
    /// may have charged the units already. The task learns the outcome, and as nobody takes the
    /// reservation, it is dropped, which refunds it.
    pub(super) async fn complete(self) -> Result<Result<Reservation, Denial>, StoreError> {
        let (timed_out, redis) = (self.redis.timeout_error(), self.redis.clone());
        // To be waited for by `close`, if the caller goes away: a refund may follow.
        let running = redis.background().begin();
        let reserving = async move {
            let reserved = self.reserve().await;
            drop(running);
            reserved
        };
        match complete(reserving).await {
            Ok(reserved) => reserved,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // Its runtime has ended.
            Err(_) => Err(timed_out),
        }
    }

    /// Reserves, and says where the units are charged.
    async fn reserve(self) -> Result<Result<Reservation, Denial>, StoreError> {
        let reserved = self.reserve_under_latest().await?;
        let grant = match first_of(&reserved.verdict) {
            Decision::Allow(grant) => grant,
            Decision::Deny(denial) => return Ok(Err(denial)),
        };
        let place = match (reserved.verdict.decided_by, reserved.record) {
            (_, Some(record)) => Place::Redis(record),
            (DecidedBy::Store, None) => Place::Unrecorded,
            (DecidedBy::Fallback, None) => reserved.share.map_or(Place::Nowhere, Place::Share),
        };
        Ok(Ok(Reservation::new(self, grant, place)))
    }

    /// What was decided under the limit in effect. One that is replaced meanwhile supersedes the
    /// decision: then the next attempt is made under the latest.
    async fn reserve_under_latest(&self) -> Result<Reserved, StoreError> {
        let load = || self.state.terms.load();
        let (mut terms, mut resolution) = (load(), Resolution::First);
        for _ in 0..RESOLUTIONS_MAX {
            let charge = terms.charge_as(self.priority, self.key, Cost::Take(self.units));
            let charge = Charge {
                resolution,
                ..charge.shared(self.sharing)
            };
            let answer = self.redis.reserve(&charge).await;
            let Err(StoreError::Superseded) = answer else {
                return answer;
            };
            // If the limit has not changed, a state only looks later, because revisions wrap.
            let latest = load();
            resolution = Resolution::after(terms.are(&latest));
            terms = latest;
        }
        Err(StoreError::Superseded)
    }
}
