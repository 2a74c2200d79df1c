//! Values, their canonical bytes, their hashes and the errors about them (spec/values.md).

pub mod cbor;
pub mod codec;
pub mod containers;
pub mod digests;
pub mod errors;
pub mod expressions;
pub mod foreign;
pub mod hash_lanes;
pub mod hash_rewrite;
pub mod scalars;
pub mod schema;
pub mod sha256;
pub mod show;
pub mod spelling;
