//! The types of AIR that Rust has no type for.

mod date;
mod decimal;
mod hash;
mod map;
mod sealed;
mod set;
mod time;
mod uuid;

pub use date::Date;
pub use decimal::Decimal;
pub use hash::Hash;
pub use map::Map;
pub use sealed::Sealed;
pub use set::Set;
pub use time::{Duration, Time};
pub use uuid::Uuid;
