//! Large pages, where the system has them: memory that is accessed at random needs them, since with
//! pages of 4 KiB most accesses miss the processor's TLB.

/// Bytes of a large page on x86-64 and ARM.
pub(crate) const LARGE_PAGE: usize = 2 << 20;

/// Asks for large pages in place of the small ones, for those of the bytes that are whole large
/// pages. Only a hint: without large pages the system uses small ones.
///
/// # Safety
///
/// The caller has allocated so many `bytes` from `first` on.
#[cfg(all(target_os = "linux", not(miri)))]
#[expect(unsafe_code, reason = "an allocator has no choice of pages")]
pub(crate) unsafe fn prefer_large_pages(first: *mut u8, bytes: usize) {
    let skipped = first.align_offset(LARGE_PAGE);
    let whole = bytes.saturating_sub(skipped) / LARGE_PAGE * LARGE_PAGE;
    if whole > 0 {
        // SAFETY: the range is within the bytes that were allocated, and begins at a large page;
        // the advice changes how its pages are backed, not what they hold.
        unsafe { libc::madvise(first.add(skipped).cast(), whole, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
#[expect(unsafe_code, reason = "as the other one")]
pub(crate) const unsafe fn prefer_large_pages(_first: *mut u8, _bytes: usize) {}
