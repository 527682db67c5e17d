//! Tollgate, one decision at a time and in batches.

use std::cell::RefCell;
use std::hash::Hash;

use tollgate_core::{Charge, Cost, Decision, Limit, StoreError};
use tollgate_memory::Memory;

use super::{Contender, Outcome};

/// One decision at a time.
pub(crate) struct Tollgate {
    pub(crate) store: Memory,
    pub(crate) limit: Limit,
}

/// [`super::BATCH`] decisions at a time.
pub(crate) struct TollgateBatch(Tollgate);

// === impl Tollgate ===

impl<K: Hash> Contender<K> for Tollgate {
    fn build(keys: u64, outcome: Outcome) -> Tollgate {
        let keys = usize::try_from(keys).unwrap_or(usize::MAX);
        Tollgate {
            store: Memory::builder().max_keys(keys).build(),
            limit: outcome.limit(),
        }
    }

    #[inline]
    fn check(&self, key: &K) -> bool {
        let charge = Charge::new(self.store.key_of(key), &self.limit, Cost::ONE);
        is_allowed(&self.store.check(&charge))
    }
}

#[inline]
fn is_allowed(answer: &Result<Decision, StoreError>) -> bool {
    answer.as_ref().is_ok_and(Decision::is_allowed)
}

// === impl TollgateBatch ===

thread_local! {
    static ANSWERS: RefCell<Vec<Result<Decision, StoreError>>> = const { RefCell::new(Vec::new()) };
}

impl<K: Hash> Contender<K> for TollgateBatch {
    fn build(keys: u64, outcome: Outcome) -> TollgateBatch {
        TollgateBatch(<Tollgate as Contender<K>>::build(keys, outcome))
    }

    fn check(&self, key: &K) -> bool {
        self.0.check(key)
    }

    #[inline]
    fn check_many(&self, keys: &[K]) -> u64 {
        let Tollgate { store, limit } = &self.0;
        let charge = |key| Charge::new(store.key_of(key), limit, Cost::ONE);
        let charges: Vec<Charge<'_>> = keys.iter().map(charge).collect();
        ANSWERS.with_borrow_mut(|answers| {
            answers.clear();
            store.check_batch(&charges, answers);
            answers
                .iter()
                .map(|answer| u64::from(is_allowed(answer)))
                .sum()
        })
    }
}
