//! What is found by key, in parts with a lock each, so that hardly anybody waits for another.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_core::Key;

/// `N` parts, a power of two up to 65 536: the lowest bits of a key say which is its own.
#[derive(Debug)]
pub(crate) struct Sharded<T, const N: usize>([Mutex<T>; N]);

// === impl Sharded ===

impl<T, const N: usize> Sharded<T, N> {
    /// The key's part.
    #[inline]
    pub(crate) fn of(&self, key: Key) -> MutexGuard<'_, T> {
        self.at(Self::index(key))
    }

    /// The place of the key's part, for those who lock several: in the order of their places.
    #[inline]
    pub(crate) fn index(key: Key) -> usize {
        const { assert!(N.is_power_of_two() && N <= 0x1_0000) };
        usize::try_from(key.bits() & 0xFFFF).unwrap_or(0) % N
    }

    /// The part at this place.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> MutexGuard<'_, T> {
        lock(&self.0[index])
    }

    /// All parts, one after the other.
    pub(crate) fn each(&self) -> impl Iterator<Item = MutexGuard<'_, T>> {
        self.0.iter().map(lock)
    }
}

impl<T: Default, const N: usize> Default for Sharded<T, N> {
    fn default() -> Sharded<T, N> {
        Sharded(std::array::from_fn(|_| Mutex::default()))
    }
}

/// Locks what nobody leaves half-changed: nothing that holds it can panic half-way.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
