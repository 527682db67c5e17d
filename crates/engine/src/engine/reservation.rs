//! Reservations: a request is charged an estimate, and settled when its cost is known.
//!
//! Where the reservation is kept follows from where its request was decided. What memory decided is
//! in a table of this process, because so are its counters: another instance has no such units.
//! What a shared store decided, that store keeps (`reservation/kept.rs`). What this process settles
//! itself is a value of its own (`reservation/owned.rs`).

mod kept;

mod owned;

pub use owned::OwnedReservation;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use tollgate_core::{
    Charge, PerCharge, Request, Resolution, RuleName, Settlement, Span, StoreError,
};
use tollgate_rules::{Attempt, MaybeSuperseded, ReservedPart, Resolved};

use super::{ActiveRules, Decided, Engine};
use crate::reservation_id::{NoRandomness, ReservationId};
use crate::reservation_table::OpenReservation;
use crate::stores::{DomainStore, EngineMemory};

/// The most limits that a request with a reservation may meet.
pub const RESERVED_LIMITS_MAX: usize = 16;

/// A reservation that was made, for the client that is going to settle it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationReceipt {
    /// Settles it.
    pub id: ReservationId,
    /// How long it can be settled. After that, the estimate stays charged.
    pub expires_in: Span,
}

/// What one limit charged when a reservation was settled.
#[derive(Clone, Debug, PartialEq)]
pub struct SettledLimit {
    /// Which rule.
    pub rule: Arc<RuleName>,
    /// The units that were reserved.
    pub reserved: u64,
    /// What they were settled to. `None` if the rule was removed or limits nothing any more: then
    /// there is nothing to charge or to refund.
    pub settlement: Option<Settlement>,
}

/// Why a request was not decided because it wants a reservation. Nothing was charged.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReserveError {
    /// The shared store of the request's domain keeps no reservation of it.
    Unfit {
        /// Why not, and what to do instead.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// As many reservations are open as there may be.
    Full {
        /// How many.
        max: usize,
    },
    /// A limit of the request is to be refunded units: the cost of a reservation is an estimate.
    Refund,
    /// The request has more than [`RESERVED_LIMITS_MAX`] limits.
    TooManyLimits {
        /// How many.
        limits: usize,
    },
    /// The system has no random number for an id.
    NoRandomness,
    /// The store has no answer.
    Store(StoreError),
}

/// Why a reservation was not settled.
#[derive(Debug)]
#[non_exhaustive]
pub enum SettleError {
    /// There is no such reservation: it was settled, it has expired, or it never existed here.
    Unknown,
    /// The store has no answer. What was not settled can be settled later.
    Store(StoreError),
}

/// What a request with a reservation is charged.
fn charges_to_reserve<'r>(
    resolved: &'r Resolved<'_>,
    resolution: Resolution,
) -> Result<PerCharge<Charge<'r>>, ReserveError> {
    let charges = resolved.charges_under(resolution);
    if charges.iter().any(|charge| charge.cost.is_refund()) {
        return Err(ReserveError::Refund);
    }
    match charges.len() {
        0..=RESERVED_LIMITS_MAX => Ok(charges),
        limits => Err(ReserveError::TooManyLimits { limits }),
    }
}

// === impl Engine ===

impl Engine {
    /// Decides on a request as [`Engine::decide`] does; its cost is an estimate. If it is allowed,
    /// returns a reservation, which [`Engine::settle`] settles once, unless it met no limit: then
    /// there is nothing to settle. A reservation that is not settled stays charged. The cost of no
    /// descriptor may be a refund.
    ///
    /// # Errors
    ///
    /// [`ReserveError`]; nothing was charged. A denial is an answer.
    pub async fn reserve(
        &self,
        request: &Request<'_>,
    ) -> Result<(Decided, Option<ReservationReceipt>), ReserveError> {
        let named = self.stores.of(request.domain_name());
        let id = ReservationId::random().map_err(|NoRandomness| ReserveError::NoRandomness)?;
        match &named.store {
            DomainStore::Memory(memory) => self.reserve_in(memory.memory(), request, id),
            DomainStore::Shared(fallback) => self.reserve_shared(fallback, request, id).await,
        }
    }

