//! Tollgate, one decision at a time and in batches.

use std::hash::Hash;

use tollgate::{Decision, Limiter};

use crate::contender::{Contender, Outcome};

/// One decision at a time.
pub(crate) struct Tollgate(Limiter);

/// [`crate::contender::BATCH`] decisions at a time.
pub(crate) struct TollgateBatch(Tollgate);

// === impl Tollgate ===

impl<K: Hash> Contender<K> for Tollgate {
    fn build(keys: u64, outcome: Outcome) -> Tollgate {
        let keys = usize::try_from(keys).unwrap_or(usize::MAX);
        Tollgate(Limiter::builder(outcome.limit()).max_keys(keys).build())
    }

    #[inline(always)]
    fn check(&self, key: &K) -> bool {
        self.0.check(key).is_allowed()
    }
}

// === impl TollgateBatch ===

impl<K: Hash> Contender<K> for TollgateBatch {
    fn build(keys: u64, outcome: Outcome) -> TollgateBatch {
        TollgateBatch(<Tollgate as Contender<K>>::build(keys, outcome))
    }

    fn check(&self, key: &K) -> bool {
        self.0.check(key)
    }

    #[inline(always)]
    fn check_many(&self, keys: &[K]) -> u64 {
        let mut allowed = 0;
        let count = |decision: Decision| allowed += u64::from(decision.is_allowed());
        self.0.0.check_each(keys, count);
        allowed
    }
}
