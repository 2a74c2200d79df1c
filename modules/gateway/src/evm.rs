//! The four effects of `aos_gateway.evm` (`spec/evm.md`). Any workflow can use them.
//!
//! Addresses and hashes are text: `0x` and lower-case hex. Wei are whole decimals, fees per unit of
//! gas are in wei.

use aos_sdk::prelude::*;
use aos_sdk::SecretRef;

/// Which block a read is about.
#[derive(Schema, Clone, Copy, Debug, PartialEq)]
#[schema("evm/BlockAt@1")]
pub enum BlockAt {
    /// The newest block that has this many confirmations, itself included: 1 is the head.
    Depth(u64),
    Number(u64),
    Finalized,
}

/// Call a view of a contract: nothing is sent.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("evm/call@1", receipt = Called, executor = "evm", timeout_ms = 20000)]
pub struct Call {
    pub chain: u64,
    pub to: String,
    pub data: Vec<u8>,
    pub block: BlockAt,
}

#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("evm/CallReceipt@1")]
pub struct Called {
    /// The block that answered.
    pub block: u64,
    pub block_hash: String,
    pub result: CallResult,
}

#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("evm/CallResult@1")]
pub enum CallResult {
    Returned(Vec<u8>),
    Reverted(Cause),
}

/// Why a call reverted, from the revert's data and never from a node's words.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("evm/Cause@1")]
pub struct Cause {
    pub kind: CauseKind,
    /// `Error`: its text, cut at 1,024 bytes. `Panic`: its code as hex. Otherwise empty.
    pub text: String,
    /// The revert's data, cut at 4,096 bytes.
    pub data: Vec<u8>,
}

#[derive(Schema, Clone, Copy, Debug, PartialEq)]
#[schema("evm/CauseKind@1")]
pub enum CauseKind {
    /// `revert("text")` or a failed `require`.
    Error,
    Panic,
    /// A custom error: the first four bytes of the data are its selector.
    Custom,
    /// No data.
    Empty,
}

/// A view that tells whether the work of a transaction is done already.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("evm/Guard@1")]
pub struct Guard {
    pub to: String,
    pub data: Vec<u8>,
    /// The view's answer while the work is not done.
    pub undone: Vec<u8>,
}

/// Ask for everything that fixes the signer's next transaction: nonce, gas and fees.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("evm/tx.quote@1", receipt = Quoted, executor = "evm", timeout_ms = 30000)]
pub struct Quote {
    pub chain: u64,
    pub signer: String,
    pub to: String,
    pub data: Vec<u8>,
    pub value: Decimal,
    /// Confirmations that the nonce and the guard are read at; 0: the finalized block.
    pub conf: u64,
    pub guard: Option<Guard>,
}

#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("evm/TxQuoteReceipt@1")]
pub struct Quoted {
    /// The block that nonce and guard were read at.
    pub block: u64,
    pub quote: QuoteResult,
}

#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("evm/QuoteResult@1")]
pub enum QuoteResult {
    Ready {
        nonce: u64,
        gas: u64,
        base_fee: u64,
        tip: u64,
    },
    /// The guard's view did not answer `undone`.
    Done {
        returned: Vec<u8>,
    },
    /// The transaction would revert. `at_depth`: also at the block of nonce and guard.
    Reverted {
        cause: Cause,
        at_depth: bool,
    },
    NoFunds {
        balance: Decimal,
        needed: Decimal,
    },
}

/// Sign and publish one fully specified transaction. Repeating it is harmless.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("evm/tx.submit@1", receipt = Submitted, executor = "evm", timeout_ms = 60000)]
pub struct Submit {
    pub keys: SecretRef,
    pub chain: u64,
    pub signer: String,
    pub nonce: u64,
    pub to: String,
    pub data: Vec<u8>,
    pub value: Decimal,
    pub gas: u64,
    pub max_fee: u64,
    pub max_tip: u64,
}

#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("evm/TxSubmitReceipt@1")]
pub struct Submitted {
    /// The transaction's hash, known before it is sent. None with `NoKey`.
    pub hash: Option<String>,
    pub fate: SubmitFate,
    /// The node's JSON-RPC error code.
    pub code: Option<i64>,
    pub message: String,
}

/// The node's answer: a hint, never the transaction's fate.
#[derive(Schema, Clone, Copy, Debug, PartialEq)]
#[schema("evm/SubmitFate@1")]
pub enum SubmitFate {
    Accepted,
    /// The node has this transaction already.
    Known,
    NonceUsed,
    Underpriced,
    NoFunds,
    Refused,
    /// The answer was lost, or has no meaning: it may have been sent.
    Unknown,
    /// The secret has no key for this signer: nothing was sent.
    NoKey,
}

/// Wait for the fate of a nonce: which transaction consumed it.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("evm/tx.receipt@1", receipt = Fate, executor = "evm", timeout_ms = 60000)]
pub struct AwaitReceipt {
    pub chain: u64,
    pub signer: String,
    pub nonce: u64,
    /// The hashes of all transactions that were submitted with this nonce.
    pub hashes: Vec<String>,
    pub to: String,
    pub data: Vec<u8>,
    pub value: Decimal,
    /// Confirmations of a final fate; 0: the finalized block.
    pub conf: u64,
    /// A block before the first submission: where the search for a consumed nonce begins.
    pub since: u64,
    /// How long to wait for a final fate, in milliseconds.
    pub wait_ms: u64,
}

#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("evm/TxReceiptReceipt@1")]
pub struct Fate {
    pub head: u64,
    pub nonce_at_depth: u64,
    pub fate: TxFate,
}

#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("evm/TxFate@1")]
pub enum TxFate {
    Confirmed {
        hash: String,
        block: u64,
        gas_used: u64,
    },
    Reverted {
        hash: String,
        block: u64,
        gas_used: u64,
        cause: Cause,
    },
    /// An empty transaction of the signer to itself consumed the nonce.
    Canceled {
        hash: String,
        block: u64,
    },
    /// Another transaction consumed the nonce.
    Foreign {
        hash: String,
        block: u64,
    },
    /// Known to the node: in a block with this many confirmations, or in its pool (0).
    Pending {
        depth: u64,
    },
    NotFound,
    /// The signer's nonce at the head is lower: an earlier transaction is missing.
    Gap {
        nonce: u64,
    },
}
