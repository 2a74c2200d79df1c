//! One call of the kernel, undecoded: its input and its output (`spec/kernel.md`, K-30,
//! K-31).
//!
//! [`Workflow`](crate::Workflow) is made of this. To read events and state in another way,
//! implement [`Reducer`] and export it with [`export!`](crate::export).

use alloc::string::String;
use alloc::vec::Vec;

use crate::cbor::{self, Misfit, Reader, Stop};
use crate::fault::Fault;
use crate::schema::whole;

/// The input of a step. All slices are canonical CBOR that the kernel has checked.
pub struct Input<'a> {
    /// None for a cell that does not exist yet, or was deleted.
    pub state: Option<&'a [u8]>,
    /// The workflow's own event schema.
    pub schema: &'a str,
    /// The event, wrapped in its arm where the schema is a variant.
    pub event: &'a [u8],
    /// The cell's key, where the workflow has one.
    pub key: Option<&'a [u8]>,
    /// `sys/WorkflowContext@1`, where the workflow declares it.
    pub context: Option<&'a [u8]>,
}

impl<'a> Input<'a> {
    /// Read the kernel's envelope.
    pub fn read(bytes: &'a [u8]) -> Result<Input<'a>, Misfit> {
        whole(bytes, Input::read_from)
    }

    fn read_from(from: &mut Reader<'a>) -> Result<Input<'a>, Stop> {
        let context = match from.map()? {
            4 => Some(embedded(from, b"\x63ctx")?),
            _ => None,
        };
        from.field(b"\x65event")?;
        let key = match from.map()? {
            3 => Some(embedded(from, b"\x63key")?),
            _ => None,
        };
        let event = embedded(from, b"\x65value")?;
        from.field(b"\x66schema")?;
        let schema = from.text()?;
        from.field(b"\x65state")?;
        let state = match from.is_null() {
            true => None,
            false => Some(from.bytes()?),
        };
        from.field(b"\x67version\x01")?;
        Ok(Input { state, schema, event, key, context })
    }
}

fn embedded<'a>(from: &mut Reader<'a>, field: &'static [u8]) -> Result<&'a [u8], Stop> {
    from.field(field)?;
    from.bytes()
}

/// The status of an instance. A declared status holds until the workflow declares another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Running,
    Completed,
    Failed,
}

/// Requests of one effect with the same key count as a single request outside: text or bytes, at
/// most 256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdempotencyKey {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&str> for IdempotencyKey {
    fn from(text: &str) -> IdempotencyKey {
        IdempotencyKey::Text(String::from(text))
    }
}

impl From<&String> for IdempotencyKey {
    fn from(text: &String) -> IdempotencyKey {
        IdempotencyKey::Text(text.clone())
    }
}

impl From<String> for IdempotencyKey {
    fn from(text: String) -> IdempotencyKey {
        IdempotencyKey::Text(text)
    }
}

impl From<Vec<u8>> for IdempotencyKey {
    fn from(bytes: Vec<u8>) -> IdempotencyKey {
        IdempotencyKey::Bytes(bytes)
    }
}

/// The output of a step, as it grows. Values are canonical CBOR of their schemas.
#[derive(Default)]
pub struct Output {
    /// None deletes the cell.
    pub state: Option<Vec<u8>>,
    pub annotation: Option<Vec<u8>>,
    pub status: Option<Status>,
    events: Many,
    effects: Many,
    fault: Option<Fault>,
}

/// Items one after another, and how many.
#[derive(Default)]
struct Many {
    bytes: Vec<u8>,
    count: usize,
}

impl Output {
    /// Emit a domain event. `key` is the canonical CBOR of the key by which it has to be routed.
    pub fn event(&mut self, schema: &str, value: &[u8], key: Option<&[u8]>) {
        let out = self.events.next();
        cbor::write_map(2 + key.is_some() as usize, out);
        if let Some(key) = key {
            out.extend_from_slice(b"\x63key");
            cbor::write_bytes(key, out);
        }
        out.extend_from_slice(b"\x65value");
        cbor::write_bytes(value, out);
        out.extend_from_slice(b"\x66schema");
        cbor::write_text(schema, out);
    }

