//! The program in the module: its source, its schemas, its effects and its flows (PY-10 to PY-13).
//!
//! ```text
//! {"file": text, "calls": {name: other}, "flows": [flow, …], "source": text,
//!  "effects": {name: effect}, "schemas": {name: T}, "prepared": bytes}
//! flow   = {"view": name or null, "event": name, "input": name, "output": name or null,
//!           "result": T, "control": name, "listens": [name, …], "function": text,
//!           "returned": name or null}
//! effect = {"params": name, "receipt": T}
//! other  = {"call": name, "input": name, "output": T, "control": name, "key_field": text}
//! ```
//!
//! All of it is canonical CBOR; `T` is a type expression of AIR. A program without `calls` calls and
//! spawns no flow; one without `prepared` is parsed in each turn.

use std::cell::UnsafeCell;
use std::collections::HashMap;

use aos_sdk::Fault;
use aos_sdk::air;
use aos_sdk::cbor::{Reader, Stop};
use aos_sdk::flow::untyped::Facts;

use crate::types::{Schemas, Type};

/// The place of the program in the module's memory, which the build fills in.
#[repr(C)]
struct Place {
    pointer: UnsafeCell<u32>,
    length: UnsafeCell<u32>,
}

// A guest has one thread, and nothing writes to it after the module is loaded.
unsafe impl Sync for Place {}

/// The linker exports the address of what is exported as an immutable global.
#[unsafe(export_name = "aos_program")]
static PLACE: Place = Place { pointer: UnsafeCell::new(0), length: UnsafeCell::new(0) };

/// The bytes of the program; none in a module without one.
pub fn bytes() -> Option<&'static [u8]> {
    // Volatile: the compiler sees only zeros.
    let (pointer, length) =
        unsafe { (PLACE.pointer.get().read_volatile(), PLACE.length.get().read_volatile()) };
    // The build has put `length` bytes there, in front of the heap.
    (pointer != 0).then(|| unsafe {
        std::slice::from_raw_parts(pointer as usize as *const u8, length as usize)
    })
}

/// The program of a module.
#[derive(Debug)]
pub struct Segment {
    /// The name of the source in tracebacks.
    pub file: &'static str,
    pub source: &'static str,
    pub schemas: Schemas,
    pub effects: HashMap<&'static str, Effect>,
    pub flows: Vec<Flow>,
    /// The flows of other programs, by their names.
    pub calls: HashMap<&'static str, Other>,
    /// The program as `prepared::prepare` has made it.
    pub prepared: Option<&'static [u8]>,
}

/// An effect that the program requests.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The schema of its params.
    pub params: &'static str,
    pub receipt: Type,
}

/// A flow of another program, which the program calls or spawns.
#[derive(Clone, Debug)]
pub struct Other {
    /// The schemas of its call and its commands.
    pub call: &'static str,
    pub control: &'static str,
    /// The field of the input that is its key.
    pub key_field: &'static str,
    pub input: &'static str,
    pub output: Type,
}

/// A flow of the program: a function, and the names of its schemas.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The event schema of its workflow, by which a step selects it.
    pub event: &'static str,
    pub function: &'static str,
    pub input: &'static str,
    /// The schema of the result, if it has one.
    pub output: Option<&'static str>,
    /// The type of the result: null of a flow without one.
    pub result: Type,
    pub view: Option<&'static str>,
    pub control: &'static str,
    pub listens: &'static [&'static str],
    pub returned: Option<&'static str>,
}

impl Segment {
    /// Read a program. The error says at which byte it is not one.
    pub fn read(bytes: &'static [u8]) -> Result<Segment, Fault> {
        let mut from = Reader::new(bytes);
        let read = Segment::read_from(&mut from).and_then(|segment| from.end().map(|()| segment));
        read.map_err(|_| {
            let message = format!("the program in the module: {:?}; build it again", from.misfit());
            Fault::new("program", message)
        })
    }

    fn read_from(from: &mut Reader<'static>) -> Result<Segment, Stop> {
        let fields = from.map()?;
        if !(5..=7).contains(&fields) {
            return Err(from.stop("the 7 keys of a program before here"));
        }
        from.field(b"\x64file")?;
        let file = from.text()?;
        let mut calls = HashMap::new();
        if fields > 5 {
            from.field(b"\x65calls")?;
            for _ in 0..from.map()? {
                calls.insert(from.text()?, Other::read(from)?);
            }
        }
        from.field(b"\x65flows")?;
        let flows = (0..from.list()?).map(|_| Flow::read(from)).collect::<Result<_, _>>()?;
        from.field(b"\x66source")?;
        let source = from.text()?;
        from.field(b"\x67effects")?;
        let effects = (0..from.map()?).map(|_| Ok((from.text()?, Effect::read(from)?)));
        let effects = effects.collect::<Result<_, Stop>>()?;
        from.field(b"\x67schemas")?;
        let schemas = Schemas::read(from)?;
        let mut prepared = None;
        if fields == 7 {
            from.field(b"\x68prepared")?;
            prepared = Some(from.bytes()?);
        }
        Ok(Segment { file, source, schemas, effects, flows, calls, prepared })
    }

