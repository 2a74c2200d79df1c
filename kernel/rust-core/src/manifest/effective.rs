//! Effective: the typed view of everything in a manifest that the core depends on
//! (`kernel/aos/manifest/effective.py`, M-40 to M-46).
//!
//! Documents are those of the journal, which were judged before: this reader trusts them. It leaves
//! out what only the host reads: plans, schedules, where secrets are found, sealed places.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::collections::{OrderedMap, SeededMap};
use crate::errors::Sentence;
use crate::manifest::builtins::{is_continuation, HTTP_PARAMS};
use crate::manifest::expressions::{reaches, resolved};
use crate::manifest::forms::{
    ABI_DEFAULT, AGENTOS, ATTEMPTS_DEFAULT, BASE_MS_DEFAULT, CAP_MS_DEFAULT, TIMEOUT_MS_DEFAULT,
};
use crate::manifest::governance::GovernanceBlock;
use crate::manifest::keys::parse_key;
use crate::manifest::limits::{StepLimits, WorldLimits};
use crate::manifest::node::{
    list, list_or_none, map_or_none, name, name_or, number_or, part, text, texts, Reading,
    Unreadable,
};
use crate::manifest::placement::{Placement, Shard};
use crate::manifest::secret_use::SECRET_REF;
use crate::values::cbor::{decode_record, entry_at, item_end, put_value, Key, Value, RECORD};
use crate::values::codec::read_text;
use crate::values::digests::{content_hash, digest, parse_hash, Hash};
use crate::values::errors::{Failure, Outcome, ValueProblem};
use crate::values::expressions::Type;
use crate::values::schema::{self, compile_schemas, value_at, Schema};
use crate::values::show::describe;

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
    /// The shards of a group that have its cells.
    pub placement: Placement,
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
    /// As `key`, of the canonical bytes of the event. Only a problem makes a value of them.
    pub fn key_of(&self, data: &[u8]) -> Result<Vec<u8>, ValueProblem> {
        match self.key_in(data) {
            Some(key) => Ok(key.to_vec()),
            None => self.key(&decode_record(data, RECORD)?),
        }
    }

    /// The bytes of the key in those of an event; None if there may be a problem.
    fn key_in<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        if !self.reserved.is_empty() {
            let at = entry_at(data, 0, "$tag")?;
            let (tag, _) = read_text(data, at)?;
            if self.reserved.contains(tag) {
                return None;
            }
        }
        let (Some(key_field), Some(key_schema)) = (&self.key_field, &self.key_schema) else {
            return Some(&[]);
        };
        let mut at = 0;
        for name in key_field.split('.') {
            at = entry_at(data, at, name)?;
        }
        let key = data.get(at..item_end(data, at)?)?;
        key_schema.is_normal(key).then_some(key)
    }

    /// The key of the cell that gets an event of `self.event` (normal form, not wrapped): canonical
    /// CBOR, empty for an unkeyed workflow.
    ///
    /// Refused if `key_field` is missing or not a valid key, or if only the kernel may deliver the
    /// event (M-35).
    pub fn key(&self, value: &Value) -> Result<Vec<u8>, ValueProblem> {
        if let (false, Some(Value::Text(tag))) = (self.reserved.is_empty(), value.get("$tag")) {
            if self.reserved.contains(tag.as_str()) {
                return Err(ValueProblem {
                    message: format!(
                        "arm {tag} carries a continuation, which only the kernel delivers"
                    ),
                    path: "$.$tag".to_string(),
                });
            }
        }
        let (Some(key_field), Some(key_schema)) = (&self.key_field, &self.key_schema) else {
            return Ok(Vec::new());
        };
        let key = value_at(value, key_field).and_then(|key| key_schema.normalise(key.clone()));
        match key {
            Ok(key) => Ok(key_schema.encode(&key)),
            Err(problem) => Err(ValueProblem {
                message: format!("{problem} (key_field {key_field} of {})", self.workflow),
                path: format!("$.{key_field}"),
            }),
        }
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
    /// The shard of a group that the world is; None if it is in no group (GR-10).
    pub shard: Option<Shard>,
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
    pub fn from_document(document: &[u8]) -> Outcome<Rc<Effective>> {
        CACHE.with_borrow_mut(|cache| {
            if let Some(index) = cache.iter().position(|kept| *kept.document == *document) {
                let kept = cache.remove(index);
                cache.push(kept.clone());
                return Ok(kept);
            }
            let effective = Rc::new(read(document).map_err(damage)?);
            if cache.len() == DOCUMENTS_KEPT {
                cache.remove(0);
            }
            cache.push(effective.clone());
            Ok(effective)
        })
    }
}

/// Number of cached documents. A manifest is read when it is admitted, folded and replayed, and its
/// immutable typed view is the same each time.
const DOCUMENTS_KEPT: usize = 8;

