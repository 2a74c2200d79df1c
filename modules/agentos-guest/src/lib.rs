//! Workflows that speak to the kernel as modules of the AgentOS Rust SDK do: see the README.

#![no_std]

extern crate alloc;

mod agent;
mod cbor;
mod sha256;

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use aos_sdk::memory;

use cbor::{decode, described, encode, record, unit_arm, Lengths, Value};

const PUT: &str = "sys/blob.put@1";
const GET: &str = "sys/blob.get@1";
const TIMER: &str = "sys/timer.set@1";
const NOOP: &str = "bench/noop@1";
const HTTP: &str = "sys/http.request@1";
const CELLS: &str = "sys/introspect.list_cells@1";

/// The form `(ret, ptr, len)`.
///
/// # Safety
/// `ret` must be the address of eight bytes that are the caller's to write.
#[no_mangle]
pub unsafe extern "C" fn step(ret: u32, pointer: u32, length: u32) {
    unsafe { memory::call_returning_at(ret, pointer, length, perform) }
}

fn perform(bytes: &[u8]) -> Vec<u8> {
    let input = decode(bytes);
    assert!(input.get("version").nat() == 1);
    let event = input.get("event");
    let state = match input.get("state") {
        Value::Null => None,
        found => Some(decode(found.bytes())),
    };
    let mut step = Step {
        state: state.unwrap_or(Value::Null),
        key: event.get("key").clone(),
        context: decode(input.get("ctx").bytes()),
        events: Vec::new(),
        effects: Vec::new(),
        annotation: Value::Null,
        lengths: Lengths::Definite,
    };
    // The context is told by one of the names that it had, and the key twice.
    assert!(step.context.get("workflow_op_hash") == step.context.get("workflow_hash"));
    assert!(*step.context.get("key") == step.key);
    let value = decode(event.get("value").bytes());
    if event.get("schema").text() == "bench/Add@1" {
        sum(&mut step, &value);
        return step.output();
    }
    let (tag, inside) = (value.get("$tag").text(), value.get("$value"));
    match event.get("schema").text() {
        "agentos/CounterEvent@1" => counter(&mut step, tag, inside),
        "agentos/ClockEvent@1" => clock(&mut step, tag, inside),
        "agentos/EchoEvent@1" => echo(&mut step, tag, inside),
        "agentos/CaseEvent@1" => case(&mut step, tag, inside),
        "agentos/TaleEvent@1" => tale(&mut step, tag, inside),
        "agentos/AskEvent@1" => ask(&mut step, tag, inside),
        "agentos/AgentEvent@1" => agent::agent(&mut step, tag, inside),
        "bench/RunEvent@1" => run(&mut step, tag, inside),
        other => panic!("{other}"),
    }
    step.output()
}

struct Step {
    state: Value,
    key: Value,
    context: Value,
    events: Vec<Value>,
    effects: Vec<Value>,
    annotation: Value,
    lengths: Lengths,
}

impl Step {
    /// Fields in the order of a struct, absent options as null, the names that the SDK gives.
    fn output(self) -> Vec<u8> {
        let state = match &self.state {
            Value::Null => Value::Null,
            state => Value::Bytes(encode(state, self.lengths)),
        };
        let output = record([
            ("state", state),
            ("domain_events", Value::List(self.events)),
            ("effects", Value::List(self.effects)),
            ("ann", self.annotation),
        ]);
        encode(&output, Lengths::Definite)
    }

    fn emit(&mut self, kind: &str, params: &Value, issuer_ref: Option<&str>) {
        self.emit_bytes(kind, encode(params, Lengths::Definite), issuer_ref);
    }

    fn emit_bytes(&mut self, kind: &str, params: Vec<u8>, issuer_ref: Option<&str>) {
        let mut effect =
            vec![("kind".into(), kind.into()), ("params_cbor".into(), Value::Bytes(params))];
        if let Some(issuer_ref) = issuer_ref {
            effect.push(("issuer_ref".into(), issuer_ref.into()));
        }
        self.effects.push(Value::Map(effect));
    }

    fn last_effect(&mut self, name: &str, value: Value) {
        if let Some(Value::Map(fields)) = self.effects.last_mut() {
            fields.push((name.into(), value));
        }
    }
}

/// Counts down: a variant, a unit arm, and nothing else.
fn counter(step: &mut Step, tag: &str, inside: &Value) {
    let left = match tag {
        "Start" => inside.get("target").nat(),
        "Tick" => step.state.get("remaining").nat().saturating_sub(1),
        _ => panic!("{tag}"),
    };
    let pc = unit_arm(if left == 0 { "Done" } else { "Counting" });
    step.state = record([("pc", pc), ("remaining", Value::Nat(left))]);
}

