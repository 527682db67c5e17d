//! Estimates that are charged to the share of this process, because Redis did not answer.

use std::sync::OnceLock;

use tollgate_core::{
    Charge, Decision, Key, KeyHasher, Limit, Reserved, Settlement, Store, StoreError, Verdict,
};
use tollgate_memory::Memory;

/// An estimate that a share was charged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChargedShare {
    share: Limit,
    reserved: Reserved,
}

/// The memory of shares, for one request; notes what it has charged.
pub(crate) struct NotingMemory<'m> {
    memory: &'m Memory,
    charged: OnceLock<ChargedShare>,
}

// === impl ChargedShare ===

impl ChargedShare {
    /// Charges `actual` units in place of the estimate. `charge` is of the share as it is now: if
    /// it has changed, nothing is refunded, because a bucket of another rate would refund more time
    /// than was charged.
    pub(crate) fn settle(
        &self,
        memory: &Memory,
        charge: &Charge<'_>,
        actual: u64,
    ) -> Result<Settlement, StoreError> {
        let actual = match *charge.limit == self.share {
            true => actual,
            false => actual.max(self.reserved.units()),
        };
        memory.settle_reserved(charge, &self.reserved, actual)
    }
}

// === impl NotingMemory ===

impl<'m> NotingMemory<'m> {
    pub(crate) const fn new(memory: &'m Memory) -> NotingMemory<'m> {
        NotingMemory {
            memory,
            charged: OnceLock::new(),
        }
    }

    /// What it has charged.
    pub(crate) fn into_charged(self) -> Option<ChargedShare> {
        self.charged.into_inner()
    }
}

impl KeyHasher for NotingMemory<'_> {
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key {
        self.memory.key(parts)
    }
}

impl Store for NotingMemory<'_> {
    async fn decide(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        let (verdict, now) = self.memory.decide_timed(charges)?;
        if let ([charge], [Decision::Allow(grant)]) = (charges, &verdict.decisions[..]) {
            let _is_first = self.charged.set(ChargedShare {
                share: *charge.limit,
                reserved: Reserved::new(charge, grant, now),
            });
        }
        Ok(verdict)
    }
}
