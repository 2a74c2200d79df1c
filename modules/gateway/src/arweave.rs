//! The three effects of `aos_gateway.arweave` (`spec/arweave.md`). Any workflow can use them.

use aos_sdk::prelude::*;
use aos_sdk::SecretRef;

/// Ask for the price of an upload, and for what the wallet has.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("arweave/quote@1", receipt = Priced, executor = "arweave", timeout_ms = 30000)]
pub struct Price {
    pub keys: SecretRef,
    /// The gateway's name in `AOS_ARWEAVE`.
    pub gateway: String,
    /// Size of the content, in bytes.
    pub bytes: u64,
}

#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("arweave/QuoteReceipt@1")]
pub struct Priced {
    pub anchor: String,
    /// Winston for a bundle with content of this size.
    pub reward: Decimal,
    /// Winston that the wallet has.
    pub balance: Decimal,
    pub height: u64,
}

/// Sign and post one fully specified bundle with one item. Repeating it is harmless.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("arweave/upload@1", receipt = Uploaded, executor = "arweave", timeout_ms = 120000)]
pub struct Upload {
    pub keys: SecretRef,
    pub gateway: String,
    /// The content: a blob of the world.
    pub data: Hash,
    pub content_type: String,
    pub tags: Vec<Tag>,
    pub anchor: String,
    pub reward: Decimal,
}

#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("arweave/Tag@1")]
pub struct Tag {
    pub name: String,
    pub value: String,
}

#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("arweave/UploadReceipt@1")]
pub struct Uploaded {
    /// The item's id (base64url): the same for every bundle that holds it. None with `NoKey`.
    pub item: Option<String>,
    /// The id of the bundle's transaction.
    pub bundle: Option<String>,
    pub fate: UploadFate,
    /// The HTTP status.
    pub code: Option<u64>,
    pub message: String,
}

#[derive(Schema, Clone, Copy, Debug, PartialEq)]
#[schema("arweave/UploadFate@1")]
pub enum UploadFate {
    Posted,
    Known,
    NoFunds,
    /// The gateway calls the bundle invalid.
    Rejected,
    /// The answer was lost, or has no meaning: it may have been posted.
    Unknown,
    /// The secret has no usable key: nothing was sent.
    NoKey,
}

/// Wait until a bundle is in the chain, then read the item's content back.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("arweave/status@1", receipt = UploadStatus, executor = "arweave", timeout_ms = 60000)]
pub struct AwaitStatus {
    pub gateway: String,
    pub item: String,
    pub bundle: String,
    /// Confirmations of a final state, at least 1.
    pub conf: u64,
    /// How long to wait for it, in milliseconds.
    pub wait_ms: u64,
}

#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("arweave/StatusReceipt@1")]
pub struct UploadStatus {
    pub fate: UploadState,
}

#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("arweave/UploadState@1")]
pub enum UploadState {
    /// `content`: the hash of the bytes that the gateway returned for the item.
    Confirmed {
        depth: u64,
        content: Hash,
    },
    Pending {
        depth: u64,
    },
    NotFound,
    /// The chain or the gateway has dropped the bundle as invalid.
    Rejected,
}
