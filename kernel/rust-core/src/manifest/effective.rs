//! Effective: the typed view of everything in a manifest that the core depends on
//! (`kernel/aos/manifest/effective.py`, M-40 to M-46).
//!
//! Documents are those of the journal, which were judged before: this reader trusts them. It leaves
//! out what only the host reads: plans, schedules, where secrets are found, sealed places.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::collections::OrderedMap;
use crate::manifest::forms::AGENTOS;
use crate::manifest::governance::GovernanceBlock;
use crate::manifest::limits::{StepLimits, WorldLimits};
use crate::values::cbor::{Key, Value};
use crate::values::digests::Hash;
use crate::values::errors::{Outcome, ValueProblem};
use crate::values::schema::Schema;

/// The state schema of every flow, and of no other workflow (spec/flow.md, FL-10).
pub const FLOW_STATE: &str = "aos/Flow@1";

/// The end of a sentence about the schema of an event that is not open at ingress (M-30b).
pub const ONLY_OWN_STEPS: &str =
    "is not accepted from outside: only the world's own steps emit it \
     (routing.ingress of the manifest in force does not list it)";

pub type PublicKey = [u8; 32];

/// One wasm module. `hash` is the content hash of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    pub name: Rc<str>,
    pub hash: Hash,
    pub abi: Rc<str>,
}

/// The entrypoint of a workflow's module that migrates states of another schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    pub source: Rc<str>,
    pub entrypoint: Rc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    Quiescent,
    Explicit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upgrade {
    Quiesce,
    InPlace,
}

/// One workflow with everything that its steps are checked against.
#[derive(Debug)]
pub struct Workflow {
    pub name: Rc<str>,
    pub hash: Hash,
    pub state: Rc<Schema>,
    pub event: Rc<Schema>,
    pub context: bool,
    pub annotations: Option<Rc<Schema>>,
    /// The key's schema; None if the workflow is unkeyed.
    pub key: Option<Rc<Schema>>,
    pub effects_emitted: BTreeSet<Rc<str>>,
    pub module: Rc<Module>,
    pub entrypoint: Rc<str>,
    pub limits: StepLimits,
    pub lifecycle: Lifecycle,
    pub upgrade: Upgrade,
    pub migrate: Option<Migration>,
    /// Schema -> the arm of `event` that refers to it, in the order of the arms. Empty for a
    /// record.
    pub arms: OrderedMap<Rc<str>, Rc<str>>,
}

impl Workflow {
    /// Whether the kernel stores states of this workflow without checking them against their
    /// schema (AG-10).
    pub fn has_opaque_state(&self) -> bool {
        &*self.module.abi == AGENTOS
    }

    pub fn is_flow(&self) -> bool {
        &*self.state.name == FLOW_STATE
    }

