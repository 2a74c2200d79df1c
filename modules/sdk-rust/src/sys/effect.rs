//! Cancelling what is in flight: `sys/effect.cancel@1`.
//!
//! [`Pending::cancel`](crate::Pending::cancel) is the short way.

use alloc::string::String;

use crate::types::Hash;
use crate::{Effect, Schema};

/// Stop waiting for an open effect of this cell. It may have happened, or happen, all the same.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/effect.cancel@1", receipt = Cancelled, executor = "kernel", params = "sys/EffectCancelParams@1")]
pub struct Cancel {
    pub intent: Option<Hash>,
    pub issuer_ref: Option<String>,
}

impl Cancel {
    /// All open effects of this cell with this reference:
    /// [`Pending::issuer_ref`](crate::Pending::issuer_ref).
    pub fn by_reference(issuer_ref: impl Into<String>) -> Cancel {
        Cancel { intent: None, issuer_ref: Some(issuer_ref.into()) }
    }

    pub fn by_intent(intent: Hash) -> Cancel {
        Cancel { intent: Some(intent), issuer_ref: None }
    }
}

/// `sys/EffectCancelReceipt@1`. The canceled effect's own answer, `Canceled`, comes before it.
/// Where nothing was open any more the answer is an error, `already_settled`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/EffectCancelReceipt@1")]
pub struct Cancelled {
    pub cancelled: bool,
}
