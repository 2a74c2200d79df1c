//! Deciding: the next record of a world, or the rule that an input breaks (`kernel/aos/core/decide`;
//! spec/kernel.md). Nothing here changes the state.

pub mod admit;
pub mod answers;
pub mod approved;
pub mod control;
pub mod dialect;
pub mod envelope;
pub mod fits;
pub mod governed;
pub mod left_behind;
pub mod manifest_problems;
pub mod migration;
pub mod owed;
pub mod quiescence;
pub mod routing;
pub mod settle;
pub mod step;
pub mod suggestion;
