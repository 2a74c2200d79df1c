//! Flows of `#[flow]` next to the same flows as programs that request untyped operations
//! (`spec/flow.md`, FL-200 to FL-209): every turn of both has equal bytes.

#![cfg(feature = "untyped")]

#[allow(unused_attributes, dead_code)]
#[path = "../../../conformance/flow/src/lib.rs"]
mod programs;

mod interpreter;
mod operations;
mod protocol;
mod random;
mod script;
mod world;
