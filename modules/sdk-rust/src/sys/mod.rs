//! The schemas and effects of the kernel itself (`sys/…`).

use alloc::string::String;
use alloc::vec::Vec;

use crate::Schema;
use crate::types::Hash;

pub mod blob;
pub mod cron;
pub mod effect;
pub mod host;
pub mod http;
pub mod introspect;
pub mod llm;
pub mod portal;
pub mod timer;
pub mod vault;
pub mod workspace;
pub mod world;

pub(crate) const ERROR: &str = "sys/EffectError@1";

/// The answer to an effect: `sys/EffectReceiptEnvelope@1`. An arm of the event of every workflow
/// that starts effects.
///
/// [`Pending::settle`](crate::Pending::settle) says whose answer it is and reads it.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/EffectReceiptEnvelope@1")]
pub struct Receipt {
    pub origin_module_id: String,
    pub origin_workflow_hash: Option<Hash>,
    pub origin_instance_key: Option<Vec<u8>>,
    pub intent_id: Hash,
    pub effect: String,
    pub effect_hash: Option<Hash>,
    pub executor_module: Option<String>,
    pub executor_module_hash: Option<Hash>,
    pub executor_entrypoint: Option<String>,
    pub params_hash: Option<Hash>,
    pub issuer_ref: Option<String>,
    /// Canonical CBOR, of the schema that `payload_schema` names.
    pub receipt_payload: Vec<u8>,
    /// `ok`, `error`, `timeout` or `canceled`.
    pub status: String,
    pub emitted_at_seq: u64,
    pub cost_cents: Option<u64>,
    pub signature: Vec<u8>,
    pub payload_schema: Option<String>,
}

/// An executor's answer that fits no schema: `sys/EffectReceiptRejected@1`. Without an arm for it
/// such an answer fails the instance.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/EffectReceiptRejected@1")]
pub struct Rejected {
    pub origin_module_id: String,
    pub origin_workflow_hash: Option<Hash>,
    pub origin_instance_key: Option<Vec<u8>>,
    pub intent_id: Hash,
    pub effect: String,
    pub effect_hash: Option<Hash>,
    pub executor_module: Option<String>,
    pub executor_module_hash: Option<Hash>,
    pub executor_entrypoint: Option<String>,
    pub params_hash: Option<Hash>,
    pub issuer_ref: Option<String>,
    pub status: String,
    pub error_code: String,
    pub error_message: String,
    pub payload_hash: Hash,
    pub payload_size: u64,
    pub emitted_at_seq: u64,
}

/// Progress of an effect that is still open: `sys/EffectStreamFrame@1`. Without an arm for it, the
/// workflow gets no progress.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/EffectStreamFrame@1")]
pub struct StreamFrame {
    pub origin_module_id: String,
    pub origin_workflow_hash: Option<Hash>,
    pub origin_instance_key: Option<Vec<u8>>,
    pub intent_id: Hash,
    pub effect: String,
    pub effect_hash: Option<Hash>,
    pub executor_module: Option<String>,
    pub executor_module_hash: Option<Hash>,
    pub executor_entrypoint: Option<String>,
    pub params_hash: Option<Hash>,
    pub issuer_ref: Option<String>,
    pub emitted_at_seq: u64,
    /// Ascends within one effect; there may be gaps.
    pub seq: u64,
    pub kind: String,
    /// As the executor sent it: no schema holds for it.
    pub payload: Vec<u8>,
    pub payload_ref: Option<Hash>,
    pub signature: Vec<u8>,
}

/// The error of an effect: `sys/EffectError@1`.
#[derive(Schema, Clone, Debug, PartialEq, Eq)]
#[schema("sys/EffectError@1")]
pub struct EffectError {
    /// One word that programs read.
    pub code: String,
    /// One sentence that people read.
    pub message: String,
    /// Whether the executor expects that a retry can succeed.
    pub retryable: bool,
}

/// Names a secret of the manifest. A module never gets its value.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/SecretRef@1")]
pub struct SecretRef {
    pub alias: String,
    pub version: u64,
}

/// Text, or a secret that the node puts there: `sys/TextOrSecretRef@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/TextOrSecretRef@1")]
pub enum TextOrSecretRef {
    #[schema(rename = "literal")]
    Literal(String),
    #[schema(rename = "secret")]
    Secret(SecretRef),
}
