//! The workflows of the benchmarks. They do as little work of their own as possible.
//!
//! `count` adds numbers, `keep` stores the last note. `steps` requests effects one after the other,
//! with any number of runs in one cell at the same time; `line` does the same with one run at a
//! time, and the other runs wait in its state.

#![no_std]

extern crate alloc;

mod counter;
mod keeper;
mod line;
mod run;
mod steps;

aos_abi::workflow!(count, counter::step);
aos_abi::workflow!(keep, keeper::step);
aos_abi::workflow!(steps, steps::step);
aos_abi::workflow!(line, line::step);
