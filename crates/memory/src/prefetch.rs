//! Fetching memory before it is read.

/// Fetches the cache line at this address, while what follows is executed.
#[cfg(all(target_arch = "x86_64", not(any(miri, tollgate_loom))))]
#[inline]
#[expect(unsafe_code, reason = "the only way to prefetch")]
pub(crate) fn prefetch<T>(line: *const T) {
    // SAFETY: a prefetch is a hint; it reads nothing that the program sees and faults on no
    // address.
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.cast()) }
}

#[cfg(not(all(target_arch = "x86_64", not(any(miri, tollgate_loom)))))]
#[inline]
pub(crate) fn prefetch<T>(_line: *const T) {}
