//! Questions about values and manifests, in a test build (`--features probe`): a test puts them to
//! this crate and to the reference (`tests/fastcore/questions.py` says what each one is).
//!
//! A question is canonical CBOR, `[name, argument…]`, and its answer a value or the words of a
//! problem. Questions about a schema are about the schemas that were compiled or read last.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::collections::OrderedMap;
use crate::manifest::builtin_definitions::builtin_schema;
use crate::manifest::effective::{Effect, Effective, Executor, Route, Workflow};
use crate::manifest::limits::{StepLimits, WorldLimits};
use crate::manifest::placement::Placement;
use crate::manifest::secret_use;
use crate::manifest::shapes::Shapes;
use crate::values::cbor::{decode_record, encode, Key, Value, RECORD};
use crate::values::digests::Hash;
use crate::values::errors::{Failure, ValueProblem};
use crate::values::foreign::from_foreign;
use crate::values::hash_rewrite::HashRewrite;
use crate::values::schema::{compile_schemas, value_at, Schema};
use crate::values::sha256::given_text;

type Schemas = OrderedMap<Rc<str>, Rc<Schema>>;
type Answer = Result<Value, String>;

thread_local! {
    static SCHEMAS: RefCell<Rc<Schemas>> = RefCell::default();
}

/// The bytes of an answer.
pub fn answer(question: &[u8]) -> Result<Vec<u8>, String> {
    let question = decode_record(question, RECORD).map_err(words)?;
    let parts = question.as_list().expect("a question");
    let arguments = Arguments(&parts[1..]);
    let name = parts[0].as_text().expect("the name of a question");
    let value = match name {
        "compiled" => compiled(arguments),
        "effective" => effective(arguments),
        "shapes" => shapes(arguments),
        "secrets" => secrets(arguments),
        "key" => key(arguments),
        "part" => value_at(arguments.value(0), arguments.text(1)).cloned().map_err(words),
        _ => of_schema(name, arguments),
    }?;
    Ok(encode(&value))
}

struct Arguments<'a>(&'a [Value]);

impl<'a> Arguments<'a> {
    fn value(&self, index: usize) -> &'a Value {
        &self.0[index]
    }

    fn text(&self, index: usize) -> &'a str {
        self.0[index].as_text().expect("text")
    }

    fn bytes(&self, index: usize) -> &'a [u8] {
        self.0[index].as_bytes().expect("bytes")
    }

    fn nat(&self, index: usize) -> usize {
        self.0[index].as_nat().expect("a number") as usize
    }

    fn effective(&self, index: usize) -> Result<Rc<Effective>, String> {
        Effective::from_document(self.bytes(index)).map_err(|failure| match failure {
            Failure::Damage(text) => text,
            Failure::Host | Failure::Erased | Failure::Unwritable => {
                "the host did not return".to_string()
            }
        })
    }
}

fn words(problem: ValueProblem) -> String {
    problem.to_string()
}

fn compiled(arguments: Arguments) -> Answer {
    let Value::Map(types) = arguments.value(0) else { panic!("types") };
    let named: BTreeMap<Rc<str>, &Value> = types
        .iter()
        .map(|(name, type_)| match name {
            Key::Text(name) => (Rc::from(name.as_str()), type_),
            Key::Int(_) => panic!("the name of a schema"),
        })
        .collect();
    let schemas = compile_schemas(&named).map_err(|problems| problems.to_string())?;
    let names = schemas.keys().map(text).collect();
    SCHEMAS.set(Rc::new(schemas));
    Ok(Value::List(names))
}

fn of_schema(question: &str, arguments: Arguments) -> Answer {
    let schemas = SCHEMAS.with_borrow(Rc::clone);
    let schema = match schemas.get(arguments.text(0)) {
        Some(schema) => schema.clone(),
        None => builtin_schema(arguments.text(0)),
    };
    let data = arguments.bytes(1);
    match question {
        "from_ingress" => {
            let max_bytes = arguments.nat(2);
            let alone = schema.from_ingress(data, max_bytes);
            let (canonical, value) = schema.from_ingress_value(data, max_bytes).map_err(words)?;
            assert!(alone == Ok(canonical.clone()) && schema.encode(&value) == *canonical);
            Ok(Value::Bytes(canonical.into_owned()))
        }
        "from_record" => {
            let value = schema.from_record(data);
            assert_eq!(schema.check_record(data).err(), value.clone().err());
            value.map_err(words)
        }
        "completed" => schema.completed(data).map(|c| Value::Bytes(c.into_owned())).map_err(words),
        "completed_value" => schema.completed_value(data).map_err(words),
        "fitted" => schema.fitted(data).map(|c| Value::Bytes(c.into_owned())).map_err(words),
        "from_foreign" => {
            let (canonical, value) =
                from_foreign(&schema, &schemas, data, arguments.nat(2)).map_err(words)?;
            assert_eq!(encode(&value), canonical);
            Ok(Value::Bytes(canonical))
        }
        "rewritten" => {
            let rewrite = HashRewrite::new(&schemas);
            let value = schema.from_record(data).map_err(words)?;
            let rewritten = rewrite.rewritten(&schema, value, &mut given_text);
            Ok(Value::List(vec![Value::Bool(rewrite.has_hashes(&schema)), rewritten]))
        }
        _ => panic!("unknown question {question}"),
    }
}

