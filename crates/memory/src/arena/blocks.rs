//! The memory of an arena: zeroed, aligned to cache lines, and mapped page by page as blocks are
//! used.

#![expect(
    unsafe_code,
    reason = "a vector has no choice of alignment, and safe Rust would touch every page"
)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::Deref;
use std::ptr::NonNull;

use super::{BLOCK_BYTES, Block};
use crate::large_pages::prefer_large_pages;

/// Not that of a cache line: for so large an alignment, allocators write the zeroes.
const ALLOCATED_ALIGN: usize = align_of::<Block>();
const _: () = assert!(size_of::<Block>() == BLOCK_BYTES);

/// A fixed number of blocks, each in one cache line.
#[derive(Debug)]
pub(super) struct Blocks {
    first: NonNull<Block>,
    count: usize,
    allocated: NonNull<u8>,
    layout: Layout,
}

// SAFETY: this owns its blocks like a box, and blocks are `Send` and `Sync`.
unsafe impl Send for Blocks {}

// SAFETY: as above; a reference to this only yields references to blocks.
unsafe impl Sync for Blocks {}

// === impl Blocks ===

impl Blocks {
    /// Allocates `count` blocks.
    pub(super) fn zeroed(count: usize) -> Blocks {
        // With room for a block more, so that they fit wherever the allocation begins.
        let bytes = (count + 1).checked_mul(BLOCK_BYTES);
        let layout = bytes.map(|bytes| Layout::from_size_align(bytes, ALLOCATED_ALIGN));
        let layout = layout.and_then(Result::ok);
        let layout = layout.expect("less than half of all addresses");
        // SAFETY: the layout is not empty.
        let allocated = unsafe { alloc_zeroed(layout) };
        let Some(allocated) = NonNull::new(allocated) else {
            handle_alloc_error(layout);
        };
        // SAFETY: less than a block is skipped, and `count` blocks follow.
        let first = unsafe { allocated.add(allocated.align_offset(BLOCK_BYTES)) };
        // SAFETY: these bytes were just allocated.
        unsafe { prefer_large_pages(first.as_ptr(), count * BLOCK_BYTES) };
        Blocks {
            first: first.cast(),
            count,
            allocated,
            layout,
        }
    }
}

impl Deref for Blocks {
    type Target = [Block];

    #[inline]
    fn deref(&self) -> &[Block] {
        // SAFETY: `count` blocks begin at `first`, aligned, within the allocation, which lives as
        // long as `self`. They are atomics of integers only, for which zeroes are valid.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; blocks need no dropping, and nobody borrows them.
        unsafe { dealloc(self.allocated.as_ptr(), self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_zeroed_and_in_one_cache_line() {
        for count in [0, 1, 7, 100_000] {
            let blocks = Blocks::zeroed(count);
            assert_eq!(blocks.len(), count);
            assert_eq!(blocks.as_ptr().align_offset(BLOCK_BYTES), 0);
            assert!(blocks.iter().all(|block| block.bytes.read_u32(0) == 0));
        }
    }
}
