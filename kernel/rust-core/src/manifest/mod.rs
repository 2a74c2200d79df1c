//! The manifest as far as the core reads it: the typed view of an effective document, and the names
//! of built-in definitions (spec/manifest.md). Judging a manifest is the host's.

pub mod builtin_definitions;
pub mod builtins;
pub mod effective;
pub mod expressions;
pub mod forms;
pub mod governance;
pub mod keys;
pub mod limits;
pub mod names;
pub mod node;
pub mod placement;
pub mod secret_use;
pub mod shapes;
