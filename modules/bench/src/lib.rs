//! What the benchmarks measure: as little work of a module's own as can be.
//!
//! `count` adds up, `keep` keeps what it was told. `steps` asks for effects one after the other, any
//! number of runs in one cell at the same time; `line` does the same with one run at a time, the
//! others wait in its state.

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