    /// The flow whose workflow has this event schema.
    pub fn flow(&self, event: &str) -> Result<&Flow, Fault> {
        self.flows.iter().find(|flow| flow.event == event).ok_or_else(|| {
            Fault::new("program", format!("no flow of the program has the event schema {event}"))
        })
    }

    /// The facts about a flow for the engine.
    pub fn facts(&self, flow: &Flow) -> Facts {
        let of = |name: Option<&str>| name.map(|name| self.air(&Type::Ref(name.to_owned())));
        Facts {
            control: flow.control,
            returned: flow.returned,
            listens: flow.listens,
            output: flow.output,
            view: flow.view,
            types: [of(Some(flow.input)), Some(self.air(&flow.result)), of(flow.view)],
            ..Facts::new(flow.input)
        }
    }

    /// The type as the SDK has it. The memory of a turn is never freed, so it may be leaked.
    fn air(&self, of: &Type) -> &'static air::Type {
        Box::leak(Box::new(self.air_value(of)))
    }

    fn air_value(&self, of: &Type) -> air::Type {
        let parts = |parts: &[(String, Type)]| -> &'static [(&'static str, &'static air::Type)] {
            let parts: Vec<_> =
                parts.iter().map(|(name, of)| (leaked(name), self.air(of))).collect();
            parts.leak()
        };
        match of {
            Type::Bool => air::Type::Bool,
            Type::Int => air::Type::Int,
            Type::Nat => air::Type::Nat,
            Type::Dec128 => air::Type::Dec128,
            Type::Bytes => air::Type::Bytes,
            Type::Text => air::Type::Text,
            Type::Time => air::Type::Time,
            Type::Duration => air::Type::Duration,
            Type::Hash => air::Type::Hash,
            Type::Uuid => air::Type::Uuid,
            Type::Unit => air::Type::Unit,
            Type::List(of) => air::Type::List(self.air(of)),
            Type::Set(of) => air::Type::Set(self.air(of)),
            Type::Option(of) => air::Type::Option(self.air(of)),
            Type::Map(key, value) => air::Type::Map { key: self.air(key), value: self.air(value) },
            Type::Record(fields) => air::Type::Record(parts(fields)),
            Type::Variant(arms) => air::Type::Variant(parts(arms)),
            Type::Ref(name) => match self.schemas.get(name) {
                Some(of) => air::Type::Ref(Box::leak(Box::new(air::Definition {
                    name: leaked(name),
                    of: self.air_value(&of),
                }))),
                None => air::Type::Unit,
            },
        }
    }
}

fn leaked(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

/// A name, or null.
fn name_or_null(from: &mut Reader<'static>) -> Result<Option<&'static str>, Stop> {
    match from.is_null() {
        true => Ok(None),
        false => from.text().map(Some),
    }
}

impl Flow {
    fn read(from: &mut Reader<'static>) -> Result<Flow, Stop> {
        from.record(9)?;
        from.field(b"\x64view")?;
        let view = name_or_null(from)?;
        from.field(b"\x65event")?;
        let event = from.text()?;
        from.field(b"\x65input")?;
        let input = from.text()?;
        from.field(b"\x66output")?;
        let output = name_or_null(from)?;
        from.field(b"\x66result")?;
        let result = Type::read(from)?;
        from.field(b"\x67control")?;
        let control = from.text()?;
        from.field(b"\x67listens")?;
        let listens = (0..from.list()?).map(|_| from.text()).collect::<Result<Vec<_>, _>>()?;
        from.field(b"\x68function")?;
        let function = from.text()?;
        from.field(b"\x68returned")?;
        let returned = name_or_null(from)?;
        let listens = listens.leak();
        Ok(Flow { event, function, input, output, result, view, control, listens, returned })
    }
}

impl Effect {
    fn read(from: &mut Reader<'static>) -> Result<Effect, Stop> {
        from.record(2)?;
        from.field(b"\x66params")?;
        let params = from.text()?;
        from.field(b"\x67receipt")?;
        Ok(Effect { params, receipt: Type::read(from)? })
    }
}

impl Other {
    fn read(from: &mut Reader<'static>) -> Result<Other, Stop> {
        from.record(5)?;
        from.field(b"\x64call")?;
        let call = from.text()?;
        from.field(b"\x65input")?;
        let input = from.text()?;
        from.field(b"\x66output")?;
        let output = Type::read(from)?;
        from.field(b"\x67control")?;
        let control = from.text()?;
        from.field(b"\x69key_field")?;
        Ok(Other { call, control, key_field: from.text()?, input, output })
    }
}
