//! A keyed agent. It fetches its brief, asks a model, lets a program of the machine read the answer,
//! and commits what the program printed as a version of a workspace. Each receipt leads to the next
//! effect. Like code that the SDK's macros make, it names the fields that it reads and no others.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::cbor::{decode, encode, record, unit_arm, Lengths, Value};
use crate::{Step, HTTP};

const GENERATE: &str = "sys/llm.generate@1";
const OPEN: &str = "sys/host.session.open@1";
const WRITE_FILE: &str = "sys/host.fs.write_file@1";
const EXEC: &str = "sys/host.exec@1";
const EMPTY_ROOT: &str = "sys/workspace.empty_root@1";
const WRITE_REF: &str = "sys/workspace.write_ref@1";
const WRITE_BYTES: &str = "sys/workspace.write_bytes@1";
const READ_BYTES: &str = "sys/workspace.read_bytes@1";
const RESOLVE: &str = "sys/workspace.resolve@1";
const COMMIT: &str = "sys/WorkspaceCommit@1";

const FIELDS: [&str; 8] =
    ["stage", "brief", "answer", "session", "tries", "printed", "root", "version"];
const PLACE: &str = "out/answer.json";

pub fn agent(step: &mut Step, tag: &str, inside: &Value) {
    match tag {
        "Begin" => {
            let request = record([
                ("method", "GET".into()),
                ("url", inside.get("url").clone()),
                ("headers", Value::Map(Vec::new())),
                ("body_ref", Value::Null),
            ]);
            keep(step, "tries", Value::Nat(1));
            next(step, HTTP, request);
        }
        "Receipt" => {
            let receipt = decode(inside.get("receipt_payload").bytes());
            receive(step, inside.get("effect").text(), &receipt);
        }
        "Rejected" => {
            let message = inside.get("error_message").text();
            keep(step, "stage", format!("rejected: {message}").as_str().into());
        }
        _ => panic!("{tag}"),
    }
}

fn receive(step: &mut Step, effect: &str, receipt: &Value) {
    match effect {
        HTTP => {
            assert!(receipt.get("status").nat() == 200, "the brief is there");
            keep(step, "brief", receipt.get("body_ref").clone());
            let params = generation(receipt.get("body_ref"));
            next(step, GENERATE, params);
        }
        GENERATE => {
            assert!(receipt.get("finish_reason").get("reason").text() == "stop");
            keep(step, "answer", receipt.get("output_ref").clone());
            let local = record([("network_mode", "host".into())]);
            next(step, OPEN, record([("target", record([("local", local)]))]));
        }
        OPEN => {
            assert!(receipt.get("status").text() == "ready");
            keep(step, "session", receipt.get("session_id").clone());
            let blob = record([("blob_ref", kept(step, "answer"))]);
            let params = record([
                ("session_id", kept(step, "session")),
                ("path", format!("{}.json", id(step)).as_str().into()),
                ("content", record([("$tag", "blob_ref".into()), ("$value", blob)])),
            ]);
            next(step, WRITE_FILE, params);
        }
        WRITE_FILE => {
            assert!(receipt.get("status").text() == "ok");
            run(step);
        }
        EXEC => ran(step, receipt),
        EMPTY_ROOT => {
            let params = record([
                ("root_hash", receipt.get("root_hash").clone()),
                ("path", PLACE.into()),
                ("blob_hash", kept(step, "printed")),
            ]);
            next(step, WRITE_REF, params);
        }
        WRITE_REF => {
            assert!(*receipt.get("blob_hash") == kept(step, "printed"));
            let params = record([
                ("root_hash", receipt.get("new_root_hash").clone()),
                ("path", "id".into()),
                ("bytes", Value::Bytes(id(step).into_bytes())),
                ("mode", Value::Nat(0o600)),
            ]);
            next(step, WRITE_BYTES, params);
        }
        WRITE_BYTES => {
            let root = receipt.get("new_root_hash").clone();
            keep(step, "root", root.clone());
            commit(step, root.clone());
            next(step, READ_BYTES, record([("root_hash", root), ("path", PLACE.into())]));
        }
        READ_BYTES => {
            assert!(crate::sha256::text(receipt.bytes()) == kept(step, "printed").text());
            let name = id(step);
            next(step, RESOLVE, record([("workspace", name.as_str().into())]));
        }
        RESOLVE => {
            assert!(*receipt.get("root_hash") == kept(step, "root"));
            keep(step, "version", receipt.get("head").clone());
            keep(step, "stage", "done".into());
        }
        _ => panic!("{effect}"),
    }
}

/// Whether a program that was killed with its executor had an effect is not known: this one may run
/// again, as another intent.
fn ran(step: &mut Step, receipt: &Value) {
    if receipt.get("status").text() == "lost" {
        let tries = kept(step, "tries").nat();
        keep(step, "tries", Value::Nat(tries + 1));
        return run(step);
    }
    assert!(receipt.get("status").text() == "ok");
    let printed = receipt.get("stdout").get("$value").get("blob_ref").clone();
    keep(step, "printed", printed);
    let name = id(step);
    next(step, EMPTY_ROOT, record([("workspace", name.as_str().into())]));
}

fn run(step: &mut Step) {
    let id = id(step);
    let script = format!("echo ran >> {id}.log; sleep 0.2; cat {id}.json");
    let argv = vec!["/bin/sh".into(), "-c".into(), script.as_str().into()];
    let params = record([
        ("session_id", kept(step, "session")),
        ("argv", Value::List(argv)),
        ("output_mode", "blob".into()),
    ]);
    next(step, EXEC, params);
}

fn generation(brief: &Value) -> Value {
    let item = record([
        ("item_id", "brief".into()),
        ("kind", unit_arm("MessageRef")),
        ("ref_", brief.clone()),
        ("source_refs", Value::List(Vec::new())),
        ("metadata", Value::Map(Vec::new())),
    ]);
    record([
        ("provider", "local".into()),
        ("model", "m".into()),
        ("window_items", Value::List(vec![item])),
        ("runtime", record([("max_tokens", Value::Nat(100)), ("tool_choice", "Auto".into())])),
    ])
}

/// The next version of the workspace with the agent's name. Its event has maps without a length.
fn commit(step: &mut Step, root: Value) {
    let meta = record([
        ("root_hash", root),
        ("owner", "agent".into()),
        ("created_at", Value::Nat(step.context.get("logical_now_ns").nat())),
    ]);
    let value = record([
        ("workspace", id(step).as_str().into()),
        ("expected_head", Value::Nat(0)),
        ("meta", meta),
    ]);
    step.events.push(record([
        ("schema", COMMIT.into()),
        ("value", Value::Bytes(encode(&value, Lengths::Open))),
    ]));
}

fn next(step: &mut Step, effect: &str, params: Value) {
    keep(step, "stage", effect.into());
    step.emit(effect, &params, None);
}

fn kept(step: &Step, field: &str) -> Value {
    step.state.get(field).clone()
}

fn keep(step: &mut Step, field: &str, value: Value) {
    let fields = FIELDS.iter().map(|name| {
        let found = if *name == field { value.clone() } else { step.state.get(name).clone() };
        ((*name).into(), found)
    });
    step.state = Value::Map(fields.collect());
}

/// The agent's key, a text of fewer than 24 bytes, behind tag 55799.
fn id(step: &Step) -> String {
    match decode(step.key.bytes()) {
        Value::Text(id) => id,
        _ => panic!("expected a key of text"),
    }
}
