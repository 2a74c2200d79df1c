//! The heap, which counts its bytes so that the interpreter can raise `MemoryError` (PY-23).

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::Ordering;

use monty_types::{BASELINE_MEMORY, LIVE_MEMORY};

/// The most bytes that the values of a program may take in a step.
pub const MEMORY_MAX: usize = 32 << 20;

/// The standard library's heap, with a count of the live bytes.
struct Counted;

#[global_allocator]
static HEAP: Counted = Counted;

fn add(bytes: usize) {
    LIVE_MEMORY.fetch_add(bytes, Ordering::Relaxed);
}

fn subtract(bytes: usize) {
    LIVE_MEMORY.fetch_sub(bytes, Ordering::Relaxed);
}

// Each call is passed on unchanged.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let pointer = unsafe { System.alloc(layout) };
        if !pointer.is_null() {
            add(layout.size());
        }
        pointer
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let pointer = unsafe { System.alloc_zeroed(layout) };
        if !pointer.is_null() {
            add(layout.size());
        }
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        subtract(layout.size());
        unsafe { System.dealloc(pointer, layout) };
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let moved = unsafe { System.realloc(pointer, layout, size) };
        if !moved.is_null() {
            add(size);
            subtract(layout.size());
        }
        moved
    }
}

/// From now on, the program's memory is all that is allocated in addition.
pub fn start_to_count() {
    BASELINE_MEMORY.store(LIVE_MEMORY.load(Ordering::Relaxed), Ordering::Relaxed);
}
