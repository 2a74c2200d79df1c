//! Workflows without the SDK: the part of the ABI that `puppet`, `bench` and the hand-written
//! modules of `bench-sdk` share. For a module of your own, use `sdk-rust`.
//!
//! A workflow is one pure function `fn(Input) -> Result<Output, Fault>`. `workflow!(name,
//! function)` exports it as an entrypoint of the form `(ptr, len) -> i64`, together with `memory`
//! and `alloc`. Every step runs in a fresh instance, so a `static` keeps nothing from one step to
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
