//! What a guest needs so that the kernel can call it, and nothing else.
//!
//! A workflow is one pure function `fn(Input) -> Result<Output, Fault>`. `workflow!(name,
//! function)` exports it as an entrypoint of the form `(ptr, len) -> i64`, beside `memory` and
//! `alloc`. Every step runs in a fresh instance, so nothing in a `static` survives from one step to
//! the next.

#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod cbor;
pub mod envelope;
pub mod read;

pub use aos_sdk::memory;
pub use cbor::{decode, encode, Value};
pub use envelope::{Effect, Event, Fault, Input, Output, Status};

/// Export `$step`, a `fn(Input) -> Result<Output, Fault>`, as the entrypoint `$name`.
#[macro_export]
macro_rules! workflow {
    ($name:ident, $step:path) => {
        #[no_mangle]
        pub extern "C" fn $name(pointer: u32, length: u32) -> u64 {
            $crate::memory::call(pointer, length, |input| $crate::envelope::run(input, $step))
        }
    };
}