    /// Request an effect by its name.
    pub fn effect(
        &mut self,
        effect: &str,
        params: &[u8],
        idempotency_key: Option<&IdempotencyKey>,
        issuer_ref: Option<&str>,
    ) {
        let out = self.effects.next();
        let fields = 2 + idempotency_key.is_some() as usize + issuer_ref.is_some() as usize;
        cbor::write_map(fields, out);
        out.extend_from_slice(b"\x66effect");
        cbor::write_text(effect, out);
        out.extend_from_slice(b"\x66params");
        cbor::write_bytes(params, out);
        if let Some(reference) = issuer_ref {
            out.extend_from_slice(b"\x6aissuer_ref");
            cbor::write_text(reference, out);
        }
        if let Some(key) = idempotency_key {
            out.extend_from_slice(b"\x6fidempotency_key");
            match key {
                IdempotencyKey::Text(text) => cbor::write_text(text, out),
                IdempotencyKey::Bytes(bytes) => cbor::write_bytes(bytes, out),
            }
        }
    }

    /// End the step with this fault, whatever else is said. The first one counts.
    pub fn fault(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
    }

    /// The number of effects requested so far.
    pub fn effect_count(&self) -> usize {
        self.effects.count
    }

    /// The envelope that the kernel reads.
    pub fn into_bytes(self) -> Vec<u8> {
        if let Some(fault) = self.fault {
            return fault.into_bytes();
        }
        let mut out = Vec::new();
        let fields = [
            self.annotation.is_some(),
            self.status.is_some(),
            self.effects.count > 0,
            self.events.count > 0,
        ];
        cbor::write_map(1 + fields.iter().filter(|is_there| **is_there).count(), &mut out);
        if let Some(annotation) = &self.annotation {
            out.extend_from_slice(b"\x63ann");
            cbor::write_bytes(annotation, &mut out);
        }
        out.extend_from_slice(b"\x65state");
        match &self.state {
            Some(state) => cbor::write_bytes(state, &mut out),
            None => cbor::write_null(&mut out),
        }
        if let Some(status) = self.status {
            out.extend_from_slice(match status {
                Status::Running => b"\x66status\x67running",
                Status::Completed => b"\x66status\x69completed",
                Status::Failed => b"\x66status\x66failed",
            });
        }
        self.effects.write(b"\x67effects", &mut out);
        self.events.write(b"\x6ddomain_events", &mut out);
        out
    }
}

impl Many {
    fn next(&mut self) -> &mut Vec<u8> {
        self.count += 1;
        &mut self.bytes
    }

    fn write(&self, name: &[u8], out: &mut Vec<u8>) {
        if self.count > 0 {
            out.extend_from_slice(name);
            cbor::write_list(self.count, out);
            out.extend_from_slice(&self.bytes);
        }
    }
}

/// A step over undecoded bytes.
///
/// ```
/// use aos_sdk::step::{Input, Output, Reducer};
/// use aos_sdk::Fault;
///
/// /// Keeps the last event as its state.
/// struct Last;
///
/// impl Reducer for Last {
///     fn reduce(input: &Input<'_>, output: &mut Output) -> Result<(), Fault> {
///         output.state = Some(input.event.to_vec());
///         Ok(())
///     }
/// }
///
/// aos_sdk::export!(last: Last);
/// ```
pub trait Reducer {
    /// A fault drops whatever is in `output`.
    fn reduce(input: &Input<'_>, output: &mut Output) -> Result<(), Fault>;
}

/// Read the input, take the step, write what came of it.
pub fn run<R: Reducer>(bytes: &[u8]) -> Vec<u8> {
    let mut output = Output::default();
    let taken = match Input::read(bytes) {
        Ok(input) => R::reduce(&input, &mut output),
        Err(misfit) => Err(Fault::input("input", misfit)),
    };
    if let Err(fault) = taken {
        output.fault(fault);
    }
    output.into_bytes()
}

/// Export a [`Reducer`] as an entrypoint of the module. Outside of WASM it only counts as used.
#[macro_export]
macro_rules! export {
    ($name:ident : $reducer:ty) => {
        const _: () = {
            #[cfg(target_arch = "wasm32")]
            #[unsafe(export_name = stringify!($name))]
            extern "C" fn entrypoint(pointer: u32, length: u32) -> u64 {
                $crate::memory::call(pointer, length, $crate::step::run::<$reducer>)
            }
            #[cfg(not(target_arch = "wasm32"))]
            const _: fn(&[u8]) -> $crate::alloc::vec::Vec<u8> = $crate::step::run::<$reducer>;
        };
    };
}