thread_local! {
    /// The one that was used last comes last.
    static CACHE: RefCell<Vec<Rc<Effective>>> = const { RefCell::new(Vec::new()) };
}

const SEMANTICS: u64 = 1;

fn damage(why: Unreadable) -> Failure {
    let problem = match &why {
        Unreadable::Problem(problem) => problem,
        Unreadable::Shape => "not the document of a manifest",
    };
    let sentence = Sentence {
        problem,
        location: Some("effective manifest"),
        hint: Some("restore the world from a copy, or use the release that wrote it"),
        ..Sentence::default()
    };
    Failure::Damage(sentence.text())
}

fn read(document: &[u8]) -> Reading<Effective> {
    let parts = decode_record(document, RECORD)?;
    let semantics = part(&parts, "semantics")?;
    if semantics.as_nat() != Some(SEMANTICS) {
        let problem = format!("semantics: expected nat {SEMANTICS}, found {}", describe(semantics));
        return Err(Unreadable::Problem(problem));
    }
    View::of(&parts)?.effective(document)
}

type Named<T> = OrderedMap<Rc<str>, T>;

/// Reads the parts of a document, whose nodes are canonical and complete.
struct View<'a> {
    manifest: &'a Value,
    limits: &'a Value,
    shard: Option<Shard>,
    nodes: &'a [Value],
    schemas: Named<Rc<Schema>>,
    modules: Named<Rc<Module>>,
    workflows: Named<Rc<Workflow>>,
}

impl<'a> View<'a> {
    fn of(parts: &'a Value) -> Reading<Self> {
        let mut view = View {
            manifest: part(parts, "manifest")?,
            limits: part(parts, "limits")?,
            shard: Shard::of(parts.get("shard"))?,
            nodes: list(parts, "definitions")?,
            schemas: Named::default(),
            modules: Named::default(),
            workflows: Named::default(),
        };
        view.schemas = view.read_schemas()?;
        view.modules = view.read_nodes("defmodule", |node| Ok(Rc::new(module(node)?)))?;
        let hashes = view.hashes("workflows")?;
        let placements = view.placements()?;
        view.workflows = view.read_nodes("defworkflow", |node| {
            Ok(Rc::new(view.workflow(node, &hashes, &placements)?))
        })?;
        Ok(view)
    }

    /// The placements of the workflows that the manifest lists.
    fn placements(&self) -> Reading<SeededMap<Rc<str>, Placement>> {
        let Some(routing) = map_or_none(self.manifest, "routing")? else {
            return Ok(SeededMap::default());
        };
        list_or_none(routing, "shards")?
            .iter()
            .map(|entry| Ok((name(entry, "workflow")?, Placement::of(entry)?)))
            .collect()
    }

    fn effective(self, document: &[u8]) -> Reading<Effective> {
        let manifest = self.manifest;
        let routing = map_or_none(manifest, "routing")?;
        let subscriptions = match routing {
            None => &[],
            Some(routing) => list_or_none(routing, "subscriptions")?,
        };
        let subscriptions = subscriptions
            .iter()
            .map(|entry| Ok(Rc::new(self.route(entry)?)))
            .collect::<Reading<Vec<_>>>()?;
        let mut by_event: Named<Vec<Rc<Route>>> = Named::default();
        let mut flow_events = BTreeSet::new();
        for route in &subscriptions {
            match by_event.get_mut(&route.event) {
                Some(routes) => routes.push(route.clone()),
                None => {
                    by_event.insert(route.event.clone(), vec![route.clone()]);
                }
            }
            if self.workflow_named(&route.workflow)?.is_flow() {
                flow_events.insert(route.event.clone());
            }
        }
        let ingress = routing.and_then(|routing| routing.get("ingress"));
        let hashes = self.hashes("effects")?;
        let effects =
            self.read_nodes("defeffect", |node| Ok(Rc::new(self.effect(node, &hashes)?)))?;
        let hashes = self.hashes("secrets")?;
        let secrets = self.read_nodes("defsecret", |node| secret(node, &hashes))?;
        Ok(Effective {
            document: Rc::from(document),
            hash: content_hash(document),
            manifest_hash: digest("aos/manifest/1", 1, |out| put_value(out, manifest)),
            effects,
            secrets,
            executors: manifest.get("executors").map(executors).transpose()?,
            limits: WorldLimits::from_document(part(self.limits, "world")?)?,
            subscriptions,
            by_event,
            flow_events,
            ingress: ingress
                .map(|names| texts(names.as_list().ok_or(Unreadable::Shape)?))
                .transpose()?,
            governance: manifest.get("governance").map(GovernanceBlock::of).transpose()?,
            shard: self.shard,
            schemas: self.schemas,
            workflows: self.workflows,
            modules: self.modules,
        })
    }

