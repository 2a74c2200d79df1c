//! The functions that the core needs from its host (`kernel/aos/core/journal/ports.py`).
//!
//! None of them may change the core. `Failure::Host` says that the host kept what its function
//! raised, and raises it when the operation of the core has returned.

use std::rc::Rc;

use crate::values::digests::Hash;
use crate::values::errors::Outcome;

/// The blobs of every frame that this core sealed or folded, durable or not.
pub trait Blobs {
    /// The blob with this content hash. It is Damage if it is missing or altered.
    fn read(&self, hash: &Hash) -> Outcome<Vec<u8>>;
}

/// A reader of blobs, which the layers of a state share.
pub type BlobReader = Rc<dyn Blobs>;

/// The records of submission ids that the state no longer holds.
pub trait Find {
    /// The record of a submission id; None if no event has it.
    fn find(&self, submission_id: &str) -> Outcome<Option<u64>>;
}

pub trait Verify {
    /// Whether `signature` is the key's over `message`. Any of the three may have any length.
    fn verify(&self, message: &[u8], signature: &[u8], public_key: &[u8]) -> Outcome<bool>;
}

/// A host for a state before its first frame.
pub struct Nothing;

impl Blobs for Nothing {
    fn read(&self, hash: &Hash) -> Outcome<Vec<u8>> {
        panic!("nothing was stored yet: {}", crate::values::digests::hex(hash))
    }
}

impl Find for Nothing {
    fn find(&self, _: &str) -> Outcome<Option<u64>> {
        Ok(None)
    }
}
