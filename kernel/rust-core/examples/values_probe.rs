//! Answers questions about values and manifests, so that a test can compare this crate with the
//! reference. A request and an answer are canonical CBOR, each after its length in four bytes, big
//! end first. A request is `[operation, argument…]`; an answer is `["ok", result]` or
//! `["refused", text]`.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::rc::Rc;

use aos_core::collections::OrderedMap;
use aos_core::manifest::builtin_definitions::builtin_schema;
use aos_core::manifest::effective::Effective;
use aos_core::manifest::secret_use;
use aos_core::manifest::shapes::Shapes;
use aos_core::values::cbor::{decode_record, encode, Key, Value, RECORD};
use aos_core::values::errors::{Failure, ValueProblem};
use aos_core::values::foreign::from_foreign;
use aos_core::values::hash_rewrite::HashRewrite;
use aos_core::values::schema::{compile_schemas, value_at, Schema};
use aos_core::values::sha256::given_text;

type Schemas = OrderedMap<Rc<str>, Rc<Schema>>;
type Answer = Result<Value, String>;

fn main() {
    let mut input = std::io::stdin().lock();
    let mut output = std::io::stdout().lock();
    let mut schemas = Schemas::default();
    let mut length = [0; 4];
    while input.read_exact(&mut length).is_ok() {
        let mut request = vec![0; u32::from_be_bytes(length) as usize];
        input.read_exact(&mut request).expect("a whole request");
        let request = decode_record(&request, RECORD).expect("a canonical request");
        let parts = request.as_list().expect("a list");
        let answer = match answer(&mut schemas, parts) {
            Ok(value) => Value::List(vec![text("ok"), value]),
            Err(problem) => Value::List(vec![text("refused"), text(&problem)]),
        };
        let answer = encode(&answer);
        output.write_all(&(answer.len() as u32).to_be_bytes()).expect("room");
        output.write_all(&answer).expect("room");
        output.flush().expect("room");
    }
}

fn answer(schemas: &mut Schemas, request: &[Value]) -> Answer {
    let operation = request[0].as_text().expect("an operation");
    if operation == "compile" {
        let Value::Map(types) = &request[1] else { panic!("types") };
        let named: BTreeMap<Rc<str>, &Value> =
            types.iter().map(|(name, type_)| (Rc::from(key_text(name)), type_)).collect();
        *schemas = compile_schemas(&named).map_err(|problems| problems.to_string())?;
        return Ok(Value::List(schemas.keys().map(|name| text(name)).collect()));
    }
    if operation == "effective" {
        let effective = Effective::from_document(bytes(&request[1])).map_err(damage)?;
        *schemas = copied(&effective.schemas);
        return Ok(effective_value(&effective));
    }
    if operation == "shapes" {
        let old = Effective::from_document(bytes(&request[1])).map_err(damage)?;
        let new = Effective::from_document(bytes(&request[2])).map_err(damage)?;
        return Ok(shapes_value(&old, &new));
    }
    if operation == "secrets" {
        let effective = Effective::from_document(bytes(&request[1])).map_err(damage)?;
        let name = |index: usize| request[index].as_text().expect("a name");
        let problem = secret_use::problem(&effective, name(2), name(3), &request[4]);
        return Ok(problem.map_or(Value::Null, |problem| text(&problem)));
    }
    if operation == "key" {
        let effective = Effective::from_document(bytes(&request[1])).map_err(damage)?;
        let route = &effective.subscriptions[request[2].as_nat().expect("an index") as usize];
        return route.key(&request[3]).map(Value::Bytes).map_err(words);
    }
    if operation == "value_at" {
        let path = request[2].as_text().expect("a path");
        return value_at(&request[1], path).cloned().map_err(words);
    }
    let name = request[1].as_text().expect("a name");
    let schema = match name.starts_with("sys/") && schemas.get(name).is_none() {
        true => builtin_schema(name),
        false => schemas.get(name).expect("a schema").clone(),
    };
    let data = bytes(&request[2]);
    let max_bytes = request.get(3).and_then(Value::as_nat).unwrap_or(1 << 20) as usize;
    match operation {
        "from_ingress" => {
            let (canonical, value) = schema.from_ingress_value(data, max_bytes).map_err(words)?;
            let alone = schema.from_ingress(data, max_bytes).map_err(words)?;
            assert!(alone == canonical && schema.encode(&value) == *canonical);
            Ok(Value::Bytes(canonical.into_owned()))
        }
        "from_record" => {
            let checked = schema.check_record(data);
            let value = schema.from_record(data);
            assert_eq!(checked.err(), value.clone().err());
            value.map_err(words)
        }
        "completed" => {
            schema.completed(data).map(|data| Value::Bytes(data.into_owned())).map_err(words)
        }
        "completed_value" => schema.completed_value(data).map_err(words),
        "fitted" => schema.fitted(data).map(|data| Value::Bytes(data.into_owned())).map_err(words),
        "foreign" => {
            let (canonical, value) =
                from_foreign(&schema, schemas, data, max_bytes).map_err(words)?;
            assert_eq!(encode(&value), canonical);
            Ok(Value::Bytes(canonical))
        }
        "rewritten" => {
            let rewrite = HashRewrite::new(schemas);
            let value = schema.from_record(data).map_err(words)?;
            let rewritten = rewrite.rewritten(&schema, value, &mut given_text);
            Ok(Value::List(vec![Value::Bool(rewrite.has_hashes(&schema)), rewritten]))
        }
        _ => panic!("unknown operation {operation}"),
    }
}

