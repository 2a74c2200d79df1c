//! Blobs: `sys/blob.put@1`, `sys/blob.get@1`. Bytes that are too large for a state are kept under
//! their hash.

use alloc::string::String;
use alloc::vec::Vec;

use crate::types::Hash;
use crate::{Effect, Schema};

#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/blob.put@1", receipt = Stored, executor = "node", params = "sys/BlobPutParams@1")]
pub struct Put {
    pub bytes: Vec<u8>,
    /// Refused unless it is the hash of the bytes.
    pub blob_ref: Option<Hash>,
    /// Other blobs that are kept as long as this one.
    pub refs: Option<Vec<Hash>>,
}

#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/BlobPutReceipt@1")]
pub struct Stored {
    pub blob_ref: Hash,
    pub edge_ref: Hash,
    pub size: u64,
}

#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/blob.get@1", receipt = Fetched, executor = "node", params = "sys/BlobGetParams@1")]
pub struct Get {
    pub blob_ref: Hash,
}

#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/BlobGetReceipt@1")]
pub struct Fetched {
    pub blob_ref: Hash,
    pub size: u64,
    pub bytes: Vec<u8>,
}

/// Keep these bytes.
pub fn put(bytes: impl Into<Vec<u8>>) -> Put {
    Put { bytes: bytes.into(), blob_ref: None, refs: None }
}

/// Bring the bytes of this hash.
pub fn get(blob_ref: Hash) -> Get {
    Get { blob_ref }
}

impl Put {
    /// Keep these blobs as long as this one.
    pub fn refs(self, refs: Vec<Hash>) -> Put {
        Put { refs: Some(refs), ..self }
    }
}

/// The answer to `put` where an event has no arm for [`Receipt`](crate::Receipt): an older form.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/BlobPutResult@1")]
pub struct BlobPutResult {
    pub intent_hash: Hash,
    pub workflow: String,
    pub effect: String,
    pub status: String,
    pub requested: Put,
    pub receipt: Stored,
    pub cost_cents: Option<u64>,
    pub signature: Vec<u8>,
}

/// The answer to `get` where an event has no arm for [`Receipt`](crate::Receipt): an older form.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/BlobGetResult@1")]
pub struct BlobGetResult {
    pub intent_hash: Hash,
    pub workflow: String,
    pub effect: String,
    pub status: String,
    pub requested: Get,
    pub receipt: Fetched,
    pub cost_cents: Option<u64>,
    pub signature: Vec<u8>,
}
