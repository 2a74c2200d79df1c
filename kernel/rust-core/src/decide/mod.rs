//! Deciding: the next record of a world, or the rule that an input breaks (`kernel/aos/core/decide`;
//! spec/kernel.md). Nothing here changes the state.

pub mod answers;
pub mod dialect;
pub mod envelope;
pub mod fits;
pub mod left_behind;
pub mod owed;
pub mod routing;
pub mod settle;
pub mod step;