    /// Decides in memory. The reservation is kept in the table of this process.
    fn reserve_in(
        &self,
        memory: &EngineMemory,
        request: &Request<'_>,
        id: ReservationId,
    ) -> Result<(Decided, Option<ReservationReceipt>), ReserveError> {
        let bounds = self.reservations.bounds();
        let place = self.reservations.claim(self.stores.now()).ok();
        let full = place.is_none().then_some(bounds.max);
        let mut attempt = Attempt::first(self.rules.load());
        let (decided, (meets_limits, mut parts)) = loop {
            let (active, resolution) = (attempt.rules(), attempt.resolution());
            let keep =
                |_: &Resolved<'_>, charges: &[Charge<'_>], parts| (!charges.is_empty(), parts);
            let outcome = self.reserve_under(active, memory, (request, full), resolution, keep);
            match attempt.next(&outcome, || self.rules.load()) {
                None => break outcome?,
                Some(next) => attempt = next,
            }
        };
        // They are kept for long.
        parts.shrink_to_fit();
        let place = place.filter(|_| decided.answer.is_allowed() && meets_limits);
        let Some(place) = place else {
            return Ok((decided, None));
        };
        let expires = self.stores.now() + bounds.lifetime;
        place.fill(id, OpenReservation { expires, parts });
        let expires_in = bounds.lifetime;
        Ok((decided, Some(ReservationReceipt { id, expires_in })))
    }

    /// Charges every limit of a reservation `actual` units in place of its estimate: refunds what
    /// was reserved too much, as far as it still counts, or charges what is missing until the limit
    /// is exhausted. Each limit is settled at most once, however often this is called.
    ///
    /// # Errors
    ///
    /// [`SettleError::Unknown`] also if another call is settling it now. After
    /// [`SettleError::Store`] a retry settles the limits that are left.
    pub async fn settle(
        &self,
        id: ReservationId,
        actual: u64,
    ) -> Result<Vec<SettledLimit>, SettleError> {
        let Some(taken) = self.reservations.take(id, self.stores.now()) else {
            return self.settle_shared(id, actual).await;
        };
        let settled = taken.settle(|part| {
            // Each descriptor that met this counter costs as much.
            self.settle_part(part, actual.saturating_mul(part.times))
        });
        settled.map_err(SettleError::Store)
    }

    /// How many reservations are neither settled nor expired, and how many there may be.
    pub fn reservation_counts(&self) -> (usize, usize) {
        let open = self.reservations.open(self.stores.now());
        (open, self.reservations.bounds().max)
    }

    /// Decides in memory under these rules, even if they are replaced meanwhile. `keep` makes what
    /// is kept of what was charged, and of the charges. If there is no place for a reservation, but
    /// so many are open (`full`), only a request that meets no limit is decided.
    fn reserve_under<K>(
        &self,
        active: &ActiveRules,
        memory: &EngineMemory,
        (request, full): (&Request<'_>, Option<usize>),
        resolution: Resolution,
        keep: impl FnOnce(&Resolved<'_>, &[Charge<'_>], VecDeque<ReservedPart>) -> K,
    ) -> Result<(Decided, K), ReserveError> {
        let resolved = active
            .rules
            .resolve_with_headroom(request, memory, &self.headroom());
        let charges = charges_to_reserve(&resolved, resolution)?;
        if let Some(max) = full.filter(|_| !charges.is_empty()) {
            return Err(ReserveError::Full { max });
        }
        let (verdict, now) = memory.decide_timed(&charges)?;
        let parts = resolved.reserved_parts(&charges, &verdict, now);
        let kept = keep(&resolved, &charges, parts);
        let decided = self.conclude(active, request, &resolved, &verdict);
        Ok((decided, kept))
    }

    /// Settles what one counter was charged, under the rules in effect.
    fn settle_part(&self, part: &ReservedPart, actual: u64) -> Result<SettledLimit, StoreError> {
        let mut attempt = Attempt::first(self.rules.load());
        loop {
            let (active, resolution) = (attempt.rules(), attempt.resolution());
            let charge = part.charge(&active.rules, &self.headroom(), resolution);
            let settled = charge.map(|charge| {
                let memory = self.stores.memory();
                memory.settle_reserved(&charge, &part.reserved, actual)
            });
            let settled = settled.transpose().map(|settlement| SettledLimit {
                rule: Arc::clone(part.rule.name()),
                reserved: part.reserved.units(),
                settlement,
            });
            match attempt.next(&settled, || self.rules.load()) {
                None => return settled,
                Some(next) => attempt = next,
            }
        }
    }
}

// === impl ReserveError ===

impl ReserveError {
    fn unfit(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ReserveError {
        let source = source.into();
        ReserveError::Unfit { source }
    }
}

impl From<StoreError> for ReserveError {
    fn from(error: StoreError) -> ReserveError {
        match error {
            StoreError::Unfit { source } => ReserveError::Unfit { source },
            error => ReserveError::Store(error),
        }
    }
}

impl MaybeSuperseded for ReserveError {
    fn is_superseded(&self) -> bool {
        matches!(self, ReserveError::Store(error) if error.is_superseded())
    }
}

impl fmt::Display for ReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReserveError::Unfit { source } => {
                write!(
                    f,
                    "the store keeps no reservation of this request: {source}"
                )
            }
            ReserveError::Full { max } => write!(
                f,
                "{max} reservations are open, and that is the most; settle them, retry when some \
                 have expired, or raise `reservations.max`"
            ),
            ReserveError::Refund => f.write_str(
                "the cost of a reservation is an estimate of what will be consumed, and a refund \
                 is none; send the refund by itself",
            ),
            ReserveError::TooManyLimits { limits } => write!(
                f,
                "the request meets {limits} limits, and {RESERVED_LIMITS_MAX} is the most for a \
                 reservation; send fewer descriptors"
            ),
            ReserveError::NoRandomness => {
                f.write_str("the system has no random number for a reservation; try again")
            }
            ReserveError::Store(_) => f.write_str("the store has no answer"),
        }
    }
}

impl std::error::Error for ReserveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ReserveError::Store(source) => Some(source),
            _ => None,
        }
    }
}

// === impl SettleError ===

impl fmt::Display for SettleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SettleError::Unknown => {
                "there is no such reservation: it was settled already, it has expired, or another \
                 instance keeps it in its memory"
            }
            SettleError::Store(_) => "the store has no answer",
        })
    }
}

impl std::error::Error for SettleError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SettleError::Unknown => None,
            SettleError::Store(source) => Some(source),
        }
    }
}
