//! Names of executors that no manifest defines (`kernel/aos/manifest/names.py`).

/// The executor name of the world's own key.
pub const NODE: &str = "node";
