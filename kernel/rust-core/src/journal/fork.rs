//! The id of a fork: another world continues a journal (K-110 to K-116;
//! `kernel/aos/core/journal/fork.py`).

use crate::journal::identity::world_id;
use crate::journal::records::Fork;
use crate::values::digests::Hash;

/// The id of the world that begins here.
pub fn forked_world_id(record: &Fork) -> Hash {
    world_id(&record.nonce, &record.world_key)
}
