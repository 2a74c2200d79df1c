//! The state of a world and the fold that changes it (`kernel/aos/core/state`; spec/state.md).

pub mod cell;
pub mod cell_index;
pub mod cells;
pub mod continuation;
pub mod entry;
pub mod eras;
pub mod fold;
pub mod fold_governance;
pub mod index_node;
pub mod open_intents;
pub mod proposals;
pub mod spilling;
pub mod state;
pub mod submissions;
pub mod timer_order;
pub mod version;
pub mod work_item;