/// A timer whose firing comes in its older form. An option that is absent is left out.
fn clock(step: &mut Step, tag: &str, inside: &Value) {
    match tag {
        "Start" => {
            let at = inside.get("deliver_at_ns").clone();
            step.emit(TIMER, &record([("deliver_at_ns", at.clone())]), None);
            step.last_effect("cap_slot", "default".into());
            step.state = record([("pc", unit_arm("Awaiting")), ("deadline_ns", at)]);
        }
        "Fired" => {
            assert!(inside.get("status").text() == "ok");
            assert!(inside.get("effect_op").text() == TIMER);
            assert!(inside.get("effect_kind").text() == TIMER);
            assert!(!inside.get("adapter_id").text().is_empty());
            let at = inside.get("requested").get("deliver_at_ns").clone();
            step.state = record([("pc", unit_arm("Done")), ("deadline_ns", at)]);
        }
        _ => panic!("{tag}"),
    }
}

/// Puts bytes, gets them back, and believes neither name nor bytes without hashing them.
fn echo(step: &mut Step, tag: &str, inside: &Value) {
    let receipt = inside.get("receipt");
    let (name, pc) = match tag {
        "Start" => {
            let name = sha256::text(inside.get("data").bytes());
            let params =
                record([("bytes", inside.get("data").clone()), ("blob_ref", name.as_str().into())]);
            step.emit(PUT, &params, None);
            (name, "Putting")
        }
        "PutResult" => {
            let name = receipt.get("blob_ref").text();
            assert!(name == step.state.get("name").text());
            assert!(receipt.get("edge_ref").text().starts_with("sha256:"));
            step.emit(GET, &record([("blob_ref", name.into())]), None);
            (name.to_string(), "Getting")
        }
        "GetResult" => {
            let name = sha256::text(receipt.get("bytes").bytes());
            assert!(name == step.state.get("name").text());
            assert!(name == receipt.get("blob_ref").text());
            (name, "Done")
        }
        _ => panic!("{tag}"),
    };
    step.state = record([("pc", unit_arm(pc)), ("name", name.as_str().into())]);
}

/// A keyed case with handles for what it waits for, found again by the hash of their params. Its
/// state and the event that it emits are maps without a length.
fn case(step: &mut Step, tag: &str, inside: &Value) {
    step.lengths = Lengths::Open;
    match tag {
        "Open" => open(step, inside),
        "Receipt" => receipt(step, inside),
        "Close" => step.state = Value::Null,
        _ => panic!("{tag}"),
    }
}

fn open(step: &mut Step, inside: &Value) {
    let at = Value::Nat(step.context.get("logical_now_ns").nat());
    let asked = [
        (PUT, record([("bytes", inside.get("data").clone())])),
        (TIMER, record([("key", "k".into()), ("deliver_at_ns", at)])),
        (CELLS, record([("workflow", step.context.get("workflow").clone())])),
    ];
    let mut pending = Vec::new();
    for (effect, params) in &asked {
        pending.push((params_hash(effect, params).as_str().into(), (*effect).into()));
        step.emit(effect, params, Some(effect));
        step.last_effect("idempotency_key", Value::Bytes(vec![7; 32]));
    }
    step.state = record([
        ("pending", Value::Map(pending)),
        ("settled", Value::List(Vec::new())),
        ("blob", Value::Null),
    ]);
    step.annotation = Value::Bytes(encode(&"nobody declared it".into(), Lengths::Definite));
}

/// The params as they will be: a put is completed before it is hashed.
fn params_hash(effect: &str, params: &Value) -> String {
    if effect == PUT {
        let bytes = params.get("bytes");
        let named = record([
            ("bytes", bytes.clone()),
            ("blob_ref", sha256::text(bytes.bytes()).as_str().into()),
            ("refs", Value::List(Vec::new())),
        ]);
        return sha256::text(&described(&named));
    }
    sha256::text(&described(params))
}

fn receipt(step: &mut Step, inside: &Value) {
    assert!(inside.get("status").text() == "ok");
    assert!(*inside.get("origin_instance_key") == step.key);
    assert!(inside.get("origin_workflow_op_hash") == step.context.get("workflow_op_hash"));
    let (effect, hash) = (inside.get("effect_op").text(), inside.get("params_hash").text());
    let before = step.state.get("pending").entries();
    let after: Vec<(Value, Value)> =
        before.iter().filter(|(key, _)| key.text() != hash).cloned().collect();
    assert!(after.len() + 1 == before.len(), "no handle for {effect}");
    let payload = decode(inside.get("receipt_payload").bytes());
    let mut blob = step.state.get("blob").clone();
    let mut pending = after;
    match effect {
        PUT => {
            blob = payload.get("blob_ref").clone();
            let edge = payload.get("edge_ref").text();
            assert!(edge.len() == blob.text().len() && edge.starts_with("sha256:"));
            let params = record([("blob_ref", blob.clone())]);
            pending.push((params_hash(GET, &params).as_str().into(), GET.into()));
            step.emit(GET, &params, None);
        }
        GET => assert!(sha256::text(payload.get("bytes").bytes()) == blob.text()),
        CELLS => {
            let meta = payload.get("meta").get("manifest_hash");
            assert!(meta == step.context.get("manifest_hash"));
            assert!(meta.text().starts_with("sha256:"));
        }
        _ => {}
    }
    let mut settled = match step.state.get("settled") {
        Value::List(found) => found.clone(),
        _ => Vec::new(),
    };
    settled.push(effect.into());
    if pending.is_empty() {
        tell(step, &blob);
    }
    step.state = record([
        ("pending", Value::Map(pending)),
        ("settled", Value::List(settled)),
        ("blob", blob),
    ]);
}

