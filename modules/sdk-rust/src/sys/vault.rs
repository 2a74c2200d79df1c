//! Values that become secrets: `sys/vault.*@1`, with `--executors vault`.

use alloc::string::String;

use crate::types::Hash;
use crate::{Effect, Schema};

/// Put the bytes of a blob as the value of a secret.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/vault.put@1", receipt = PutReceipt, executor = "node", params = "sys/VaultPutParams@1")]
pub struct Put {
    pub alias: String,
    pub binding_id: String,
    pub value_ref: Hash,
    pub expected_digest: Hash,
}

/// `sys/VaultPutReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/VaultPutReceipt@1")]
pub struct PutReceipt {
    pub alias: String,
    pub version: u64,
    pub binding_id: String,
    pub digest: Hash,
}

/// Record a new version of a secret.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/vault.rotate@1", receipt = RotateReceipt, executor = "node", params = "sys/VaultRotateParams@1")]
pub struct Rotate {
    pub alias: String,
    pub version: u64,
    pub binding_id: String,
    pub expected_digest: Hash,
}

/// `sys/VaultRotateReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/VaultRotateReceipt@1")]
pub struct RotateReceipt {
    pub alias: String,
    pub version: u64,
    pub binding_id: String,
    pub digest: Hash,
}
