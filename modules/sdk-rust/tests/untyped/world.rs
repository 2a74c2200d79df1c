//! A flow that runs twice, once typed and once as a program: each turn must have equal bytes.

use aos_sdk::cbor::{self, Reader, Stop};
use aos_sdk::flow::untyped::{self, Facts};
use aos_sdk::flow::{Flow, Turn};
use aos_sdk::step::{Input, Output, Reducer};
use aos_sdk::{EffectError, Fault, Named, Schema, encode};

use crate::interpreter::machine;
use crate::script::Machine;

pub const HOUR: u64 = 3_600_000_000_000;
const BEGINNING: u64 = 1_700_000_000_000_000_000;

type Reduce = fn(&Input<'_>, &mut Output) -> Result<(), Fault>;
type Make = Box<dyn Fn() -> Machine>;

/// Both forms of one version of a flow.
pub struct Code {
    pub typed: Reduce,
    pub facts: Facts,
    pub program: Make,
}

impl Code {
    pub fn new<F: Flow>(facts: Facts, program: impl Fn() -> Machine + 'static) -> Code
    where
        F::View: 'static,
    {
        Code { typed: Turn::<F>::reduce, facts, program: Box::new(program) }
    }

    /// The interpreter of nodes.
    pub fn nodes<F: Flow<View = ()>>(without: &'static str) -> Code {
        let facts = crate::interpreter::facts(F::EFFECTS_LIMIT, F::EVENTS_LIMIT);
        Code::new::<F>(facts, move || machine(without))
    }
}

/// An effect that a turn requested.
#[derive(Clone, Debug)]
pub struct Intent {
    pub effect: String,
    pub reference: Option<String>,
    pub params: Vec<u8>,
}

impl Intent {
    pub fn is_timer(&self) -> bool {
        self.effect == "sys/timer.set@1"
    }

    /// The time for which a timer is set.
    pub fn due(&self) -> u64 {
        let mut reader = Reader::new(&self.params);
        let read = |from: &mut Reader<'_>| {
            from.record(2)?;
            from.field(b"\x63key")?;
            from.null()?;
            from.field(b"\x6ddeliver_at_ns")?;
            from.nat()
        };
        read(&mut reader).expect("the params of a timer")
    }
}

/// The outputs of a turn, or its fault.
#[derive(Debug, Default)]
pub struct Sent {
    pub fault: Option<(String, String)>,
    pub intents: Vec<Intent>,
    /// Schema and value.
    pub events: Vec<(String, Vec<u8>)>,
    pub annotation: Option<Vec<u8>>,
}

impl Sent {
    pub fn fault(&self) -> &str {
        self.fault.as_ref().map_or("", |(kind, _)| kind)
    }

    /// The references of its effects.
    pub fn references(&self) -> Vec<&str> {
        let said = |intent: &'_ Intent| intent.reference.is_some();
        let intents = self.intents.iter().filter(|intent| said(intent));
        intents.map(|intent| intent.reference.as_deref().unwrap_or_default()).collect()
    }
}

pub struct World {
    pub code: Code,
    pub state: Option<Vec<u8>>,
    pub now: u64,
    pub turns: u64,
}

impl World {
    pub fn new(code: Code) -> World {
        World { code, state: None, now: BEGINNING, turns: 0 }
    }

    /// One turn of both. Equal bytes, or the test fails.
    pub fn send(&mut self, event: &[u8]) -> Sent {
        self.turns += 1;
        let context = context(self.now, self.turns);
        let key = encode(&String::from("o-1"));
        let input = Input {
            state: self.state.as_deref(),
            schema: "f/RunFlowEvent@1",
            event,
            key: Some(&key),
            context: Some(&context),
        };
        let typed = bytes_of(|output| (self.code.typed)(&input, output));
        let untyped = bytes_of(|output| {
            untyped::turn(&self.code.facts, &input, output, || Ok((self.code.program)()))
        });
        assert!(
            typed == untyped,
            "turn {} differs\nevent   {}\ntyped   {}\nuntyped {}",
            self.turns,
            String::from_utf8_lossy(event),
            String::from_utf8_lossy(&typed),
            String::from_utf8_lossy(&untyped),
        );
        let (sent, state) = read_output(&typed).expect("an output");
        if sent.fault.is_none() {
            self.state = state;
        }
        sent
    }

    /// The field `status` of the state.
    pub fn status(&self) -> String {
        String::from_utf8(self.field("status")).expect("a text")
    }

    pub fn has_ended(&self) -> bool {
        self.state.is_some() && ["completed", "failed", "cancelled"].contains(&&*self.status())
    }

    /// The bytes of a field of the state, empty for null.
    pub fn field(&self, name: &str) -> Vec<u8> {
        let state = self.state.as_deref().expect("a state");
        let mut reader = Reader::new(state);
        for _ in 0..reader.map().expect("a record") {
            let is_it = reader.text() == Ok(name);
            let item = reader.item().expect("a value");
            if is_it {
                let mut reader = Reader::new(item);
                return match reader.bytes() {
                    Ok(bytes) => bytes.to_vec(),
                    Err(_) => Reader::new(item).text().map(Vec::from).unwrap_or_default(),
                };
            }
        }
        panic!("the state has no field {name}")
    }

    /// The output, once the flow is completed.
    pub fn output<T: Schema>(&self) -> T {
        assert_eq!(self.status(), "completed");
        aos_sdk::decode(&self.field("output")).expect("the output")
    }
}

fn bytes_of(reduce: impl FnOnce(&mut Output) -> Result<(), Fault>) -> Vec<u8> {
    let mut output = Output::default();
    if let Err(fault) = reduce(&mut output) {
        output.fault(fault);
    }
    output.into_bytes()
}

fn read_output(bytes: &[u8]) -> Result<(Sent, Option<Vec<u8>>), Stop> {
    let mut reader = Reader::new(bytes);
    let (mut sent, mut state) = (Sent::default(), None);
    for _ in 0..reader.map()? {
        match reader.text()? {
            "fault" => sent.fault = Some(read_fault(&mut reader)?),
            "state" if reader.is_null() => {}
            "state" => state = Some(reader.bytes()?.to_vec()),
            "ann" => sent.annotation = Some(reader.bytes()?.to_vec()),
            "effects" => {
                for _ in 0..reader.list()? {
                    sent.intents.push(read_intent(&mut reader)?);
                }
            }
            "domain_events" => {
                for _ in 0..reader.list()? {
                    sent.events.push(read_event(&mut reader)?);
                }
            }
            _ => drop(reader.item()?),
        }
    }
    reader.end()?;
    Ok((sent, state))
}

fn read_fault(from: &mut Reader<'_>) -> Result<(String, String), Stop> {
    let (mut kind, mut message) = (String::new(), String::new());
    for _ in 0..from.map()? {
        match from.text()? {
            "kind" => kind = from.text()?.into(),
            "message" => message = from.text()?.into(),
            _ => drop(from.item()?),
        }
    }
    Ok((kind, message))
}

fn read_intent(from: &mut Reader<'_>) -> Result<Intent, Stop> {
    let mut intent = Intent { effect: String::new(), reference: None, params: Vec::new() };
    for _ in 0..from.map()? {
        match from.text()? {
            "effect" => intent.effect = from.text()?.into(),
            "params" => intent.params = from.bytes()?.to_vec(),
            "issuer_ref" => intent.reference = Some(from.text()?.into()),
            _ => drop(from.item()?),
        }
    }
    Ok(intent)
}

fn read_event(from: &mut Reader<'_>) -> Result<(String, Vec<u8>), Stop> {
    let (mut schema, mut value) = (String::new(), Vec::new());
    for _ in 0..from.map()? {
        match from.text()? {
            "schema" => schema = from.text()?.into(),
            "value" => value = from.bytes()?.to_vec(),
            _ => drop(from.item()?),
        }
    }
    Ok((schema, value))
}

/// `sys/WorkflowContext@1`.
pub fn context(now: u64, turn: u64) -> Vec<u8> {
    let mut out = Vec::new();
    cbor::write_map(10, &mut out);
    let text = |name: &str, out: &mut Vec<u8>| cbor::write_text(name, out);
    text("key", &mut out);
    cbor::write_null(&mut out);
    text("now_ns", &mut out);
    cbor::write_nat(now, &mut out);
    text("entropy", &mut out);
    cbor::write_bytes(&[turn as u8; 64], &mut out);
    text("workflow", &mut out);
    text("f/run@1", &mut out);
    text("cell_mode", &mut out);
    cbor::write_bool(true, &mut out);
    text("event_hash", &mut out);
    text("blake3:0", &mut out);
    text("manifest_hash", &mut out);
    text("blake3:0", &mut out);
    text("workflow_hash", &mut out);
    cbor::write_null(&mut out);
    text("journal_height", &mut out);
    cbor::write_nat(turn, &mut out);
    text("logical_now_ns", &mut out);
    cbor::write_nat(now, &mut out);
    out
}

// Mail.

pub fn mail(arm: &str, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    cbor::write_arm(arm, true, &mut out);
    out.extend_from_slice(value);
    out
}

pub fn start<T: Named>(input: &T) -> Vec<u8> {
    mail("Start", &encode(input))
}

/// A receipt with this status.
pub fn receipt(reference: &str, status: &str, payload: &[u8], schema: &str) -> Vec<u8> {
    let mut out = Vec::new();
    cbor::write_map(4, &mut out);
    for (name, text) in [("status", status), ("issuer_ref", reference), ("payload_schema", schema)]
    {
        cbor::write_text(name, &mut out);
        cbor::write_text(text, &mut out);
    }
    cbor::write_text("receipt_payload", &mut out);
    cbor::write_bytes(payload, &mut out);
    mail("Receipt", &out)
}

pub fn ok<T: Named>(reference: &str, payload: &T) -> Vec<u8> {
    receipt(reference, "ok", &encode(payload), T::NAME)
}

pub fn error(reference: &str, status: &str, code: &str, retryable: bool) -> Vec<u8> {
    let error = EffectError { code: code.into(), message: "it was so".into(), retryable };
    receipt(reference, status, &encode(&error), EffectError::NAME)
}

/// A timer has fired.
pub fn fired(reference: &str) -> Vec<u8> {
    receipt(reference, "ok", b"\xf6", "sys/TimerFired@1")
}

pub fn rejected(reference: &str) -> Vec<u8> {
    let mut out = Vec::new();
    cbor::write_map(3, &mut out);
    let texts =
        [("error_code", "schema"), ("issuer_ref", reference), ("error_message", "it does not fit")];
    for (name, text) in texts {
        cbor::write_text(name, &mut out);
        cbor::write_text(text, &mut out);
    }
    mail("Rejected", &out)
}

/// A command: `Continue`, or another one with this value.
pub fn control(command: &str, value: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    cbor::write_map(2, &mut out);
    cbor::write_text("command", &mut out);
    cbor::write_arm(command, value.is_some(), &mut out);
    out.extend_from_slice(value.unwrap_or_default());
    cbor::write_text("instance", &mut out);
    cbor::write_text("o-1", &mut out);
    mail("Control", &out)
}

pub fn cancel(rollback: bool) -> Vec<u8> {
    let mut value = Vec::from(b"\xa2\x66parent\xf6");
    cbor::write_text("rollback", &mut value);
    cbor::write_bool(rollback, &mut value);
    control("Cancel", Some(&value))
}

pub fn resume(skip: bool) -> Vec<u8> {
    let mut value = Vec::from(b"\xa1\x64skip");
    cbor::write_bool(skip, &mut value);
    control("Resume", Some(&value))
}

pub fn go_on() -> Vec<u8> {
    control("Continue", None)
}

/// The result of a called flow.
pub fn returned(path: &str, result: Result<&[u8], &[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    cbor::write_map(4, &mut out);
    cbor::write_text("path", &mut out);
    cbor::write_text(path, &mut out);
    cbor::write_text("result", &mut out);
    let (arm, bytes) = match result {
        Ok(bytes) => ("Ok", bytes),
        Err(bytes) => ("Failed", bytes),
    };
    cbor::write_arm(arm, true, &mut out);
    cbor::write_bytes(bytes, &mut out);
    cbor::write_text("attempt", &mut out);
    cbor::write_nat(1, &mut out);
    cbor::write_text("instance", &mut out);
    cbor::write_text("o-1", &mut out);
    mail("Return", &out)
}

/// A failure as a called flow returns it.
pub fn failure(kind: &str, code: &str) -> Vec<u8> {
    let mut out = Vec::new();
    cbor::write_list(5, &mut out);
    [kind, code, "it was so", ""].iter().for_each(|text| cbor::write_text(text, &mut out));
    cbor::write_list(0, &mut out);
    out
}
