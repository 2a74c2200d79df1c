//! Values, their canonical bytes, their hashes and the errors about them (spec/values.md).

pub mod cbor;
pub mod digests;
pub mod errors;
pub mod schema;
pub mod show;
