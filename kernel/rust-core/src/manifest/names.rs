//! Names of executors that no manifest defines (`kernel/aos/manifest/names.py`).

/// The executor name of the world's own key.
pub const NODE: &str = "node";
/// Used as the executor's name of effects that the core answers itself.
pub const KERNEL: &str = "kernel";
