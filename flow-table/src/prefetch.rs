//! Cache hints: the one file of this crate with unsafe code.
#![expect(unsafe_code, reason = "the prefetch instruction takes a pointer")]

/// Asks for the cache line that holds `item`, ahead of its use.
#[inline]
pub(crate) fn prefetch<T>(item: Option<&T>) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if let Some(item) = item {
        // SAFETY: prefetching has no effect but on the cache, whatever the address; this one is a live reference.
        unsafe {
            core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(core::ptr::from_ref(item).cast())
        };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = item;
}
