//! The kernel of AOS a second time: what `kernel/aos/core` decides and folds, byte for byte.
//!
//! The modules have the names of their Python files. A rule changes in Python first; both cite its
//! number. This crate does no I/O and reads no clock: `wasm` is the border to the host.

pub mod collections;
pub mod decide;
pub mod deciding;
pub mod errors;
pub mod journal;
pub mod kernel;
pub mod limits;
pub mod manifest;
pub mod operations;
pub mod pending;
#[cfg(feature = "probe")]
pub mod probes;
mod reading;
mod redeciding;
pub mod snapshot;
pub mod state;
#[cfg(feature = "probe")]
mod state_probe;
pub mod values;
#[cfg(feature = "probe")]
mod values_probe;
#[cfg(target_arch = "wasm32")]
mod wasm;
