//! A program in its segment, started without the engine.

use aos_sdk::Time;
use aos_sdk::cbor;
use aos_sdk::flow::untyped::{Pause, Program, Start};
use pyflow::program::Python;
use pyflow::segment::Segment;
use pyflow::values::Values;

/// Three classes in front of each program: its input `Go`, and the effect `Do`.
pub const CLASSES: &str = r#"
@schema("t/Go@1")
class Go:
    id: str


@schema("t/Done@1")
class Done:
    note: str


@effect("t/do@1", executor="t")
class Do:
    what: str
    receipt: ClassVar[type[Done]]

"#;

pub fn text(text: &str, out: &mut Vec<u8>) {
    cbor::write_text(text, out);
}

/// A record type of one text field.
fn record(field: &str, out: &mut Vec<u8>) {
    cbor::write_map(1, out);
    text("record", out);
    cbor::write_map(1, out);
    text(field, out);
    out.extend_from_slice(b"\xa1\x64text\xa0");
}

/// The program as it is in a module.
fn segment(code: &str) -> Segment {
    let mut out = Vec::new();
    cbor::write_map(5, &mut out);
    for (key, value) in [("file", "flow.py")] {
        text(key, &mut out);
        text(value, &mut out);
    }
    text("flows", &mut out);
    cbor::write_list(1, &mut out);
    cbor::write_map(9, &mut out);
    text("view", &mut out);
    cbor::write_null(&mut out);
    for (key, value) in [("event", "t/Event@1"), ("input", "t/Go@1")] {
        text(key, &mut out);
        text(value, &mut out);
    }
    text("output", &mut out);
    cbor::write_null(&mut out);
    text("result", &mut out);
    out.extend_from_slice(b"\xa1\x64text\xa0");
    text("control", &mut out);
    text("t/Control@1", &mut out);
    text("listens", &mut out);
    cbor::write_list(0, &mut out);
    text("function", &mut out);
    text("main", &mut out);
    text("returned", &mut out);
    cbor::write_null(&mut out);
    text("source", &mut out);
    text(&format!("{CLASSES}{code}"), &mut out);
    text("effects", &mut out);
    cbor::write_map(1, &mut out);
    text("t/do@1", &mut out);
    cbor::write_map(2, &mut out);
    text("params", &mut out);
    text("t/Do@1", &mut out);
    text("receipt", &mut out);
    cbor::write_map(1, &mut out);
    text("ref", &mut out);
    text("t/Done@1", &mut out);
    text("schemas", &mut out);
    cbor::write_map(3, &mut out);
    for (name, field) in [("t/Do@1", "what"), ("t/Go@1", "id"), ("t/Done@1", "note")] {
        text(name, &mut out);
        record(field, &mut out);
    }
    Segment::read(out.leak()).unwrap()
}

/// A flow of this code, which has run to its first pause.
pub fn started(code: &str) -> (Python, Pause) {
    started_with(code, "a")
}

/// The same, with another id in its input.
pub fn started_with(code: &str, id: &str) -> (Python, Pause) {
    let segment = segment(code);
    let flow = segment.flow("t/Event@1").unwrap();
    let values = Values::new(segment.schemas.clone());
    let mut python = Python::new(&segment, flow, values).unwrap();
    let mut input = b"\xa1\x62id".to_vec();
    text(id, &mut input);
    let input = input.leak();
    let start =
        Start { input, key: b"\x61a", started_at: Time::from_ns(1_600_000_000_000_000_000) };
    let pause = python.start(&start);
    (python, pause)
}
