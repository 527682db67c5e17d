//! A map by key in shards with a lock each, to keep contention low.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_core::Key;

/// `N` shards, a power of two up to 65 536: the lowest bits of a key choose its shard.
#[derive(Debug)]
pub(crate) struct Sharded<T, const N: usize>([Mutex<T>; N]);

// === impl Sharded ===

impl<T, const N: usize> Sharded<T, N> {
    /// The key's shard, locked.
    #[inline]
    pub(crate) fn of(&self, key: Key) -> MutexGuard<'_, T> {
        self.at(Self::index(key))
    }

    /// The index of the key's shard, for callers that lock several: they lock in ascending order.
    #[inline]
    pub(crate) fn index(key: Key) -> usize {
        const { assert!(N.is_power_of_two() && N <= 0x1_0000) };
        usize::try_from(key.bits() & 0xFFFF).unwrap_or(0) % N
    }

    /// The shard at this index, locked.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> MutexGuard<'_, T> {
        lock(&self.0[index])
    }

    /// All shards, locked one after the other.
    pub(crate) fn each(&self) -> impl Iterator<Item = MutexGuard<'_, T>> {
        self.0.iter().map(lock)
    }
}

impl<T: Default, const N: usize> Default for Sharded<T, N> {
    fn default() -> Sharded<T, N> {
        Sharded(std::array::from_fn(|_| Mutex::default()))
    }
}

/// Locks data that is never left half-changed, so that a poisoned lock is still usable.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
