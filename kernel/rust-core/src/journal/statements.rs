//! Statements of executors about intents, and the bytes that they sign (J-40, K-51, K-90;
//! `kernel/aos/core/journal/statements.py`).

use crate::journal::merkle::root_from;
use crate::journal::records::Batch;
use crate::values::cbor::{put_array, put_bytes, put_map, put_nat, put_text};
use crate::values::digests::{digest, Hash};

/// How an intent of an effect ended, without its payload: some holders have the payload's bytes,
/// others a reference.
#[derive(Clone, Copy, Debug)]
pub struct Statement<'a> {
    pub intent: &'a Hash,
    pub effect: &'a str,
    pub attempt: u64,
    pub status: &'a str,
    pub started_ns: u64,
    pub finished_ns: u64,
    pub cost_cents: Option<u64>,
}

/// How far an open intent of an effect is: one stream frame, without its payload.
#[derive(Clone, Copy, Debug)]
pub struct StreamStatement<'a> {
    pub intent: &'a Hash,
    pub effect: &'a str,
    pub attempt: u64,
    pub frame_seq: u64,
    pub frame_kind: &'a str,
}

/// The signer: the name of an executor in the manifest, and the public key.
#[derive(Clone, Copy, Debug)]
pub struct Signer<'a> {
    pub executor: &'a str,
    pub key_id: &'a [u8],
}

fn put_name(out: &mut Vec<u8>, domain: &str) {
    put_array(out, 2);
    put_text(out, domain);
}

/// The bytes that an executor signs for a receipt alone, and the content of the receipt's leaf in a
/// batch. `payload` is the content hash of the payload.
pub fn receipt_message(
    world: &Hash,
    statement: &Statement,
    payload: &Hash,
    signer: Signer,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(384);
    put_name(&mut out, "aos/receipt/1");
    // The fields in canonical order: by length, then by bytes.
    put_map(&mut out, 10 + statement.cost_cents.is_some() as usize);
    put_text(&mut out, "world");
    put_bytes(&mut out, world);
    put_text(&mut out, "effect");
    put_text(&mut out, statement.effect);
    put_text(&mut out, "intent");
    put_bytes(&mut out, statement.intent);
    put_text(&mut out, "key_id");
    put_bytes(&mut out, signer.key_id);
    put_text(&mut out, "status");
    put_text(&mut out, statement.status);
    put_text(&mut out, "attempt");
    put_nat(&mut out, statement.attempt);
    put_text(&mut out, "payload");
    put_bytes(&mut out, payload);
    put_text(&mut out, "executor");
    put_text(&mut out, signer.executor);
    if let Some(cost_cents) = statement.cost_cents {
        put_text(&mut out, "cost_cents");
        put_nat(&mut out, cost_cents);
    }
    put_text(&mut out, "started_ns");
    put_nat(&mut out, statement.started_ns);
    put_text(&mut out, "finished_ns");
    put_nat(&mut out, statement.finished_ns);
    out
}

/// Receipts under one signature.
pub const BATCH_MAX: u64 = 65_536;

/// `BATCH_MAX.bit_length()` of the reference.
const PATH_MAX: usize = 17;

/// The leaf of a receipt in the tree of its batch (J-40).
pub fn receipt_leaf(message: &[u8]) -> Hash {
    digest("aos/receipt-leaf/1", 1, |out| put_bytes(out, message))
}

/// The bytes under the one signature of a batch of `size` receipts.
pub fn batch_message(world: &Hash, signer: Signer, root: &Hash, size: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    put_name(&mut out, "aos/receipts/1");
    put_map(&mut out, 5);
    put_text(&mut out, "root");
    put_bytes(&mut out, root);
    put_text(&mut out, "size");
    put_nat(&mut out, size);
    put_text(&mut out, "world");
    put_bytes(&mut out, world);
    put_text(&mut out, "key_id");
    put_bytes(&mut out, signer.key_id);
    put_text(&mut out, "executor");
    put_text(&mut out, signer.executor);
    out
}

/// The bytes under a receipt's signature: `receipt_message` or, with a batch, `batch_message`. None
/// if the path of the batch leads to no root.
///
/// Admission calls this for receipts of others, so the batch may be anything.
pub fn signed_receipt_message(
    world: &Hash,
    statement: &Statement,
    payload: &Hash,
    signer: Signer,
    batch: Option<&Batch>,
) -> Option<Vec<u8>> {
    let message = receipt_message(world, statement, payload, signer);
    let Some(batch) = batch else { return Some(message) };
    // A path has at most as many hashes as a size has bits, or it is none.
    if batch.size > BATCH_MAX || batch.path.len() > PATH_MAX {
        return None;
    }
    let root = root_from(&receipt_leaf(&message), batch.index, batch.size, &batch.path)?;
    Some(batch_message(world, signer, &root, batch.size))
}

/// The bytes under a stream frame's signature. `payload` is the content hash of the payload,
/// `payload_ref` that of the blob that the frame names.
pub fn stream_message(
    world: &Hash,
    statement: &StreamStatement,
    payload: &Hash,
    payload_ref: Option<&Hash>,
    signer: Signer,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(384);
    put_name(&mut out, "aos/stream/1");
    put_map(&mut out, 9 + payload_ref.is_some() as usize);
    put_text(&mut out, "world");
    put_bytes(&mut out, world);
    put_text(&mut out, "effect");
    put_text(&mut out, statement.effect);
    put_text(&mut out, "intent");
    put_bytes(&mut out, statement.intent);
    put_text(&mut out, "key_id");
    put_bytes(&mut out, signer.key_id);
    put_text(&mut out, "attempt");
    put_nat(&mut out, statement.attempt);
    put_text(&mut out, "payload");
    put_bytes(&mut out, payload);
    put_text(&mut out, "executor");
    put_text(&mut out, signer.executor);
    put_text(&mut out, "frame_seq");
    put_nat(&mut out, statement.frame_seq);
    put_text(&mut out, "frame_kind");
    put_text(&mut out, statement.frame_kind);
    if let Some(payload_ref) = payload_ref {
        put_text(&mut out, "payload_ref");
        put_bytes(&mut out, payload_ref);
    }
    out
}
