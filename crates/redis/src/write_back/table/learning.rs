//! Decisions that Redis makes on a key that is counted here.

use std::sync::Arc;

use tollgate_core::{Charge, Decision, Key};

use super::Table;
use crate::snapshot::Snapshot;

/// A decision of Redis, from which a key's count is learned. If it is dropped before, because
/// there is no reply or the caller has gone away, the next decision on the key fetches the count.
#[derive(Debug)]
pub(crate) struct Learning<'t> {
    table: &'t Table,
    key: Key,
    is_over: bool,
}

/// Keeps keys from being counted here for as long as it lives: see [`super::aside`]. Owned by
/// whatever makes the decision, which may outlive its caller.
#[derive(Debug)]
pub(crate) struct SetAside {
    table: Arc<Table>,
    keys: Vec<Key>,
    is_foreign: bool,
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

    /// Repeats a decision of Redis on `charge` at `redis_now`, from the state before it, and
    /// returns the same decision.
    pub(crate) fn finish(
        mut self,
        snapshot: Snapshot,
        charge: &Charge<'_>,
        redis_now: u64,
    ) -> Option<Decision> {
        self.is_over = true;
        let now = self.table.clock.now();
        let mut shard = self.table.shards.of(self.key);
        let entry = shard.entries.get_mut(&self.key)?;
        Some(entry.repeat_decision(snapshot, charge, redis_now, now))
    }
}

impl Drop for Learning<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.table.forget(self.key);
        }
    }
}

// === impl SetAside ===

impl SetAside {
    pub(super) fn new(table: &Arc<Table>, keys: Vec<Key>, is_foreign: bool) -> SetAside {
        for key in &keys {
            let mut shard = table.shards.of(*key);
            shard.aside.entry(*key).or_default().begin(is_foreign);
        }
        SetAside {
            table: Arc::clone(table),
            keys,
            is_foreign,
        }
    }
}

impl Drop for SetAside {
    fn drop(&mut self) {
        for key in &self.keys {
            let mut shard = self.table.shards.of(*key);
            let Some(aside) = shard.aside.get_mut(key) else {
                continue;
            };
            if aside.end(self.is_foreign)
                && let Some(aside) = shard.aside.remove(key)
            {
                drop(shard);
                aside.notify();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tollgate_core::{Account, Cost, Limit, Mode, Sharing, Span};

    use super::super::Next;
    use super::*;
    use crate::monotonic::MonotonicClock;

    const KEY: Key = Key::from_bits(7);

    #[test]
    fn nobody_learns_a_count_that_lacks_what_redis_is_deciding() {
        let table = Table::new(MonotonicClock::new(None), None, Span::SECOND);
        let limit = Limit::token_bucket(10, Span::SECOND).unwrap();
        let charge = Charge::new(KEY, &limit, Cost::ONE);
        let charge = charge.shared(Sharing::in_mode(Mode::WriteBack));
        let ask = || table.decide(&charge).unwrap();
        let both = || table.decide_all(&[charge]).unwrap();
        assert!(matches!(ask(), Next::Redis(_)));
        let learning = table.learn(KEY);
        let aside = |is_foreign| table.set_aside([KEY].into_iter(), is_foreign);
        let foreign = aside(true);
        // Not even from a reply that was in flight.
        learning.finish(Snapshot::Account(Account::fresh(&limit)), &charge, 0);
        assert!(matches!(ask(), Next::Remote));
        assert!(matches!(both(), Next::Remote));
        assert!(table.give_up([KEY].into_iter()).is_none());
        let other = aside(false);
        drop(foreign);
        // The remaining one ends soon: until then no other request goes to Redis.
        assert!(matches!(ask(), Next::Wait(_)));
        assert!(matches!(both(), Next::Wait(_)));
        drop(other);
        assert!(matches!(ask(), Next::Redis(_)));
    }
}
