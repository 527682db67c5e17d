//! Generations of keys: they distinguish a reply that was made before a refund from later ones, or
//! before a charge.
//!
//! A request that was in flight together with a refund may be answered after it with the state from
//! before. Such a state must not be cached: nobody would find the refunded units until it expires.
//! Nor would a cached denial count the units of a charge that it was in flight with.

use std::sync::atomic::{AtomicU32, Ordering};

use tollgate_core::Key;

/// Groups of keys with a common generation. A refund or a charge of another key of the same group
/// costs the cached state of a request in flight. A key that is charged all the time thus has Redis
/// decide each denial of the others of its group.
const GROUPS: usize = 16_384;

/// The generations of all keys: how often a key of their group got units back, or was
/// charged, modulo 2^32.
#[derive(Debug)]
pub(crate) struct Generations {
    counts: Box<[AtomicU32]>,
}

/// The generation of a key when a request for it began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Generation<'g> {
    count: &'g AtomicU32,
    seen: u32,
}

// === impl Generations ===

impl Generations {
    pub(crate) fn of(&self, key: Key) -> Generation<'_> {
        let count = self.count(key);
        Generation {
            count,
            seen: count.load(Ordering::Relaxed),
        }
    }

    /// Begins the next generation of a key, before its entries are removed from the caches.
    ///
    /// Relaxed, as all of this: an entry is stored under a lock, and only if the generation is
    /// still the same under that lock. The removal takes the same lock after this. So an entry that
    /// is stored before the removal is removed, and after it, the lock orders the look after this.
    pub(crate) fn advance(&self, key: Key) {
        self.count(key).fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self, key: Key) -> &AtomicU32 {
        let groups = u128::try_from(self.counts.len()).unwrap_or(1);
        let group = usize::try_from(key.bits() % groups).unwrap_or(0);
        &self.counts[group]
    }
}

impl Default for Generations {
    fn default() -> Generations {
        let counts = (0..GROUPS).map(|_| AtomicU32::new(0));
        Generations {
            counts: counts.collect(),
        }
    }
}

// === impl Generation ===

impl Generation<'_> {
    /// Whether no units were returned or charged since.
    pub(crate) fn is_current(self) -> bool {
        self.count.load(Ordering::Relaxed) == self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refund_ends_the_generation_of_its_key() {
        let generations = Generations::default();
        let [one, other] = [1, 2].map(|bits| generations.of(Key::from_bits(bits)));
        generations.advance(Key::from_bits(1));
        assert!(!one.is_current() && other.is_current());
        assert!(generations.of(Key::from_bits(1)).is_current());
    }
}