fn secrets(arguments: Arguments) -> Answer {
    let effective = arguments.effective(0)?;
    let (workflow, effect) = (arguments.text(1), arguments.text(2));
    let problem = secret_use::problem(&effective, workflow, effect, arguments.value(3));
    Ok(problem.map_or(Value::Null, Value::Text))
}

fn key(arguments: Arguments) -> Answer {
    let effective = arguments.effective(0)?;
    let route = &effective.subscriptions[arguments.nat(1)];
    let key = route.key(arguments.value(2));
    assert_eq!(route.key_of(&encode(arguments.value(2))), key);
    key.map(Value::Bytes).map_err(words)
}

fn shapes(arguments: Arguments) -> Answer {
    let (old, new) = (arguments.effective(0)?, arguments.effective(1)?);
    let shapes = Shapes::new(&old, &new);
    let mut rows = Vec::new();
    for (name, schema) in old.schemas.iter() {
        if let Some(other) = new.schemas.get(name) {
            rows.push(Value::List(vec![
                text(name),
                Value::Bool(shapes.same(Some(schema), Some(other))),
                Value::Bool(shapes.extends(schema, other)),
            ]));
        }
    }
    for (name, effect) in old.effects.iter() {
        if let Some(other) = new.effects.get(name) {
            rows.push(Value::List(vec![
                text(name),
                Value::Bool(shapes.same_effect(effect, other)),
            ]));
        }
    }
    Ok(Value::List(rows))
}

fn effective(arguments: Arguments) -> Answer {
    let effective = arguments.effective(0)?;
    let mut schemas = Schemas::default();
    for (name, schema) in effective.schemas.iter() {
        schemas.insert(name.clone(), schema.clone());
    }
    SCHEMAS.set(Rc::new(schemas));
    Ok(map(vec![
        ("hash", hash(&effective.hash)),
        ("manifest_hash", hash(&effective.manifest_hash)),
        ("schemas", list(effective.schemas.keys(), text)),
        ("workflows", list(effective.workflows.values(), workflow)),
        ("effects", list(effective.effects.values(), effect)),
        (
            "modules",
            list(effective.modules.values(), |module| {
                map(vec![
                    ("name", text(&module.name)),
                    ("hash", hash(&module.hash)),
                    ("abi", text(&module.abi)),
                ])
            }),
        ),
        (
            "secrets",
            list(effective.secrets.values(), |secret| {
                map(vec![
                    ("name", text(&secret.name)),
                    ("hash", hash(&secret.hash)),
                    ("workflows", option(&secret.workflows, texts)),
                ])
            }),
        ),
        ("executors", option(&effective.executors, |named| list(named.values(), executor))),
        ("limits", world_limits(&effective.limits)),
        ("subscriptions", list(&effective.subscriptions, route)),
        (
            "by_event",
            list(effective.by_event.iter(), |(event, routes)| {
                Value::List(vec![text(event), list(routes, |route| text(&route.workflow))])
            }),
        ),
        ("flow_events", texts(&effective.flow_events)),
        ("ingress", option(&effective.ingress, texts)),
        (
            "governance",
            option(&effective.governance, |block| {
                let approver = |approver: &crate::manifest::governance::Approver| {
                    let name = Value::Text(approver.name.clone());
                    map(vec![("name", name), ("public_key", hash(&approver.public_key))])
                };
                map(vec![
                    ("approvers", list(&block.approvers, approver)),
                    ("quorum", nat(block.quorum)),
                    ("shadow_records", nat(block.shadow_records)),
                ])
            }),
        ),
        (
            "shard",
            option(&effective.shard, |shard| {
                map(vec![("index", nat(shard.index)), ("count", nat(shard.count))])
            }),
        ),
    ]))
}

fn workflow(workflow: &Rc<Workflow>) -> Value {
    map(vec![
        ("name", text(&workflow.name)),
        ("hash", hash(&workflow.hash)),
        ("state", text(&workflow.state.name)),
        ("event", text(&workflow.event.name)),
        ("context", Value::Bool(workflow.context)),
        ("annotations", option(&workflow.annotations, |schema| text(&schema.name))),
        ("key", option(&workflow.key, |schema| text(&schema.name))),
        ("effects_emitted", texts(&workflow.effects_emitted)),
        ("module", text(&workflow.module.name)),
        ("entrypoint", text(&workflow.entrypoint)),
        ("limits", step_limits(&workflow.limits)),
        ("lifecycle", variant(&workflow.lifecycle)),
        ("upgrade", variant(&workflow.upgrade)),
        (
            "migrate",
            option(&workflow.migrate, |migrate| {
                map(vec![
                    ("source", text(&migrate.source)),
                    ("entrypoint", text(&migrate.entrypoint)),
                ])
            }),
        ),
        ("placement", placement(&workflow.placement)),
        (
            "arms",
            list(workflow.arms.iter(), |(schema, tag)| Value::List(vec![text(schema), text(tag)])),
        ),
        ("has_opaque_state", Value::Bool(workflow.has_opaque_state())),
        ("is_flow", Value::Bool(workflow.is_flow())),
    ])
}

