//! The id of a fork: another world continues a journal (K-110 to K-116;
//! `kernel/aos/core/journal/fork.py`).

use crate::journal::identity::world_id;
use crate::journal::inputs::fork_message;
use crate::journal::ports::Verify;
use crate::journal::records::Fork;
use crate::values::digests::Hash;
use crate::values::errors::Outcome;

/// The id of the world that begins here.
pub fn forked_world_id(record: &Fork) -> Hash {
    world_id(&record.nonce, &record.world_key)
}

/// Whether the key of the world that begins here signed it.
pub fn is_fork_signed(record: &Fork, verify: &dyn Verify) -> Outcome<bool> {
    verify.verify(&fork_message(record), &record.signature, &record.world_key)
}
