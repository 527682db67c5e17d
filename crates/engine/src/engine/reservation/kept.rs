//! Reservations over a shared store, which keeps them beside its counters: any instance can settle
//! them, with what this module has the store remember of their rules.

use std::sync::Arc;

use tollgate_core::{
    Charge, Cost, KeptReservation, Key, NewReservation, Request, ReserveVerdict, Resolution,
    SettledCharge, SharedStore, Verdict,
};
use tollgate_fallback::Fallback;
use tollgate_rules::{Attempt, ChargedRule, Resolved};

use super::{ReservationReceipt, ReserveError, SettleError, SettledLimit, charges_to_reserve};
use crate::any_shared::AnyShared;
use crate::engine::{ActiveRules, Decided, Engine};
use crate::reservation_id::ReservationId;
use crate::stores::SharedMemory;

/// Bytes of a line of a memo before its rule: the key, how many descriptors met it, and the length
/// of its rule.
const LINE_BYTES: usize = 16 + 1 + 2;

/// The stored form of one line of a request.
struct KeptLine {
    key: Key,
    /// How many descriptors met this counter.
    times: u8,
    rule: ChargedRule,
}

// === impl Engine ===

impl Engine {
    /// Decides as [`Engine::reserve`] does, over a shared store.
    pub(super) async fn reserve_shared(
        &self,
        fallback: &Fallback<AnyShared, SharedMemory>,
        request: &Request<'_>,
        id: ReservationId,
    ) -> Result<(Decided, Option<ReservationReceipt>), ReserveError> {
        let expires_in = self.reservations.bounds().lifetime;
        let mut attempt = Attempt::first(self.rules.load());
        loop {
            let (active, resolution) = (attempt.rules(), attempt.resolution());
            let outcome = self.keep_under(active, fallback, request, (id, resolution));
            let outcome = outcome.await;
            match attempt.next(&outcome, || self.rules.load()) {
                None => {
                    let (decided, key) = outcome?;
                    let receipt = key.map(|key| ReservationReceipt {
                        id: ReservationId::from_bits(key.bits()),
                        expires_in,
                    });
                    return Ok((decided, receipt));
                }
                Some(next) => attempt = next,
            }
        }
    }

    /// Decides under these rules, even if they are replaced meanwhile, and has the store keep a
    /// reservation, of which the key is returned.
    async fn keep_under(
        &self,
        active: &ActiveRules,
        fallback: &Fallback<AnyShared, SharedMemory>,
        request: &Request<'_>,
        (id, resolution): (ReservationId, Resolution),
    ) -> Result<(Decided, Option<Key>), ReserveError> {
        let resolved = active
            .rules
            .resolve_with_headroom(request, fallback, &self.headroom());
        let charges = charges_to_reserve(&resolved, resolution)?;
        if charges.is_empty() {
            let decided = self.conclude(active, request, &resolved, &Verdict::default());
            return Ok((decided, None));
        }
        let memo = write_memo(&lines(&resolved, &charges)).ok_or_else(|| {
            let why = "the names of its rules are too long, or a limit is part of the request";
            ReserveError::unfit(why)
        })?;
        let new = NewReservation {
            secret: id.bits(),
            lifetime: self.reservations.bounds().lifetime,
            memo: &memo,
        };
        let ReserveVerdict {
            verdict,
            reservation,
        } = fallback.reserve(&charges, &new).await?;
        let decided = self.conclude(active, request, &resolved, &verdict);
        Ok((decided, reservation))
    }

    /// Settles a reservation that one of the shared stores keeps.
    pub(super) async fn settle_shared(
        &self,
        id: ReservationId,
        actual: u64,
    ) -> Result<Vec<SettledLimit>, SettleError> {
        let key = Key::from_bits(id.bits());
        let mut failure = None;
        for (_, fallback) in self.stores.shared_stores() {
            let store = fallback.shared();
            match store.find_reservation(key).await {
                Ok(Some(kept)) => return self.settle_kept(store, key, &kept, actual).await,
                Ok(None) => {}
                Err(error) => failure = Some(error),
            }
        }
        // The store without an answer may be the one that keeps it.
        Err(failure.map_or(SettleError::Unknown, SettleError::Store))
    }

    /// Settles what a store has found, under the rules in effect.
    async fn settle_kept(
        &self,
        store: &AnyShared,
        key: Key,
        kept: &KeptReservation,
        actual: u64,
    ) -> Result<Vec<SettledLimit>, SettleError> {
        let lines = read_memo(&kept.memo).ok_or(SettleError::Unknown)?;
        let active = self.rules.load_full();
        let charged: Vec<(usize, u64, &KeptLine)> = kept
            .charged
            .iter()
            .filter_map(|(line, units)| Some((*line, *units, lines.get(*line)?)))
            .collect();
        let charges: Vec<SettledCharge<'_>> = charged
            .iter()
            .filter_map(|(line, _, kept)| {
                let cost = Cost::Take(actual.saturating_mul(kept.times.into()));
                let settling = (kept.key, cost);
                let headroom = self.headroom();
                Some(SettledCharge {
                    line: *line,
                    charge: kept.rule.charge(settling, &active.rules, &headroom)?,
                })
            })
            .collect();
        let settled = store.settle_reservation(key, &charges).await;
        let settled = settled.map_err(SettleError::Store)?;
        let settlements = settled.ok_or(SettleError::Unknown)?;
        let of_line = |line| {
            let index = charges.iter().position(|charge| charge.line == line)?;
            settlements.get(index).copied()
        };
        let limits = charged.iter().map(|(line, units, kept)| SettledLimit {
            rule: Arc::clone(kept.rule.name()),
            reserved: *units,
            settlement: of_line(*line),
        });
        Ok(limits.collect())
    }
}

/// The lines of the request's [`Bill`](tollgate_core::Bill), in its order.
fn lines(resolved: &Resolved<'_>, charges: &[Charge<'_>]) -> Vec<KeptLine> {
    let mut lines: Vec<KeptLine> = Vec::with_capacity(charges.len());
    for (charge, rule) in charges.iter().zip(resolved.charged_rules()) {
        let (key, times) = (charge.key, 1);
        match lines.iter_mut().find(|line| line.key == key) {
            Some(line) => line.times += 1,
            None => lines.push(KeptLine { key, times, rule }),
        }
    }
    lines
}

/// `None` if it would be too long.
fn write_memo(lines: &[KeptLine]) -> Option<Vec<u8>> {
    let mut memo = Vec::new();
    for line in lines {
        let rule = line.rule.to_bytes()?;
        memo.extend_from_slice(&line.key.bits().to_be_bytes());
        memo.push(line.times);
        memo.extend_from_slice(&u16::try_from(rule.len()).ok()?.to_be_bytes());
        memo.extend_from_slice(&rule);
    }
    (memo.len() <= NewReservation::MEMO_BYTES_MAX).then_some(memo)
}

/// `None` if another version has written it.
fn read_memo(mut memo: &[u8]) -> Option<Vec<KeptLine>> {
    let mut lines = Vec::new();
    while !memo.is_empty() {
        let (front, rest) = memo.split_first_chunk::<LINE_BYTES>()?;
        let (key, front) = front.split_first_chunk()?;
        let [times, high, low] = *front else {
            return None;
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let (rule, rest) = rest.split_at_checked(length)?;
        lines.push(KeptLine {
            key: Key::from_bits(u128::from_be_bytes(*key)),
            times,
            rule: ChargedRule::from_bytes(rule)?,
        });
        memo = rest;
    }
    Some(lines)
}
