//! The journal: its records and their bytes, frames, inputs and what is signed (spec/journal.md).

pub mod faults;
pub mod ports;
pub mod records;
pub mod vocabulary;
