//! Whether a key may sign (spec/kernel.md, K-14 and K-51; `kernel/aos/core/journal/signing.py`).
//! Whether a signature is valid, the host says: `ports::Verify`.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use crate::collections::OrderedMap;
use crate::journal::ports::Verify;
use crate::manifest::effective::Executor;
use crate::manifest::governance::GovernanceBlock;
use crate::manifest::names::NODE;

use crate::values::errors::Outcome;

pub use crate::journal::frame::SIGNATURE_BYTES;

/// How many valid signatures are remembered: receipts of one batch, which share a signature, come one
/// after another.
const REMEMBERED_MAX: usize = 8;

/// Asks the host about each signature, but not again about one of the last that were valid: they stay
/// valid.
pub struct Remembering {
    verify: Rc<dyn Verify>,
    /// Message, signature and public key.
    valid: RefCell<VecDeque<[Box<[u8]>; 3]>>,
}

impl Remembering {
    pub fn new(verify: Rc<dyn Verify>) -> Remembering {
        Remembering { verify, valid: RefCell::default() }
    }
}

impl Verify for Remembering {
    fn verify(&self, message: &[u8], signature: &[u8], public_key: &[u8]) -> Outcome<bool> {
        let parts = [message, signature, public_key];
        let is_same = |valid: &[Box<[u8]>; 3]| valid.iter().zip(parts).all(|(a, b)| **a == *b);
        if self.valid.borrow().iter().any(is_same) {
            return Ok(true);
        }
        let is_valid = self.verify.verify(message, signature, public_key)?;
        if is_valid {
            let mut valid = self.valid.borrow_mut();
            valid.truncate(REMEMBERED_MAX - 1);
            valid.push_front(parts.map(Into::into));
        }
        Ok(is_valid)
    }
}

/// As a manifest lists them; None if it has no list: the world's own key signs for all.
pub type Executors<'a> = Option<&'a OrderedMap<Rc<str>, Rc<Executor>>>;

/// The keys that manifests of a world revoked: for good (K-106).
pub type Revoked = BTreeSet<Vec<u8>>;

/// Whether `executor` could sign for `effect` with this key when the intent was opened, and no later
/// manifest has revoked the key.
pub fn may_sign(
    opened_under: Executors,
    revoked: &Revoked,
    executor: &str,
    effect: &str,
    key_id: &[u8],
    world_key: &[u8],
) -> bool {
    let could = match opened_under {
        None => executor == NODE && key_id == world_key,
        Some(executors) => executors.get(executor).is_some_and(|signer| {
            // In a forked world the manifest names the parent's key for the node (K-114).
            let key = if executor == NODE { world_key } else { &signer.public_key };
            signer.effects.contains(effect) && key_id == key
        }),
    };
    could && !revoked.contains(key_id)
}

/// The keys that a manifest revokes.
pub fn revoked_by(executors: Executors<'_>) -> impl Iterator<Item = &[u8; 32]> {
    executors.into_iter().flat_map(OrderedMap::values).flat_map(|each| &each.revoked_keys)
}

/// The executor and key, if a manifest lists a key, current or retired, that was revoked.
pub fn back_from_revocation(
    executors: Executors,
    revoked: &Revoked,
) -> Option<(Rc<str>, [u8; 32])> {
    for executor in executors.into_iter().flat_map(OrderedMap::values) {
        for key in std::iter::once(&executor.public_key).chain(&executor.retired_keys) {
            if revoked.contains(key.as_slice()) {
                return Some((executor.name.clone(), *key));
            }
        }
    }
    None
}

/// Whether an executor has only one of the two: the world's own key and the name `node`.
pub fn is_misnamed(executor: &Executor, world_key: &[u8]) -> bool {
    (&*executor.name == NODE) != (executor.public_key == world_key)
}

/// The approver whose key has another owner, and that owner: the world, or an executor whose key an
/// earlier manifest revoked (GV-1).
pub fn approver_with_used_key<'a>(
    governance: Option<&'a GovernanceBlock>,
    revoked: &Revoked,
    world_key: &[u8],
) -> Option<(&'a str, &'static str)> {
    for approver in governance.iter().flat_map(|block| &block.approvers) {
        if approver.public_key == world_key {
            return Some((&approver.name, "the world's own key"));
        }
        if revoked.contains(approver.public_key.as_slice()) {
            return Some((&approver.name, "a key that an earlier manifest revoked"));
        }
    }
    None
}
