//! The journal: its records and their bytes, frames, inputs and signed messages (spec/journal.md).

pub mod faults;
pub mod fork;
pub mod frame;
pub mod governing;
pub mod identity;
pub mod input_fields;
pub mod inputs;
pub mod journal_clock;
pub mod merkle;
pub mod ports;
pub mod record_codec;
pub mod records;
pub mod shadow_report;
pub mod signing;
pub mod statements;
pub mod vocabulary;
