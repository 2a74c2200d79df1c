//! The guest's side of a call: where the kernel writes the input, how the guest returns the output,
//! and the heap.

use alloc::vec::Vec;

/// Run `step` over the input that the kernel wrote at `pointer`; the output as `ptr << 32 | len`.
///
/// The output is never freed: the instance ends with the call.
pub fn call(pointer: u32, length: u32, step: impl FnOnce(&[u8]) -> Vec<u8>) -> u64 {
    // The kernel asked `alloc` for `length` bytes, filled them and passes them on unchanged.
    let input =
        unsafe { core::slice::from_raw_parts(pointer as usize as *const u8, length as usize) };
    let output = step(input).leak();
    (output.as_ptr() as usize as u64) << 32 | output.len() as u64
}

/// As `call`, for the form `(ret, ptr, len)`: pointer and length as two little-endian u32 at `ret`.
///
/// # Safety
/// `ret` must be the address of eight bytes that are the caller's to write.
pub unsafe fn call_returning_at(
    ret: u32,
    pointer: u32,
    length: u32,
    step: impl FnOnce(&[u8]) -> Vec<u8>,
) {
    let packed = call(pointer, length, step);
    let pair = packed.rotate_left(32).to_le_bytes();
    unsafe { core::ptr::copy_nonoverlapping(pair.as_ptr(), ret as usize as *mut u8, pair.len()) };
}

/// How far the heap has grown, as an address; 0 outside of a module.
pub fn used() -> usize {
    #[cfg(target_arch = "wasm32")]
    return guest::used();
    #[cfg(not(target_arch = "wasm32"))]
    0
}

#[cfg(all(target_arch = "wasm32", not(feature = "std")))]
mod guest {
    use core::alloc::{GlobalAlloc, Layout};
    use core::arch::wasm32::{memory_grow, memory_size, unreachable};
    use core::cell::Cell;

    const PAGE: usize = 65_536;

    /// A heap that only grows: a step is short and its instance is thrown away, so freeing would be
    /// useless work. The latest allocation may grow in place, which is what a `Vec` being
    /// filled does.
    struct Bump {
        next: Cell<usize>,
    }

    // A guest has one thread; the sandbox offers no others.
    unsafe impl Sync for Bump {}

    #[global_allocator]
    static HEAP: Bump = Bump { next: Cell::new(0) };

    unsafe extern "C" {
        static __heap_base: u8;
    }

    impl Bump {
        fn next(&self) -> usize {
            match self.next.get() {
                // Placed by the linker behind the stack and the data.
                0 => core::ptr::addr_of!(__heap_base) as usize,
                next => next,
            }
        }

        /// Make everything below `end` usable. False when memory cannot grow that far.
        fn reach(&self, end: usize) -> bool {
            let have = memory_size(0) * PAGE;
            if end > have && memory_grow(0, (end - have).div_ceil(PAGE)) == usize::MAX {
                return false;
            }
            self.next.set(end);
            true
        }
    }

    unsafe impl GlobalAlloc for Bump {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            let Some(start) = self.next().checked_next_multiple_of(layout.align()) else {
                return core::ptr::null_mut();
            };
            match start.checked_add(layout.size()) {
                Some(end) if self.reach(end) => start as *mut u8,
                _ => core::ptr::null_mut(),
            }
        }

        unsafe fn dealloc(&self, _pointer: *mut u8, _layout: Layout) {}

        unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            let start = pointer as usize;
            if start + layout.size() == self.next() {
                return match start.checked_add(size) {
                    Some(end) if self.reach(end) => pointer,
                    _ => core::ptr::null_mut(),
                };
            }
            if size <= layout.size() {
                return pointer;
            }
            let fresh =
                unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
            if !fresh.is_null() {
                unsafe { core::ptr::copy_nonoverlapping(pointer, fresh, layout.size()) };
            }
            fresh
        }
    }

    pub fn used() -> usize {
        HEAP.next()
    }

    /// Set aside `length` bytes for the kernel to write the input into. Traps when memory cannot
    /// grow.
    #[unsafe(no_mangle)]
    extern "C" fn alloc(length: u32) -> u32 {
        match Layout::from_size_align(length as usize, 8) {
            Ok(layout) => match unsafe { HEAP.alloc(layout) } as usize as u32 {
                0 => unreachable(),
                pointer => pointer,
            },
            Err(_) => unreachable(),
        }
    }
}

/// With the standard library, the module has its heap.
#[cfg(all(target_arch = "wasm32", feature = "std"))]
mod guest {
    use alloc::vec::Vec;
    use core::arch::wasm32::memory_size;
    use core::mem::ManuallyDrop;

    pub fn used() -> usize {
        memory_size(0) * 65_536
    }

    /// Set aside `length` bytes for the kernel to write the input into. Traps when memory cannot
    /// grow.
    #[unsafe(no_mangle)]
    extern "C" fn alloc(length: u32) -> u32 {
        ManuallyDrop::new(Vec::<u64>::with_capacity(length.div_ceil(8) as usize)).as_ptr() as u32
    }
}
