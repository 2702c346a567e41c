//! An allocator that counts, so that a test can assert that a hit packet allocates nothing.
#![expect(unsafe_code, reason = "an allocator is unsafe by its trait; every call goes to the system's")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting. A program that wants counts installs it: `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

/// Allocations and reallocations of this thread since it started; zero where [`Counting`] is not installed.
#[must_use]
pub fn count() -> u64 {
    COUNT.with(Cell::get)
}

fn note() {
    // A thread's last allocations may come after its counters are gone.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as the caller promised us.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as the caller promised us.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: as the caller promised us.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised us.
        unsafe { System.dealloc(block, layout) }
    }
}