    /// The results of `read` of the nodes of a kind, by their names.
    fn read_nodes<T>(
        &self,
        kind: &str,
        mut read: impl FnMut(&Value) -> Reading<T>,
    ) -> Reading<Named<T>> {
        let mut named = Named::default();
        for node in self.nodes_of(kind) {
            let node = node?;
            named.insert(name(node, "name")?, read(node)?);
        }
        Ok(named)
    }

    fn nodes_of<'b>(&self, kind: &'b str) -> impl Iterator<Item = Reading<&'a Value>> + 'b
    where
        'a: 'b,
    {
        self.nodes.iter().filter_map(move |node| match text(node, "$kind") {
            Ok(actual) => (actual == kind).then_some(Ok(node)),
            Err(problem) => Some(Err(problem)),
        })
    }

    /// The hashes of definitions, which the manifest has with their names.
    fn hashes(&self, section: &str) -> Reading<SeededMap<Rc<str>, Hash>> {
        list_or_none(self.manifest, section)?
            .iter()
            .map(|entry| Ok((name(entry, "name")?, parse_hash(text(entry, "hash")?)?)))
            .collect()
    }

    fn read_schemas(&self) -> Reading<Named<Rc<Schema>>> {
        let mut types = BTreeMap::new();
        for node in self.nodes_of("defschema") {
            let node = node?;
            types.insert(name(node, "name")?, part(node, "type")?);
        }
        let mut schemas = compile_schemas(&types)?;
        let has_secrets = self.nodes_of("defsecret").next().is_some();
        if let Some(params) = schemas.get_mut(HTTP_PARAMS) {
            *params = Rc::new(params.with_reading(schema::Reading::HttpParams { has_secrets }));
        }
        Ok(schemas)
    }

    fn schema(&self, node: &Value, use_: &str) -> Reading<Rc<Schema>> {
        self.schemas.get(text(node, use_)?).cloned().ok_or(Unreadable::Shape)
    }

    fn schema_in(&self, node: &Value, use_: &str) -> Reading<Option<Rc<Schema>>> {
        node.get(use_).map(|_| self.schema(node, use_)).transpose()
    }

    fn module_named(&self, name: &str) -> Reading<Rc<Module>> {
        self.modules.get(name).cloned().ok_or(Unreadable::Shape)
    }

    fn workflow_named(&self, name: &str) -> Reading<&Rc<Workflow>> {
        self.workflows.get(name).ok_or(Unreadable::Shape)
    }

    fn type_named(&self, name: &str) -> Option<&Type> {
        self.schemas.get(name).map(|schema| &schema.type_)
    }

    fn workflow(
        &self,
        node: &Value,
        hashes: &SeededMap<Rc<str>, Hash>,
        placements: &SeededMap<Rc<str>, Placement>,
    ) -> Reading<Workflow> {
        let workflow = name(node, "name")?;
        let impl_ = part(node, "impl")?;
        let event = self.schema(node, "event")?;
        let key = self.schema_in(node, "key_schema")?;
        let listed_placement = placements.get(&workflow).cloned();
        Ok(Workflow {
            hash: *hashes.get(&workflow).ok_or(Unreadable::Shape)?,
            state: self.schema(node, "state")?,
            context: node.get("context").is_some(),
            annotations: self.schema_in(node, "annotations")?,
            placement: listed_placement
                .unwrap_or_else(|| Placement::default_of(&workflow, key.is_some())),
            key,
            effects_emitted: texts(list(node, "effects_emitted")?)?,
            module: self.module_named(text(impl_, "module")?)?,
            entrypoint: name(impl_, "entrypoint")?,
            limits: StepLimits::from_document(part(part(self.limits, "workflows")?, &workflow)?)?,
            lifecycle: match name_or(node, "lifecycle", "quiescent")? {
                "quiescent" => Lifecycle::Quiescent,
                "explicit" => Lifecycle::Explicit,
                _ => return Err(Unreadable::Shape),
            },
            upgrade: match name_or(node, "upgrade", "quiesce")? {
                "quiesce" => Upgrade::Quiesce,
                "in_place" => Upgrade::InPlace,
                _ => return Err(Unreadable::Shape),
            },
            migrate: node.get("migrate").map(migration).transpose()?,
            arms: self.arms(&event)?,
            name: workflow,
            event,
        })
    }

    fn arms(&self, event: &Schema) -> Reading<Named<Rc<str>>> {
        let mut arms = Named::default();
        if let Type::Variant(parts) = resolved(&event.type_, &|name| self.type_named(name)) {
            for (tag, arm) in parts {
                let Type::TypeRef(schema) = arm else { return Err(Unreadable::Shape) };
                arms.insert(schema.clone(), tag.clone());
            }
        }
        Ok(arms)
    }

    fn effect(&self, node: &Value, hashes: &SeededMap<Rc<str>, Hash>) -> Reading<Effect> {
        let effect = name(node, "name")?;
        let impl_ = part(node, "impl")?;
        let none = Value::Map(Vec::new());
        let retry = map_or_none(node, "retry")?.unwrap_or(&none);
        let module = impl_
            .get("module")
            .map(|name| self.module_named(name.as_text().ok_or(Unreadable::Shape)?))
            .transpose()?;
        let params = self.schema(node, "params")?;
        Ok(Effect {
            hash: *hashes.get(&effect).ok_or(Unreadable::Shape)?,
            receipt: self.schema(node, "receipt")?,
            executor: match &module {
                None => name(impl_, "executor")?,
                Some(module) => module.name.clone(),
            },
            executor_module: module.as_ref().map(|module| module.name.clone()),
            executor_entrypoint: impl_
                .get("entrypoint")
                .map(|_| name(impl_, "entrypoint"))
                .transpose()?,
            executor_module_hash: module.as_ref().map(|module| module.hash),
            attempts: number_or(retry, "attempts", ATTEMPTS_DEFAULT)?,
            base_ms: number_or(retry, "base_ms", BASE_MS_DEFAULT)?,
            cap_ms: number_or(retry, "cap_ms", CAP_MS_DEFAULT)?,
            timeout_ms: number_or(node, "timeout_ms", TIMEOUT_MS_DEFAULT)?,
            delivery: match name_or(node, "delivery", "at_least_once")? {
                "at_least_once" => Delivery::AtLeastOnce,
                "at_most_once" => Delivery::AtMostOnce,
                _ => return Err(Unreadable::Shape),
            },
            idempotency_scope: match name_or(node, "idempotency_scope", "cell")? {
                "cell" => IdempotencyScope::Cell,
                "world" => IdempotencyScope::World,
                _ => return Err(Unreadable::Shape),
            },
            takes_secrets: reaches(&params.name, SECRET_REF, &|name| self.type_named(name)),
            lane: texts(list_or_none(node, "lane")?)?,
            name: effect,
            params,
        })
    }

    fn route(&self, entry: &Value) -> Reading<Route> {
        let event = name(entry, "event")?;
        let workflow = self.workflow_named(text(entry, "workflow")?)?;
        // Only a workflow's whole event can hold a continuation: a subscription to a continuation
        // itself is refused when the manifest is judged.
        let reserved = match event == workflow.event.name {
            false => BTreeSet::new(),
            true => {
                let arms = workflow.arms.iter().filter(|(schema, _)| is_continuation(schema));
                arms.map(|(_, tag)| tag.clone()).collect()
            }
        };
        Ok(Route {
            event,
            workflow: workflow.name.clone(),
            key_field: entry.get("key_field").map(|_| name(entry, "key_field")).transpose()?,
            key_schema: workflow.key.clone(),
            creates: match entry.get("creates") {
                None => true,
                Some(Value::Bool(creates)) => *creates,
                Some(_) => return Err(Unreadable::Shape),
            },
            reserved,
        })
    }
}

