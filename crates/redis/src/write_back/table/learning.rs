//! What becomes of a decision that Redis makes for a key that is counted here.

use tollgate_core::{Account, Charge, Decision, Key};

use super::Table;

/// A decision of Redis, from which a key's count is to be learned. If it is dropped before, because
/// there is no answer or the caller has gone, the next decision on the key asks.
#[derive(Debug)]
pub(crate) struct Learning<'t> {
    table: &'t Table,
    key: Key,
    is_over: bool,
}

// === impl Learning ===

impl<'t> Learning<'t> {
    pub(super) const fn new(table: &'t Table, key: Key) -> Learning<'t> {
        Learning {
            table,
            key,
            is_over: false,
        }
    }

    /// Redis has decided on `charge` at `redis_now`, and told its count from before: the same
    /// decision, made here.
    pub(crate) fn decided(
        mut self,
        account: Account,
        charge: &Charge<'_>,
        redis_now: u64,
    ) -> Option<Decision> {
        self.is_over = true;
        let now = self.table.watch.now();
        let mut shard = self.table.shards.of(self.key);
        let entry = shard.entries.get_mut(&self.key)?;
        Some(entry.decided_there(account, charge, redis_now, now))
    }
}

impl Drop for Learning<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.table.forget(self.key);
        }
    }
}
