//! `bench/counter@1` of `modules/bench`, alone in its module, so that its size can be compared.

#![no_std]

extern crate alloc;

#[path = "../../../bench/src/counter.rs"]
mod counter;

aos_abi::workflow!(count, counter::step);
