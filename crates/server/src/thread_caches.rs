//! Empties the caches in which the allocator keeps small blocks for each thread.
//!
//! glibc keeps a few freed blocks of each size up to a kilobyte for the thread that freed them, and
//! has no function that returns them. After a peak of load they are scattered over as many pages,
//! which nobody else can use: 0.4 of the 1.6 MiB that stay after the attack "unfinished messages".
//!
//! A thread empties its cache by allocating what is in it. A thread that ends then frees these
//! blocks, and the allocator empties the cache of a thread that ends. With other allocators this
//! costs little and changes nothing.

use std::cell::Cell;
use std::mem::take;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;

/// The largest block of a cache.
const BLOCK_BYTES_MAX: usize = 1032;
/// The difference between two sizes.
const SIZE_STEP: usize = 16;
/// The most blocks of one size: seven until glibc 2.41.
const BLOCKS_PER_SIZE: usize = 16;
/// The most threads whose blocks are collected.
const THREADS_MAX: usize = 256;
/// Enough for a thread that frees blocks.
const STACK_BYTES: usize = 64 * 1024;

/// What was in one thread's cache.
type Blocks = Vec<Vec<u8>>;

/// The number of the latest request to empty caches, or 0 if there is none.
static REQUEST: AtomicU64 = AtomicU64::new(0);
static COLLECTED: Mutex<Vec<Blocks>> = Mutex::new(Vec::new());

thread_local! {
    /// The last request that this thread has followed.
    static FOLLOWED: Cell<u64> = const { Cell::new(0) };
}

/// Asks every thread to empty its cache; each request has a number of its own, and 0 withdraws it.
pub(crate) fn request(number: u64) {
    REQUEST.store(number, Ordering::Relaxed);
}

/// Empties the cache of this thread, if that was requested.
///
/// A runtime calls it whenever one of its threads has nothing to do: see
/// [`tokio::runtime::Builder::on_thread_park`]. It costs nothing unless clients have just freed
/// some megabytes.
pub fn empty_thread_cache() {
    let request = REQUEST.load(Ordering::Relaxed);
    if request == 0 || FOLLOWED.replace(request) == request {
        return;
    }
    let sizes = (SIZE_STEP / 2..=BLOCK_BYTES_MAX).step_by(SIZE_STEP);
    let blocks = sizes.flat_map(|size| (0..BLOCKS_PER_SIZE).map(move |_| Vec::with_capacity(size)));
    let blocks: Blocks = blocks.collect();
    let mut collected = COLLECTED.lock().unwrap_or_else(PoisonError::into_inner);
    if collected.len() < THREADS_MAX {
        collected.push(blocks);
    }
}

/// Frees what was in the caches that were emptied. Waits for the thread that does it.
pub(crate) fn free_collected() {
    let collected = take(&mut *COLLECTED.lock().unwrap_or_else(PoisonError::into_inner));
    if collected.is_empty() {
        return;
    }
    let freeing = Builder::new().stack_size(STACK_BYTES);
    // Without a thread they are freed here, and a few stay in this thread's cache.
    if let Ok(freeing) = freeing.spawn(move || drop(collected)) {
        let _it_cannot_panic = freeing.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected() -> usize {
        let collected = COLLECTED.lock().unwrap_or_else(PoisonError::into_inner);
        collected.iter().map(Vec::len).sum()
    }

    #[test]
    fn a_thread_empties_its_cache_once_for_each_request() {
        let in_a_cache = BLOCKS_PER_SIZE * 65;
        empty_thread_cache();
        assert_eq!(collected(), 0);
        request(1);
        for _ in 0..3 {
            empty_thread_cache();
            assert_eq!(collected(), in_a_cache);
        }
        request(2);
        empty_thread_cache();
        assert_eq!(collected(), 2 * in_a_cache);
        free_collected();
        request(0);
        empty_thread_cache();
        assert_eq!(collected(), 0);
    }
}
