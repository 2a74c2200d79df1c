//! The functions that the core needs from its host (`kernel/aos/core/journal/ports.py`).
//!
//! None of them may change the core. `Failure::Host` says that the host kept what its function
//! raised, and raises it when the operation of the core has returned.

use std::rc::Rc;

use crate::journal::faults::Fault;
use crate::values::digests::Hash;
use crate::values::errors::Outcome;

/// The blobs of every frame that this core sealed or folded, durable or not.
pub trait Blobs {
    /// The blob with this content hash. It is Damage if it is missing or altered.
    fn read(&self, hash: &Hash) -> Outcome<Vec<u8>>;
}

/// A host that takes blobs as the core makes them, so that they need not be in memory together.
pub trait Sink {
    fn put(&self, data: &[u8]) -> Outcome<()>;
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

/// The functions that the reference computes for this core from the bytes of manifests. They read
/// no state.
pub trait Judge {
    /// The problem of a document from outside, which may break any rule of manifests; None if it is
    /// a manifest.
    fn problem(&self, document: &[u8]) -> Outcome<Option<String>>;

    /// The problem of a document that the journal of another world has; None if it is a manifest.
    fn recorded_problem(&self, document: &[u8]) -> Outcome<Option<String>>;

    /// The problem of a patch that must lead from one document to another; None if it does.
    fn patch_problem(&self, base: &[u8], patch: &[u8], next: &[u8]) -> Outcome<Option<String>>;
}

/// One run of a module's entrypoint on a fresh instance, which the host is asked to make. Limits are
/// bytes and fuel units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub module: Hash,
    pub entrypoint: Rc<str>,
    pub input: Vec<u8>,
    pub fuel: u64,
    pub memory_bytes: u64,
    pub output_bytes: u64,
}

/// How a run ended: with the output or the fault. `fuel` is what was consumed, `pages` the peak of
/// 64 KiB memory pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    pub result: Result<Vec<u8>, Fault>,
    pub fuel: u64,
    pub pages: u64,
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