fn placement(placement: &Placement) -> Value {
    let (kind, shard_by) = match placement {
        Placement::Key { shard_by } => ("key", shard_by.clone()),
        Placement::First => ("first", None),
        Placement::Each => ("each", None),
    };
    map(vec![("kind", Value::Text(kind.to_string())), ("shard_by", option(&shard_by, text))])
}

fn effect(effect: &Rc<Effect>) -> Value {
    map(vec![
        ("name", text(&effect.name)),
        ("hash", hash(&effect.hash)),
        ("params", text(&effect.params.name)),
        ("receipt", text(&effect.receipt.name)),
        ("executor", text(&effect.executor)),
        ("executor_module", option(&effect.executor_module, text)),
        ("executor_entrypoint", option(&effect.executor_entrypoint, text)),
        ("executor_module_hash", option(&effect.executor_module_hash, hash)),
        ("attempts", nat(effect.attempts)),
        ("base_ms", nat(effect.base_ms)),
        ("cap_ms", nat(effect.cap_ms)),
        ("timeout_ms", nat(effect.timeout_ms)),
        ("delivery", variant(&effect.delivery)),
        ("idempotency_scope", variant(&effect.idempotency_scope)),
        ("takes_secrets", Value::Bool(effect.takes_secrets)),
        ("lane", list(&effect.lane, text)),
    ])
}

fn executor(executor: &Rc<Executor>) -> Value {
    map(vec![
        ("name", text(&executor.name)),
        ("public_key", hash(&executor.public_key)),
        ("effects", texts(&executor.effects)),
        ("retired_keys", list(&executor.retired_keys, hash)),
        ("revoked_keys", list(&executor.revoked_keys, hash)),
    ])
}

fn route(route: &Rc<Route>) -> Value {
    map(vec![
        ("event", text(&route.event)),
        ("workflow", text(&route.workflow)),
        ("key_field", option(&route.key_field, text)),
        ("key_schema", option(&route.key_schema, |schema| text(&schema.name))),
        ("creates", Value::Bool(route.creates)),
        ("reserved", texts(&route.reserved)),
    ])
}

fn step_limits(limits: &StepLimits) -> Value {
    map(vec![
        ("fuel", nat(limits.fuel)),
        ("memory_bytes", nat(limits.memory_bytes)),
        ("output_bytes", nat(limits.output_bytes)),
        ("state_bytes", nat(limits.state_bytes)),
        ("effects", nat(limits.effects)),
        ("events", nat(limits.events)),
        ("keys", option(&limits.keys, |n| nat(*n))),
    ])
}

fn world_limits(limits: &WorldLimits) -> Value {
    map(vec![
        ("event_bytes", nat(limits.event_bytes)),
        ("cascade_depth", nat(limits.cascade_depth)),
        ("cascade_steps", nat(limits.cascade_steps)),
        ("mailbox", nat(limits.mailbox)),
        ("instance_intents", nat(limits.instance_intents)),
        ("open_intents", nat(limits.open_intents)),
        ("dedup_ns", nat(limits.dedup_ns)),
        ("dedup_step_ns", option(&limits.dedup_step_ns, |n| nat(*n))),
        ("dedup_rows", nat(limits.dedup_rows)),
        ("instance_keys", nat(limits.instance_keys)),
        ("abandoned_intents", nat(limits.abandoned_intents)),
        ("stream_bytes", nat(limits.stream_bytes)),
        ("stream_rate", nat(limits.stream_rate)),
        ("stream_frames", nat(limits.stream_frames)),
    ])
}

fn map(fields: Vec<(&str, Value)>) -> Value {
    Value::Map(fields.into_iter().map(|(name, v)| (Key::Text(name.to_string()), v)).collect())
}

fn list<T>(items: impl IntoIterator<Item = T>, value: impl Fn(T) -> Value) -> Value {
    Value::List(items.into_iter().map(value).collect())
}

fn option<T>(item: &Option<T>, value: impl Fn(&T) -> Value) -> Value {
    item.as_ref().map_or(Value::Null, value)
}

fn text(text: &Rc<str>) -> Value {
    Value::Text(text.to_string())
}

fn texts(names: &BTreeSet<Rc<str>>) -> Value {
    list(names, text)
}

fn nat(n: u64) -> Value {
    Value::Int(n as i128)
}

fn hash(hash: &Hash) -> Value {
    Value::Bytes(hash.to_vec())
}

/// `AtLeastOnce` as `at_least_once`.
fn variant(name: &impl std::fmt::Debug) -> Value {
    let mut out = String::new();
    for c in format!("{name:?}").chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    Value::Text(out)
}
