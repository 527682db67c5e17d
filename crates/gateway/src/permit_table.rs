//! How many requests of each key are in flight.
//!
//! A [`Permit`] is one of them. Dropping it is the only way to end it, so that it ends however its
//! request ends: with its response, or because a client goes away, a timeout passes, a future is
//! cancelled or a task panics. Several permits of one request are acquired under the locks of all
//! their keys, in one order, so that a request that lacks one of them never holds another.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::metrics::gauge::Gauge;

/// The most keys that can have a request in flight.
pub(crate) const KEYS_MAX: usize = 262_144;
/// How many locks the keys share.
const SHARDS: usize = 64;

/// The keys that have requests in flight, and how many. Others are not in it.
#[derive(Debug)]
pub(crate) struct PermitTable {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    keys: AtomicUsize,
    keys_max: usize,
}

type Shard = HashMap<Arc<[u8]>, u32>;

/// A permit that a request needs.
#[derive(Clone, Debug)]
pub(crate) struct PermitRequest {
    pub(crate) key: Arc<[u8]>,
    /// The most permits of its key.
    pub(crate) most: u32,
    /// Counts the permits of its limit.
    pub(crate) gauge: Gauge,
}

/// A request in flight, until this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    table: Arc<PermitTable>,
    key: Arc<[u8]>,
    gauge: Gauge,
}

/// Why there are no permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPermit {
    /// All of this one's key are taken: its index among the requested ones.
    Taken(usize),
    /// More keys would have requests in flight than may.
    TableFull,
}

// === impl PermitTable ===

impl PermitTable {
    /// An empty table with room for so many keys.
    pub(crate) fn new(keys_max: usize) -> Arc<PermitTable> {
        Arc::new(PermitTable {
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::new(),
            keys: AtomicUsize::new(0),
            keys_max,
        })
    }

    /// Acquires all of these permits, whose keys differ, or none.
    ///
    /// # Errors
    ///
    /// [`NoPermit`] says which is missing.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        requested: &[PermitRequest],
    ) -> Result<Vec<Permit>, NoPermit> {
        let places: Vec<usize> = requested.iter().map(|one| self.place(&one.key)).collect();
        let mut order = places.clone();
        order.sort_unstable();
        order.dedup();
        // In ascending order, so that two requests never wait for each other.
        let mut locked: Vec<(usize, MutexGuard<'_, Shard>)> = order
            .into_iter()
            .map(|place| (place, lock(&self.shards[place])))
            .collect();
        let mut new_keys = 0;
        for (index, (one, place)) in requested.iter().zip(&places).enumerate() {
            match find(&mut locked, *place).get(&one.key) {
                Some(count) if *count >= one.most => return Err(NoPermit::Taken(index)),
                Some(_) => {}
                None if one.most == 0 => return Err(NoPermit::Taken(index)),
                None => new_keys += 1,
            }
        }
        self.add_keys(new_keys)?;
        let taken = requested.iter().zip(places).map(|(one, place)| {
            let shard = find(&mut locked, place);
            *shard.entry(Arc::clone(&one.key)).or_insert(0) += 1;
            one.gauge.inc();
            Permit {
                table: Arc::clone(self),
                key: Arc::clone(&one.key),
                gauge: one.gauge.clone(),
            }
        });
        Ok(taken.collect())
    }

    /// Makes room for so many new keys.
    fn add_keys(&self, count: usize) -> Result<(), NoPermit> {
        if count == 0 {
            return Ok(());
        }
        // Relaxed: a bound on memory alone. The locks order the counts of a key.
        let added = self
            .keys
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |keys| {
                keys.checked_add(count).filter(|sum| *sum <= self.keys_max)
            });
        added.map(|_| ()).map_err(|_| NoPermit::TableFull)
    }

    fn place(&self, key: &[u8]) -> usize {
        let shards = u64::try_from(SHARDS).unwrap_or(1);
        usize::try_from(self.hasher.hash_one(key) % shards).unwrap_or(0)
    }

    fn release(&self, key: &Arc<[u8]>) {
        let mut shard = lock(&self.shards[self.place(key)]);
        let Some(count) = shard.get_mut(key) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            shard.remove(key);
            self.keys.fetch_sub(1, Ordering::Relaxed);
            // After a peak, its memory is given back.
            if shard.capacity() > SHARD_KEPT && shard.len() < shard.capacity() / 8 {
                shard.shrink_to(SHARD_KEPT);
            }
        }
    }

    /// How many keys have requests in flight.
    #[cfg(test)]
    pub(crate) fn keys(&self) -> usize {
        let counted = self.shards.iter().map(|shard| lock(shard).len()).sum();
        assert_eq!(self.keys.load(Ordering::Relaxed), counted);
        counted
    }
}

/// The room of a shard that stays when its keys are gone.
const SHARD_KEPT: usize = 64;

/// Counts are whole under the lock, so that a panic elsewhere spoils none.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn find<'a>(locked: &'a mut [(usize, MutexGuard<'_, Shard>)], place: usize) -> &'a mut Shard {
    let found = locked.binary_search_by_key(&place, |(place, _)| *place);
    &mut locked[found.expect("the place of every key is locked")].1
}

// === impl Permit ===

impl Drop for Permit {
    fn drop(&mut self) {
        self.table.release(&self.key);
        self.gauge.dec();
    }
}

#[cfg(test)]
mod tests;
