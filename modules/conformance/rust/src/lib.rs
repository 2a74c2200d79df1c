//! The conformance workflows in Rust. What each does is in `modules/conformance/README.md`, its
//! schemas are in `modules/conformance/air`, and a test compares those with the ones generated
//! here.

#![no_std]

mod cells;
mod context;
mod effects;
mod legacy;
mod system;
mod types;
