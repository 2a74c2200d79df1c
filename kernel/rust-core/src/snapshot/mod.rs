//! Snapshots of a state: written, checked and loaded (`kernel/aos/core/snapshot`; spec/state.md,
//! SN-1 to SN-23).

pub mod export;
pub mod load;
pub mod shape;
pub mod take;