    /// Wrap a value of `schema`, in normal form, as this workflow's event; None if it takes no such
    /// event.
    pub fn wrap(&self, schema: &str, value: Value) -> Option<Value> {
        if schema == &*self.event.name {
            return Some(value);
        }
        let tag = self.arms.get(schema)?;
        Some(Value::Map(vec![
            (Key::Text("$tag".to_string()), Value::Text(tag.to_string())),
            (Key::Text("$value".to_string()), value),
        ]))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    AtLeastOnce,
    AtMostOnce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdempotencyScope {
    Cell,
    World,
}

/// One effect. Times are milliseconds. The three `executor_…` fields are set only for an effect
/// that a module runs.
#[derive(Debug)]
pub struct Effect {
    pub name: Rc<str>,
    pub hash: Hash,
    pub params: Rc<Schema>,
    pub receipt: Rc<Schema>,
    /// The name of the executor that runs it: `node` for built-in effects.
    pub executor: Rc<str>,
    pub executor_module: Option<Rc<str>>,
    pub executor_entrypoint: Option<Rc<str>>,
    pub executor_module_hash: Option<Hash>,
    pub attempts: u64,
    pub base_ms: u64,
    pub cap_ms: u64,
    pub timeout_ms: u64,
    pub delivery: Delivery,
    pub idempotency_scope: IdempotencyScope,
    /// Whether a value of `params` can name a secret.
    pub takes_secrets: bool,
    /// Paths of `params`: tasks with equal values there run one at a time (M-5a).
    pub lane: Vec<Rc<str>>,
}

/// An executor and the effects for which it may sign receipts. Keys are raw Ed25519 bytes. A
/// retired key still verifies receipts of intents that were opened while it was in force; a revoked
/// key verifies nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executor {
    pub name: Rc<str>,
    pub public_key: PublicKey,
    pub effects: BTreeSet<Rc<str>>,
    pub retired_keys: BTreeSet<PublicKey>,
    pub revoked_keys: BTreeSet<PublicKey>,
}

/// One subscription: `event` goes to `workflow`, to the cell that `key_field` names.
#[derive(Debug)]
pub struct Route {
    pub event: Rc<str>,
    pub workflow: Rc<str>,
    pub key_field: Option<Rc<str>>,
    pub key_schema: Option<Rc<Schema>>,
    /// Whether an event creates the instance if it does not exist (M-30a).
    pub creates: bool,
    /// Arms of `event` itself that only the kernel may make.
    pub reserved: BTreeSet<Rc<str>>,
}

impl Route {
    /// The key of the cell that gets an event of `self.event` (normal form, not wrapped): canonical
    /// CBOR, empty for an unkeyed workflow.
    pub fn key(&self, _value: &Value) -> Result<Vec<u8>, ValueProblem> {
        todo!()
    }
}

/// A secret of the manifest, as far as steps are checked against it (M-56).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    pub name: Rc<str>,
    pub hash: Hash,
    /// None if every workflow may use it.
    pub workflows: Option<BTreeSet<Rc<str>>>,
}

impl Secret {
    pub fn may_be_used_by(&self, workflow: &str) -> bool {
        self.workflows.as_ref().map_or(true, |names| names.contains(workflow))
    }
}

/// A complete, checked manifest. Two are equal if their documents are. Maps have the order of the
/// document.
#[derive(Debug)]
pub struct Effective {
    /// Canonical CBOR; its layout is in spec/manifest.md, M-44.
    pub document: Rc<[u8]>,
    /// Hash of the document.
    pub hash: Hash,
    /// Hash of the manifest node alone, with every reference's hash filled in.
    pub manifest_hash: Hash,
    pub schemas: OrderedMap<Rc<str>, Rc<Schema>>,
    pub workflows: OrderedMap<Rc<str>, Rc<Workflow>>,
    pub effects: OrderedMap<Rc<str>, Rc<Effect>>,
    pub modules: OrderedMap<Rc<str>, Rc<Module>>,
    pub secrets: OrderedMap<Rc<str>, Secret>,
    /// None if the manifest has no such list: then the world's key signs for all.
    pub executors: Option<OrderedMap<Rc<str>, Rc<Executor>>>,
    pub limits: WorldLimits,
    /// In the order of the manifest.
    pub subscriptions: Vec<Rc<Route>>,
    pub by_event: OrderedMap<Rc<str>, Vec<Rc<Route>>>,
    /// The schemas of the events that a subscription sends to a flow.
    pub flow_events: BTreeSet<Rc<str>>,
    /// The schemas of the events that the kernel accepts from outside (M-30b); None if it accepts
    /// all.
    pub ingress: Option<BTreeSet<Rc<str>>>,
    /// The approvers of the next manifest; None if an operator alone may apply it.
    pub governance: Option<GovernanceBlock>,
}

impl PartialEq for Effective {
    fn eq(&self, other: &Self) -> bool {
        self.document == other.document
    }
}

impl Eq for Effective {}

impl Effective {
    /// The subscriptions for events of this schema, in the order of the manifest.
    pub fn routes(&self, event_schema: &str) -> &[Rc<Route>] {
        self.by_event.get(event_schema).map_or(&[], |routes| routes)
    }

    /// Whether events of this schema are accepted from outside (M-30b).
    pub fn is_open(&self, event_schema: &str) -> bool {
        self.ingress.as_ref().map_or(true, |names| names.contains(event_schema))
    }

    /// Read a document that was judged before: that of a manifest in the journal of this world. The
    /// last documents are kept. Damage if the bytes are not a document.
    pub fn from_document(_document: &[u8]) -> Outcome<Rc<Effective>> {
        todo!()
    }
}