fn copied(schemas: &Schemas) -> Schemas {
    let mut copy = Schemas::default();
    for (name, schema) in schemas.iter() {
        copy.insert(name.clone(), schema.clone());
    }
    copy
}

fn text(text: &str) -> Value {
    Value::Text(text.to_string())
}

fn key_text(key: &Key) -> &str {
    match key {
        Key::Text(text) => text,
        Key::Int(_) => panic!("a name"),
    }
}

fn bytes(value: &Value) -> &[u8] {
    value.as_bytes().expect("bytes")
}

fn words(problem: ValueProblem) -> String {
    problem.to_string()
}

fn damage(failure: Failure) -> String {
    match failure {
        Failure::Damage(text) => text,
        Failure::Host => "host".to_string(),
    }
}

fn shapes_value(old: &Effective, new: &Effective) -> Value {
    let shapes = Shapes::new(old, new);
    let mut rows = Vec::new();
    for (name, schema) in old.schemas.iter() {
        for other in [new.schemas.get(name), new.schemas.values().next()].into_iter().flatten() {
            rows.push(Value::List(vec![
                text(name),
                text(&other.name),
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
    Value::List(rows)
}

fn effective_value(effective: &Effective) -> Value {
    text(&format!("{}", Dump(effective)))
}

struct Dump<'a>(&'a Effective);

impl std::fmt::Display for Dump<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use aos_core::values::digests::hex;
        let effective = self.0;
        let name = |schema: &Option<Rc<Schema>>| {
            schema.as_ref().map_or("None".to_string(), |schema| schema.name.to_string())
        };
        let set = |names: &std::collections::BTreeSet<Rc<str>>| {
            names.iter().map(|name| name.to_string()).collect::<Vec<_>>().join(",")
        };
        let option =
            |value: &Option<Rc<str>>| value.as_ref().map_or("None".into(), |v| v.to_string());
        writeln!(f, "hash {} {}", hex(&effective.hash), hex(&effective.manifest_hash))?;
        writeln!(f, "schemas {:?}", effective.schemas.keys().collect::<Vec<_>>())?;
        for workflow in effective.workflows.values() {
            let w = workflow;
            writeln!(
                f,
                "workflow {} {} {} {} {} {} {} [{}] {} {} {:?} {:?} {:?} {:?} {:?} {} {}",
                w.name,
                hex(&w.hash),
                w.state.name,
                w.event.name,
                w.context,
                name(&w.annotations),
                name(&w.key),
                set(&w.effects_emitted),
                w.module.name,
                w.entrypoint,
                w.limits,
                w.lifecycle,
                w.upgrade,
                w.migrate.as_ref().map(|m| (&m.source, &m.entrypoint)),
                w.arms.iter().collect::<Vec<_>>(),
                w.has_opaque_state(),
                w.is_flow(),
            )?;
        }
        for effect in effective.effects.values() {
            let e = effect;
            writeln!(
                f,
                "effect {} {} {} {} {} {} {} {} {} {} {} {} {:?} {:?} {} {:?}",
                e.name,
                hex(&e.hash),
                e.params.name,
                e.receipt.name,
                e.executor,
                option(&e.executor_module),
                option(&e.executor_entrypoint),
                e.executor_module_hash.map_or("None".to_string(), |hash| hex(&hash)),
                e.attempts,
                e.base_ms,
                e.cap_ms,
                e.timeout_ms,
                e.delivery,
                e.idempotency_scope,
                e.takes_secrets,
                e.lane,
            )?;
        }
        for module in effective.modules.values() {
            writeln!(f, "module {} {} {}", module.name, hex(&module.hash), module.abi)?;
        }
        for secret in effective.secrets.values() {
            let workflows = secret.workflows.as_ref().map_or("None".to_string(), set);
            writeln!(f, "secret {} {} [{workflows}]", secret.name, hex(&secret.hash))?;
        }
        match &effective.executors {
            None => writeln!(f, "executors None")?,
            Some(executors) => {
                for e in executors.values() {
                    let keys = |keys: &std::collections::BTreeSet<[u8; 32]>| {
                        keys.iter().map(|key| hex(key)).collect::<Vec<_>>().join(",")
                    };
                    writeln!(
                        f,
                        "executor {} {} [{}] [{}] [{}]",
                        e.name,
                        hex(&e.public_key),
                        set(&e.effects),
                        keys(&e.retired_keys),
                        keys(&e.revoked_keys)
                    )?;
                }
            }
        }
        writeln!(f, "limits {:?}", effective.limits)?;
        for route in &effective.subscriptions {
            writeln!(
                f,
                "route {} {} {} {} {} [{}]",
                route.event,
                route.workflow,
                option(&route.key_field),
                name(&route.key_schema),
                route.creates,
                set(&route.reserved)
            )?;
        }
        for (event, routes) in effective.by_event.iter() {
            let workflows: Vec<_> = routes.iter().map(|route| route.workflow.to_string()).collect();
            writeln!(f, "by_event {event} {}", workflows.join(","))?;
        }
        writeln!(f, "flow_events [{}]", set(&effective.flow_events))?;
        writeln!(f, "ingress {}", effective.ingress.as_ref().map_or("None".to_string(), set))?;
        match &effective.governance {
            None => writeln!(f, "governance None"),
            Some(block) => {
                for approver in &block.approvers {
                    writeln!(f, "approver {} {}", approver.name, hex(&approver.public_key))?;
                }
                writeln!(f, "governance {} {}", block.quorum, block.shadow_records)
            }
        }
    }
}
