//! The manifest as far as the core reads it: the typed view of an effective document, and the names
//! of built-in definitions (spec/manifest.md). Judging a manifest is the host's.

pub mod builtins;
pub mod effective;
pub mod forms;
pub mod governance;
pub mod limits;
pub mod names;
