//! Blocks of memory for states that are larger than a word.
//!
//! A block belongs to the slot that leads to it, or to the free list. Its bytes are read and
//! written only by the thread that has locked that slot; locking and unlocking publish them, so
//! the atomics here are relaxed and stand for plain memory without `unsafe`.

use self::blocks::Blocks;
use crate::prefetch::prefetch;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Bytes of a block that a state may use.
pub(crate) const PAYLOAD: usize = 60;
/// Bytes of a block, its link included.
pub(crate) const BLOCK_BYTES: usize = PAYLOAD + 4;
/// The most blocks of one arena: their numbers must fit into the 30 bits that [`crate::spill`] has.
pub(crate) const BLOCKS_MAX: usize = (1 << 30) - 1;

/// The number of a block, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockId(u32);

#[derive(Debug)]
#[cfg_attr(tollgate_loom, derive(Default))]
struct Block {
    link: AtomicU32,
    bytes: bytes::Bytes,
}

/// A fixed number of blocks.
///
/// The pages of blocks that were never handed out have never been touched; blocks are handed out in
/// their order.
#[derive(Debug)]
pub(crate) struct Arena {
    blocks: Blocks,
    /// The first free block (low half) and how often the list has changed (high half), so that a
    /// block that was taken and returned meanwhile is noticed (the ABA problem).
    free: AtomicU64,
    /// Blocks from this index on were never handed out.
    fresh: AtomicU32,
    in_use: AtomicU64,
}

// === impl BlockId ===

impl BlockId {
    /// The block with this number; `None` for 0.
    pub(crate) const fn new(number: u32) -> Option<BlockId> {
        if number == 0 {
            None
        } else {
            Some(BlockId(number))
        }
    }

    /// The number.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    fn index(self) -> usize {
        usize::try_from(self.0 - 1).unwrap_or(usize::MAX)
    }
}

// === impl Arena ===

impl Arena {
    /// An arena of this many blocks, up to [`BLOCKS_MAX`].
    pub(crate) fn with_blocks(blocks: usize) -> Arena {
        Arena {
            blocks: Blocks::zeroed(blocks.min(BLOCKS_MAX)),
            free: AtomicU64::new(0),
            fresh: AtomicU32::new(0),
            in_use: AtomicU64::new(0),
        }
    }

    /// Bytes of all blocks.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }

    /// Blocks that are handed out now.
    pub(crate) fn in_use(&self) -> u64 {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Allocates a block, whose bytes may be anything; `None` if none is free.
    pub(crate) fn take(&self) -> Option<BlockId> {
        let block = self.take_used().or_else(|| self.take_fresh())?;
        self.in_use.fetch_add(1, Ordering::Relaxed);
        Some(block)
    }

    fn take_used(&self) -> Option<BlockId> {
        // Acquire: the previous owner's accesses to the block happen before ours.
        let mut current = self.free.load(Ordering::Acquire);
        loop {
            let block = BlockId::new(low(current))?;
            let next = self.link(block);
            let new = join(high(current).wrapping_add(1), next);
            match self
                .free
                .compare_exchange_weak(current, new, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some(block),
                // Another thread took or returned a block: the list has changed.
                Err(now) => current = now,
            }
        }
    }

    fn take_fresh(&self) -> Option<BlockId> {
        let count = u32::try_from(self.blocks.len()).unwrap_or(0);
        let next = |fresh: u32| (fresh < count).then(|| fresh + 1);
        let taken = self
            .fresh
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        taken.ok().and_then(|fresh| BlockId::new(fresh + 1))
    }

    /// Returns a block.
    pub(crate) fn give(&self, block: BlockId) {
        self.in_use.fetch_sub(1, Ordering::Relaxed);
        let mut current = self.free.load(Ordering::Relaxed);
        loop {
            self.set_link(block, low(current));
            let new = join(high(current).wrapping_add(1), block.number());
            match self
                .free
                .compare_exchange_weak(current, new, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => current = now,
            }
        }
    }

    /// Fetches a block that will be read soon.
    #[inline]
    pub(crate) fn prefetch(&self, block: BlockId) {
        prefetch(self.blocks.as_ptr().wrapping_add(block.index()));
    }

    /// The number that the block's owner has stored as its link.
    #[inline]
    pub(crate) fn link(&self, block: BlockId) -> u32 {
        self.blocks[block.index()].link.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set_link(&self, block: BlockId, link: u32) {
        self.blocks[block.index()]
            .link
            .store(link, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn read_u8(&self, block: BlockId, at: usize) -> u8 {
        self.blocks[block.index()].bytes.read_u8(at)
    }

    #[inline]
    pub(crate) fn write_u8(&self, block: BlockId, at: usize, byte: u8) {
        self.blocks[block.index()].bytes.write_u8(at, byte);
    }

    /// Four bytes of a block from `at` on, a multiple of four, as a number.
    #[inline]
    pub(crate) fn read_u32(&self, block: BlockId, at: usize) -> u32 {
        self.blocks[block.index()].bytes.read_u32(at)
    }

    #[inline]
    pub(crate) fn write_u32(&self, block: BlockId, at: usize, number: u32) {
        self.blocks[block.index()].bytes.write_u32(at, number);
    }

    /// As [`Arena::read_u32`], for eight bytes.
    #[inline]
    pub(crate) fn read_u64(&self, block: BlockId, at: usize) -> u64 {
        let bytes = &self.blocks[block.index()].bytes;
        join(bytes.read_u32(at + 4), bytes.read_u32(at))
    }

    #[inline]
    pub(crate) fn write_u64(&self, block: BlockId, at: usize, number: u64) {
        let bytes = &self.blocks[block.index()].bytes;
        bytes.write_u32(at, low(number));
        bytes.write_u32(at + 4, high(number));
    }
}

#[cfg(not(tollgate_loom))]
#[path = "arena/bytes.rs"]
mod bytes;

#[cfg(not(tollgate_loom))]
mod blocks;

#[cfg(tollgate_loom)]
#[path = "arena/blocks_model.rs"]
mod blocks;

#[cfg(tollgate_loom)]
#[path = "arena/model.rs"]
mod bytes;

const fn join(high: u32, low: u32) -> u64 {
    wide(high) << 32 | wide(low)
}

#[expect(
    clippy::as_conversions,
    reason = "one half of a word of twice its width"
)]
const fn low(word: u64) -> u32 {
    word as u32
}

#[expect(
    clippy::as_conversions,
    reason = "one half of a word of twice its width"
)]
const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

#[expect(clippy::as_conversions, reason = "widening; `u64::from` is not const")]
const fn wide(half: u32) -> u64 {
    half as u64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn returned_blocks_are_allocated_again_and_never_twice() {
        let arena = Arena::with_blocks(3);
        let taken: Vec<_> = std::iter::from_fn(|| arena.take()).collect();
        assert_eq!(taken.len(), 3);
        arena.give(taken[1]);
        arena.give(taken[0]);
        assert_eq!(arena.in_use(), 1);
        assert_eq!(arena.take(), Some(taken[0]));
        assert_eq!(arena.take(), Some(taken[1]));
        assert_eq!(arena.take(), None);
    }
}