fn migration(node: &Value) -> Reading<Migration> {
    Ok(Migration { source: name(node, "from")?, entrypoint: name(node, "entrypoint")? })
}

fn module(node: &Value) -> Reading<Module> {
    let artifact = part(part(node, "runtime")?, "artifact")?;
    Ok(Module {
        name: name(node, "name")?,
        hash: parse_hash(text(artifact, "hash")?)?,
        abi: Rc::from(name_or(node, "abi", ABI_DEFAULT)?),
    })
}

fn secret(node: &Value, hashes: &SeededMap<Rc<str>, Hash>) -> Reading<Secret> {
    let secret = name(node, "name")?;
    Ok(Secret {
        hash: *hashes.get(&secret).ok_or(Unreadable::Shape)?,
        workflows: node
            .get("workflows")
            .map(|names| texts(names.as_list().ok_or(Unreadable::Shape)?))
            .transpose()?,
        name: secret,
    })
}

fn executors(entries: &Value) -> Reading<Named<Rc<Executor>>> {
    let keys = |entry: &Value, field: &str| -> Reading<BTreeSet<PublicKey>> {
        let key = |text: &Value| Ok(parse_key(text.as_text().ok_or(Unreadable::Shape)?)?);
        list_or_none(entry, field)?.iter().map(key).collect()
    };
    let mut executors = Named::default();
    for entry in entries.as_list().ok_or(Unreadable::Shape)? {
        let executor = Executor {
            name: name(entry, "name")?,
            public_key: parse_key(text(entry, "public_key")?)?,
            effects: texts(list(entry, "effects")?)?,
            retired_keys: keys(entry, "retired_keys")?,
            revoked_keys: keys(entry, "revoked_keys")?,
        };
        executors.insert(executor.name.clone(), Rc::new(executor));
    }
    Ok(executors)
}
