//! Reservations that the process which made them settles itself, as a gateway does: it has what is
//! needed to settle them, so that nothing needs an id, and each descriptor has a cost of its own.

use std::collections::VecDeque;
use std::sync::Arc;

use tollgate_core::{
    Charge, Cost, Key, NewReservation, Request, Resolution, SettledCharge, SharedStore, StoreError,
    Verdict,
};
use tollgate_fallback::Fallback;
use tollgate_rules::{Attempt, ChargedRule, ReservedPart, Resolved};

use super::{ReserveError, SettledLimit, charges_to_reserve};
use crate::any_shared::AnyShared;
use crate::engine::{ActiveRules, Decided, Engine};
use crate::reservation_id::{NoRandomness, ReservationId};
use crate::stores::{DomainStore, EngineMemory, SharedMemory};

/// A reservation of this process: what a request was charged, descriptor by descriptor.
///
/// [`Engine::settle_owned`] consumes it, so it is settled at most once. One that is dropped stays
/// charged.
#[derive(Debug)]
#[must_use = "what is not settled stays charged"]
pub struct OwnedReservation(Place);

/// Where the units are counted.
#[derive(Debug)]
enum Place {
    Memory(Vec<Counted<ReservedPart>>),
    Shared {
        domain: Box<str>,
        key: Key,
        lines: Vec<Counted<SharedLine>>,
    },
}

/// What one counter was charged, and by which descriptors of the request.
#[derive(Debug)]
struct Counted<T> {
    descriptors: Vec<usize>,
    charged: T,
}

/// A line of the request's [`Bill`](tollgate_core::Bill) in a shared store.
#[derive(Debug)]
struct SharedLine {
    index: usize,
    key: Key,
    rule: ChargedRule,
    units: u64,
}

// === impl OwnedReservation ===

impl OwnedReservation {
    /// Whether it is settled at once, because it is counted in the memory of this process.
    pub const fn is_in_memory(&self) -> bool {
        matches!(self.0, Place::Memory(_))
    }
}

// === impl Engine ===

impl Engine {
    /// Decides on a request as [`Engine::decide`] does; the cost of each descriptor may be an
    /// estimate, and none may be a refund. If it is allowed, returns a reservation, unless the
    /// store had no answer and the limits allow that.
    ///
    /// It takes no place among those of [`Engine::reservation_counts`], and a shared store keeps it
    /// as long as one of [`Engine::reserve`].
    ///
    /// # Errors
    ///
    /// [`ReserveError`]; nothing was charged. A denial is an answer.
    pub async fn reserve_owned(
        &self,
        request: &Request<'_>,
    ) -> Result<(Decided, Option<OwnedReservation>), ReserveError> {
        let store = &self.stores.of(request.domain_name()).store;
        let mut attempt = Attempt::first(self.rules.load());
        loop {
            let (active, resolution) = (attempt.rules(), attempt.resolution());
            let outcome = match store {
                DomainStore::Memory(memory) => {
                    self.own_in_memory(active, memory.memory(), request, resolution)
                }
                DomainStore::Shared(fallback) => {
                    let owned = self.own_shared(active, fallback, request, resolution);
                    owned.await
                }
            };
            match attempt.next(&outcome, || self.rules.load()) {
                None => return outcome,
                Some(next) => attempt = next,
            }
        }
    }

    /// Charges each descriptor what `actual` returns for its index in the request, in place of what
    /// it was reserved: refunds what was reserved too much, as far as it still counts, or charges
    /// what is missing until the limit is exhausted.
    ///
    /// If this is cancelled, the reservation is settled or not, and never again.
    ///
    /// # Errors
    ///
    /// [`StoreError`]: what was not settled stays charged.
    pub async fn settle_owned(
        &self,
        reservation: OwnedReservation,
        actual: impl Fn(usize) -> u64,
    ) -> Result<Vec<SettledLimit>, StoreError> {
        match reservation.0 {
            Place::Memory(parts) => {
                let settled = parts
                    .iter()
                    .map(|part| self.settle_part(&part.charged, part.add(&actual)));
                settled.collect()
            }
            Place::Shared { domain, key, lines } => {
                let named = self.stores.of(Some(&domain));
                let DomainStore::Shared(fallback) = &named.store else {
                    // Stores never change.
                    return Ok(Vec::new());
                };
                self.settle_lines(fallback.shared(), key, &lines, actual)
                    .await
            }
        }
    }

