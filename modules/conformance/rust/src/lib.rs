//! The conformance workflows in Rust. `modules/conformance/README.md` describes each of them. Their
//! schemas are in `modules/conformance/air`; a test compares these with the ones that are generated
//! here.

#![no_std]

mod cells;
mod context;
mod effects;
mod legacy;
mod system;
mod types;
