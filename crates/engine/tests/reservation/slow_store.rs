//! A shared store that keeps reservations, and waits before and after whatever it does, so that a
//! test can cancel a call at each of these points.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::task::yield_now;
use tollgate_core::{
    Charge, Clock, Cost, Decision, KeptReservation, Key, KeyHasher, Mode, NewReservation,
    ReserveVerdict, Reserved, Settled, SettledCharge, SharedStore, Store, StoreError, Verdict,
};
use tollgate_memory::Memory;

pub(super) struct SlowStore {
    memory: Memory<Arc<dyn Clock>>,
    open: Mutex<HashMap<Key, Open>>,
    /// The units that were charged less those that were refunded, by reservations.
    pub(super) account: Arc<Mutex<Account>>,
}

/// An open reservation.
struct Open {
    /// What each line was charged.
    charged: Vec<(usize, Reserved)>,
    memo: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) reserved: u64,
    pub(super) settled: Vec<u64>,
    /// The mode of each settled charge.
    pub(super) modes: Vec<Mode>,
}

// === impl SlowStore ===

impl SlowStore {
    pub(super) fn new(memory: Memory<Arc<dyn Clock>>) -> SlowStore {
        SlowStore {
            memory,
            open: Mutex::default(),
            account: Arc::default(),
        }
    }

    fn reserve_now(
        &self,
        charges: &[Charge<'_>],
        new: &NewReservation<'_>,
    ) -> Result<ReserveVerdict, StoreError> {
        let (verdict, now) = self.memory.decide_timed(charges)?;
        let reservation = verdict.is_allowed().then(|| Key::from_bits(new.secret));
        if let Some(key) = reservation {
            let lines = charges.iter().zip(&verdict.decisions).enumerate();
            let charged = lines.filter_map(|(line, (charge, decision))| match decision {
                Decision::Allow(grant) => Some((line, Reserved::new(charge, grant, now))),
                Decision::Deny(_) => None,
            });
            let charged: Vec<_> = charged.collect();
            let units: u64 = charged.iter().map(|(_, reserved)| reserved.units()).sum();
            self.account.lock().unwrap().reserved += units;
            let memo = new.memo.to_vec();
            self.open
                .lock()
                .unwrap()
                .insert(key, Open { charged, memo });
        }
        Ok(ReserveVerdict {
            verdict,
            reservation,
        })
    }

    fn settle_now(&self, key: Key, settled: &[SettledCharge<'_>]) -> Result<Settled, StoreError> {
        let Some(Open { charged, .. }) = self.open.lock().unwrap().remove(&key) else {
            return Ok(None);
        };
        let settle = |one: &SettledCharge<'_>| {
            let mut lines = charged.iter();
            let (_, reserved) = lines.find(|(line, _)| *line == one.line).unwrap();
            let Cost::Take(actual) = one.charge.cost else {
                panic!("{:?}", one.charge.cost);
            };
            let settlement = self.memory.settle_reserved(&one.charge, reserved, actual)?;
            let mut account = self.account.lock().unwrap();
            account.reserved -= reserved.units();
            account.settled.push(settlement.charged);
            account.modes.push(one.charge.sharing.mode);
            Ok(settlement)
        };
        let settlements: Result<Vec<_>, _> = settled.iter().map(settle).collect();
        settlements.map(Some)
    }
}

impl KeyHasher for SlowStore {
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key {
        self.memory.key(parts)
    }
}

impl Store for SlowStore {
    async fn decide(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        yield_now().await;
        let decided = self.memory.decide_now(charges);
        yield_now().await;
        decided
    }
}

impl SharedStore for SlowStore {
    fn join(&self) {}

    fn instances(&self) -> u32 {
        1
    }

    fn is_up(&self) -> bool {
        true
    }

    async fn reserve(
        &self,
        charges: &[Charge<'_>],
        new: &NewReservation<'_>,
    ) -> Result<ReserveVerdict, StoreError> {
        yield_now().await;
        let reserved = self.reserve_now(charges, new);
        yield_now().await;
        reserved
    }

    async fn find_reservation(
        &self,
        reservation: Key,
    ) -> Result<Option<KeptReservation>, StoreError> {
        yield_now().await;
        let open = self.open.lock().unwrap();
        Ok(open.get(&reservation).map(|open| KeptReservation {
            charged: { open.charged.iter() }
                .map(|(line, reserved)| (*line, reserved.units()))
                .collect(),
            memo: open.memo.clone(),
        }))
    }

    async fn settle_reservation(
        &self,
        reservation: Key,
        settled: &[SettledCharge<'_>],
    ) -> Result<Settled, StoreError> {
        yield_now().await;
        let settled = self.settle_now(reservation, settled);
        yield_now().await;
        settled
    }

    async fn close(&self) {}
}