    /// Decides in memory under these rules, and takes what was charged.
    fn own_in_memory(
        &self,
        active: &ActiveRules,
        memory: &EngineMemory,
        request: &Request<'_>,
        resolution: Resolution,
    ) -> Result<(Decided, Option<OwnedReservation>), ReserveError> {
        let keep =
            |resolved: &Resolved<'_>, charges: &[Charge<'_>], parts: VecDeque<ReservedPart>| {
                let parts = parts.into_iter().map(|part| Counted {
                    descriptors: descriptors_of(resolved, charges, part.key),
                    charged: part,
                });
                OwnedReservation(Place::Memory(parts.collect()))
            };
        let (decided, owned) =
            self.reserve_under(active, memory, (request, None), resolution, keep)?;
        let owned = decided.answer.is_allowed().then_some(owned);
        Ok((decided, owned))
    }

    /// Decides in a shared store under these rules, and takes what was charged.
    async fn own_shared(
        &self,
        active: &ActiveRules,
        fallback: &Fallback<AnyShared, SharedMemory>,
        request: &Request<'_>,
        resolution: Resolution,
    ) -> Result<(Decided, Option<OwnedReservation>), ReserveError> {
        let resolved = active
            .rules
            .resolve_with_headroom(request, fallback, &self.headroom());
        let charges = charges_to_reserve(&resolved, resolution)?;
        if charges.is_empty() {
            let decided = self.conclude(active, request, &resolved, &Verdict::default());
            return Ok((decided, None));
        }
        let id = ReservationId::random().map_err(|NoRandomness| ReserveError::NoRandomness)?;
        let new = NewReservation {
            secret: id.bits(),
            lifetime: self.reservations.bounds().lifetime,
            memo: &[],
        };
        let reserved = fallback.reserve(&charges, &new).await?;
        let verdict = reserved.verdict;
        let owned = reserved.reservation.map(|key| {
            let domain = request.domain_name().unwrap_or_default().into();
            let lines = shared_lines(&resolved, &charges, &verdict);
            OwnedReservation(Place::Shared { domain, key, lines })
        });
        let decided = self.conclude(active, request, &resolved, &verdict);
        Ok((decided, owned))
    }

    /// Settles what a shared store keeps, under the rules in effect.
    async fn settle_lines(
        &self,
        store: &AnyShared,
        key: Key,
        lines: &[Counted<SharedLine>],
        actual: impl Fn(usize) -> u64,
    ) -> Result<Vec<SettledLimit>, StoreError> {
        let active = self.rules.load_full();
        let charges: Vec<SettledCharge<'_>> = lines
            .iter()
            .filter_map(|line| {
                let SharedLine { rule, key, .. } = &line.charged;
                let settling = (*key, Cost::Take(line.add(&actual)));
                let headroom = self.headroom();
                Some(SettledCharge {
                    line: line.charged.index,
                    charge: rule.charge(settling, &active.rules, &headroom)?,
                })
            })
            .collect();
        // `None`: it has expired, and stays charged.
        let settled = store.settle_reservation(key, &charges).await?;
        let settlement = |line: &SharedLine| {
            let at = charges
                .iter()
                .position(|charge| charge.line == line.index)?;
            settled.as_ref()?.get(at).copied()
        };
        let limits = lines.iter().map(|line| SettledLimit {
            rule: Arc::clone(line.charged.rule.name()),
            reserved: line.charged.units,
            settlement: settlement(&line.charged),
        });
        Ok(limits.collect())
    }
}

/// The descriptors that are charged to this counter.
fn descriptors_of(resolved: &Resolved<'_>, charges: &[Charge<'_>], key: Key) -> Vec<usize> {
    let charged = charges.iter().zip(resolved.charged_descriptors());
    let of_key = charged.filter(|(charge, _)| charge.key == key);
    of_key.map(|(_, descriptor)| descriptor).collect()
}

/// The lines of the request's [`Bill`](tollgate_core::Bill) that were charged.
fn shared_lines(
    resolved: &Resolved<'_>,
    charges: &[Charge<'_>],
    verdict: &Verdict,
) -> Vec<Counted<SharedLine>> {
    let lines = resolved.charged_lines(charges, verdict);
    let lines = lines.map(|(rule, line)| {
        let key = charges[line.first].key;
        Counted {
            descriptors: descriptors_of(resolved, charges, key),
            charged: SharedLine {
                index: line.line,
                key,
                rule,
                units: line.units,
            },
        }
    });
    lines.collect()
}

// === impl Counted ===

impl<T> Counted<T> {
    /// What its descriptors cost together.
    fn add(&self, actual: &impl Fn(usize) -> u64) -> u64 {
        let costs = self.descriptors.iter().map(|index| actual(*index));
        costs.fold(0, u64::saturating_add)
    }
}
