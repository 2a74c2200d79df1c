//! Ids and digests: worlds, intents, idempotency keys, submissions, events, entropy (spec/kernel.md,
//! K-10 and K-20 to K-24; `kernel/aos/core/journal/identity.py`).

use crate::journal::records::{CellId, RequestKey, Stamp, ENTROPY_BYTES};
use crate::manifest::effective::IdempotencyScope;
use crate::values::cbor::{put_array, put_bytes, put_nat, put_null, put_text};
use crate::values::digests::{derive, digest, hash_text, Hash};

/// The place and the content of an effect that a step asks for, which identify its intent.
#[derive(Clone, Copy)]
pub struct IntentParts<'a> {
    pub world: &'a Hash,
    pub cell: &'a CellId,
    pub workflow_hash: &'a Hash,
    pub seq: u64,
    pub index: u64,
    pub effect: &'a str,
    pub effect_hash: &'a Hash,
    pub params_hash: &'a Hash,
    pub key: Option<&'a RequestKey>,
}

/// Hash the requester (world, workflow, key), the place (step, index) and the effect.
pub fn intent_hash(parts: &IntentParts) -> Hash {
    digest("aos/intent/1", 10, |out| {
        put_bytes(out, parts.world);
        put_text(out, &parts.cell.workflow);
        put_bytes(out, parts.workflow_hash);
        put_bytes(out, &parts.cell.key);
        put_nat(out, parts.seq);
        put_nat(out, parts.index);
        put_text(out, parts.effect);
        put_bytes(out, parts.effect_hash);
        put_bytes(out, parts.params_hash);
        put_request_key(out, parts.key);
    })
}

fn put_request_key(out: &mut Vec<u8>, key: Option<&RequestKey>) {
    match key {
        None => put_null(out),
        Some(RequestKey::Text(text)) => put_text(out, text),
        Some(RequestKey::Bytes(data)) => put_bytes(out, data),
    }
}

/// The key by which an executor runs an effect once, if the module requested one.
pub fn idempotency_key(
    world: &Hash,
    cell: &CellId,
    effect: &str,
    key: &RequestKey,
    scope: IdempotencyScope,
) -> String {
    let hash = digest("aos/idempotency/1", 5, |out| {
        put_bytes(out, world);
        match scope {
            IdempotencyScope::Cell => {
                put_text(out, &cell.workflow);
                put_bytes(out, &cell.key);
            }
            IdempotencyScope::World => {
                put_null(out);
                put_null(out);
            }
        }
        put_text(out, effect);
        put_request_key(out, Some(key));
    });
    hash_text(&hash)
}

/// Hash a submission; two under one id are the same if these hashes are equal.
pub fn submission_hash(schema: &str, value: &Hash) -> Hash {
    digest("aos/submission/1", 2, |out| {
        put_text(out, schema);
        put_bytes(out, value);
    })
}

pub fn event_hash(schema: &str, value: &[u8]) -> Hash {
    digest("aos/event/1", 2, |out| {
        put_text(out, schema);
        put_bytes(out, value);
    })
}

/// 64 bytes that differ for every delivery and never change again. Public, never a secret.
pub fn step_entropy(stamp: &Stamp, cell: &CellId, seq: u64) -> Vec<u8> {
    let mut material = Vec::with_capacity(160);
    put_array(&mut material, 4);
    put_bytes(&mut material, &stamp.entropy);
    put_text(&mut material, &cell.workflow);
    put_bytes(&mut material, &cell.key);
    put_nat(&mut material, seq);
    derive("aos/entropy/1", &material, ENTROPY_BYTES)
}

pub fn world_id(nonce: &[u8], world_key: &[u8]) -> Hash {
    digest("aos/world/1", 2, |out| {
        put_bytes(out, nonce);
        put_bytes(out, world_key);
    })
}
