//! The memory of the table: zeroed, touched when it is taken, in large pages where there are some.
//!
//! A decision on one of a million keys looks at a random place. With pages of 4 KiB the processor
//! has to look up where most of these places are, in tables that are out of its cache as well.

#![expect(unsafe_code, reason = "a vector could not be told where to begin")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::Deref;
use std::ptr::NonNull;

use crate::line::Line;

/// Bytes of a large page, on the processors that this is for.
const LARGE_PAGE: usize = 2 << 20;

/// A fixed number of lines.
#[derive(Debug)]
pub(crate) struct Lines {
    first: NonNull<Line>,
    count: usize,
}

// SAFETY: this owns its lines as a box would, and lines may be shared and sent.
unsafe impl Send for Lines {}

// SAFETY: as above; all that a reference gives is references to lines.
unsafe impl Sync for Lines {}

// === impl Lines ===

impl Lines {
    /// `count` lines that nobody owns; at least one.
    pub(crate) fn zeroed(count: usize) -> Lines {
        let layout = Lines::layout(count);
        // SAFETY: the layout is not empty.
        let bytes = unsafe { alloc(layout) };
        let Some(first) = NonNull::new(bytes.cast::<Line>()) else {
            handle_alloc_error(layout);
        };
        prefer_large_pages(bytes, layout.size());
        // SAFETY: the bytes were allocated with this size. Zeroes are valid lines: every slot is
        // two integers.
        unsafe { bytes.write_bytes(0, layout.size()) };
        Lines { first, count }
    }

    fn layout(count: usize) -> Layout {
        assert!(count > 0, "a table has lines");
        let lines = Layout::array::<Line>(count).expect("less than half of all addresses");
        match lines.size() >= LARGE_PAGE {
            true => lines.align_to(LARGE_PAGE).expect("a power of two"),
            false => lines,
        }
    }
}

impl Deref for Lines {
    type Target = [Line];

    #[inline]
    fn deref(&self) -> &[Line] {
        // SAFETY: so many lines begin there, valid since `zeroed`, and live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // SAFETY: allocated with the same layout; lines need no dropping, and nobody borrows them.
        unsafe { dealloc(self.first.as_ptr().cast(), Lines::layout(self.count)) }
    }
}

/// Asks for large pages in place of all small ones that lie wholly inside. A wish: a system that
/// has none, or says no, takes small ones.
#[cfg(all(target_os = "linux", not(miri)))]
fn prefer_large_pages(first: *mut u8, bytes: usize) {
    let whole = bytes / LARGE_PAGE * LARGE_PAGE;
    if whole > 0 {
        // SAFETY: the range was just allocated and begins at a large page; the advice changes how
        // its pages are backed, not what they hold.
        unsafe { libc::madvise(first.cast(), whole, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
const fn prefer_large_pages(_first: *mut u8, _bytes: usize) {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::Seen;

    #[test]
    fn all_lines_are_there_and_nobodys() {
        for count in [1, 7, LARGE_PAGE / size_of::<Line>() + 3] {
            let lines = Lines::zeroed(count);
            assert_eq!(lines.len(), count);
            let mut slots = lines.iter().flat_map(|line| &line.slots);
            assert!(slots.all(|slot| slot.load() == Seen::default()));
        }
    }
}
