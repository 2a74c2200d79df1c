//! Events for other worlds of the machine: `sys/portal.send@1`, with
//! `--executors portal`.

use alloc::string::String;
use alloc::vec::Vec;

use crate::types::{Hash, Map, Uuid};
use crate::{Effect, Schema};

/// Send an event to another world.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/portal.send@1", receipt = SendReceipt, executor = "node", params = "sys/PortalSendParams@1")]
pub struct Send {
    pub dest_universe: Option<Uuid>,
    pub dest_world: Uuid,
    pub mode: String,
    pub schema: Option<String>,
    pub value_cbor: Option<Vec<u8>>,
    pub inbox: Option<String>,
    pub payload_cbor: Option<Vec<u8>>,
    pub headers: Option<Map<String, String>>,
    pub correlation_id: Option<String>,
}

/// `sys/PortalSendReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/PortalSendReceipt@1")]
pub struct SendReceipt {
    pub status: String,
    pub message_id: Hash,
    pub dest_world: Uuid,
    pub enqueued_seq: Option<Vec<u8>>,
}
