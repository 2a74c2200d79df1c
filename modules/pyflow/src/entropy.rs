//! The random bytes of a module without imports: the same ones in each step (PY-24).
//!
//! The interpreter seeds its hash maps with them and numbers the objects that cross to the host.
//! The latter must differ, so the bytes come from a counter. No program sees them.

use std::sync::atomic::{AtomicU64, Ordering};

static COUNTER: AtomicU64 = AtomicU64::new(0);

/// # Safety
/// `target` points to `length` bytes that are the caller's to write.
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(
    target: *mut u8,
    length: usize,
) -> Result<(), getrandom::Error> {
    for at in (0..length).step_by(8) {
        let bytes = next().to_le_bytes();
        let count = bytes.len().min(length - at);
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), target.add(at), count) };
    }
    Ok(())
}

/// SplitMix64.
fn next() -> u64 {
    let step = COUNTER.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    let mut mixed = step.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