/// Emit an event: an arm as `{Arm: value}`, maps without a length, the key as it was told.
fn tell(step: &mut Step, blob: &Value) {
    let how = Value::Map(vec![("Named".into(), blob.clone())]);
    let text = step.key.bytes()[4..].to_vec();
    let id = Value::Text(String::from_utf8(text).expect("UTF-8"));
    let value = record([("how", how), ("id", id)]);
    step.events.push(record([
        ("schema", "agentos/Told@1".into()),
        ("value", Value::Bytes(encode(&value, Lengths::Open))),
        ("key", step.key.clone()),
    ]));
}

/// Is told of a blob by another workflow, by its SHA-256 name, and gets it.
fn tale(step: &mut Step, tag: &str, inside: &Value) {
    match tag {
        "Told" => {
            let how = inside.get("how");
            assert!(how.get("$tag").text() == "Named");
            let name = how.get("$value").clone();
            step.emit(GET, &record([("blob_ref", name.clone())]), None);
            step.state = record([("name", name), ("size", Value::Null)]);
        }
        "Receipt" => {
            let payload = decode(inside.get("receipt_payload").bytes());
            assert!(payload.get("blob_ref") == step.state.get("name"));
            let name = step.state.get("name").clone();
            step.state = record([("name", name), ("size", payload.get("size").clone())]);
        }
        _ => panic!("{tag}"),
    }
}

/// Asks for the effect that an event names, with the bytes of its params as they come, and keeps
/// each answer. Like a module of the SDK, it decodes the payload of a receipt whatever its status.
fn ask(step: &mut Step, tag: &str, inside: &Value) {
    let mut answers = match step.state.get("answers") {
        Value::List(found) => found.clone(),
        _ => Vec::new(),
    };
    match tag {
        "Ask" => {
            let params = inside.get("params").bytes().to_vec();
            step.emit_bytes(inside.get("effect").text(), params, None);
        }
        "Receipt" => {
            let payload = inside.get("receipt_payload");
            let receipt = decode(payload.bytes());
            if inside.get("effect").text() == HTTP {
                assert!(receipt.get("status").nat() > 0);
                receipt.get("timings").get("end_ns").nat();
                receipt.get("headers").entries();
            }
            answers.push(answer(inside, payload.clone(), Value::Null, Value::Null));
        }
        "Rejected" => {
            let (code, message) = (inside.get("error_code"), inside.get("error_message"));
            answers.push(answer(inside, Value::Null, code.clone(), message.clone()));
        }
        _ => panic!("{tag}"),
    }
    step.state = record([("answers", Value::List(answers))]);
}

fn answer(inside: &Value, payload: Value, code: Value, message: Value) -> Value {
    record([
        ("effect", inside.get("effect").clone()),
        ("status", inside.get("status").clone()),
        ("payload", payload),
        ("code", code),
        ("message", message),
    ])
}

/// `bench/counter@1`, for the benchmark of the SDKs: the sum of what its cell was given.
fn sum(step: &mut Step, add: &Value) {
    let before = match step.state {
        Value::Nat(sum) => sum,
        _ => 0,
    };
    step.state = Value::Nat(before + add.get("by").nat());
}

/// `bench/steps@1`, for the benchmark of the SDKs: effects one after the other.
fn run(step: &mut Step, tag: &str, inside: &Value) {
    let (run, steps, done) = match tag {
        "Begin" => (inside.get("run").nat(), inside.get("steps").nat(), 0),
        "Receipt" => {
            let receipt = decode(inside.get("receipt_payload").bytes());
            let (state, done) = (&step.state, receipt.get("step").nat());
            assert!(state.get("noop").text() == inside.get("params_hash").text());
            (state.get("run").nat(), state.get("steps").nat(), done)
        }
        _ => panic!("{tag}"),
    };
    let mut noop = Value::Null;
    if done == steps {
        step.annotation = Value::Bytes(encode(&Value::Nat(run), Lengths::Definite));
    } else {
        let params = record([("run", Value::Nat(run)), ("step", Value::Nat(done + 1))]);
        noop = params_hash(NOOP, &params).as_str().into();
        step.emit(NOOP, &params, None);
    }
    step.state = record([
        ("run", Value::Nat(run)),
        ("steps", Value::Nat(steps)),
        ("step", Value::Nat(done + 1)),
        ("noop", noop),
    ]);
}
