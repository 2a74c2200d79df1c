//! `bench/steps@1` of `modules/bench`, alone in its module, so that its size can be compared.

#![no_std]

extern crate alloc;

// Only `bench/line@1` uses some of its functions.
#[allow(dead_code)]
#[path = "../../../bench/src/run.rs"]
mod run;
#[path = "../../../bench/src/steps.rs"]
mod steps;

aos_abi::workflow!(steps, steps::step);
