//! Huge pages under large arrays: a random access then seldom waits for a page table.
#![expect(unsafe_code, reason = "madvise(2) takes an address")]

use std::{io, ops::Range};

/// The least page of x86-64 and arm64.
const PAGE_BYTES: usize = 4096;

/// Asks for huge pages under a range of addresses of this process, for what is touched from now on (`MADV_HUGEPAGE`).
/// Whole pages inside the range are meant; the range may be anything.
///
/// # Errors
/// The kernel's: `EINVAL` when it has no huge pages, `ENOMEM` when nothing lies there.
pub fn advise(range: &Range<usize>) -> io::Result<()> {
    let start = range.start.next_multiple_of(PAGE_BYTES);
    let Some(bytes) = range.end.checked_sub(start).map(|bytes| bytes / PAGE_BYTES * PAGE_BYTES) else {
        return Ok(());
    };
    let address = std::ptr::without_provenance_mut(start);
    // SAFETY: this advice changes which pages hold the bytes, never the bytes, wherever the range lies.
    if unsafe { libc::madvise(address, bytes, libc::MADV_HUGEPAGE) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
