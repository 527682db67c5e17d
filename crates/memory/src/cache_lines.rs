//! The memory of the table: zeroed, touched when allocated, in large pages where the system has
//! them.
//!
//! Decisions on a million keys access memory at random. With pages of 4 KiB most of these accesses
//! miss the processor's TLB, and the page tables are out of its cache as well.

#![expect(unsafe_code, reason = "a vector has no choice of alignment")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::Deref;
use std::ptr::NonNull;

use crate::cache_line::CacheLine;
use crate::large_pages::{LARGE_PAGE, prefer_large_pages};

/// A fixed number of lines.
#[derive(Debug)]
pub(crate) struct CacheLines {
    first: NonNull<CacheLine>,
    count: usize,
}

// SAFETY: this owns its lines like a box, and lines are `Send` and `Sync`.
unsafe impl Send for CacheLines {}

// SAFETY: as above; a reference to this only yields references to lines.
unsafe impl Sync for CacheLines {}

// === impl CacheLines ===

impl CacheLines {
    /// Allocates `count` empty lines; at least one.
    pub(crate) fn zeroed(count: usize) -> CacheLines {
        let layout = CacheLines::layout(count);
        // SAFETY: the layout is not empty.
        let bytes = unsafe { alloc(layout) };
        let Some(first) = NonNull::new(bytes.cast::<CacheLine>()) else {
            handle_alloc_error(layout);
        };
        // SAFETY: these bytes were just allocated.
        unsafe { prefer_large_pages(bytes, layout.size()) };
        // SAFETY: the bytes were allocated with this size. Zeroes are valid lines: every slot is
        // two integers.
        unsafe { bytes.write_bytes(0, layout.size()) };
        CacheLines { first, count }
    }

    fn layout(count: usize) -> Layout {
        assert!(count > 0, "a table has lines");
        let lines = Layout::array::<CacheLine>(count).expect("less than half of all addresses");
        match lines.size() >= LARGE_PAGE {
            true => lines.align_to(LARGE_PAGE).expect("a power of two"),
            false => lines,
        }
    }
}

impl Deref for CacheLines {
    type Target = [CacheLine];

    #[inline]
    fn deref(&self) -> &[CacheLine] {
        // SAFETY: `count` lines begin at `first`, valid since `zeroed`, and live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

impl Drop for CacheLines {
    fn drop(&mut self) {
        // SAFETY: allocated with the same layout; lines need no dropping, and nobody borrows them.
        unsafe { dealloc(self.first.as_ptr().cast(), CacheLines::layout(self.count)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::SlotValue;

    #[test]
    fn all_lines_are_allocated_and_empty() {
        for count in [1, 7, LARGE_PAGE / size_of::<CacheLine>() + 3] {
            let lines = CacheLines::zeroed(count);
            assert_eq!(lines.len(), count);
            let mut slots = lines.iter().flat_map(|line| &line.slots);
            assert!(slots.all(|slot| slot.load() == SlotValue::default()));
        }
    }
}
