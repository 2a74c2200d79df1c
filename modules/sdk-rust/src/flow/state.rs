//! `aos/Flow@1`: the state of every flow (`spec/flow.md`, FL-10).

use alloc::vec::Vec;

use crate::air::{Definition, Json, Type};
use crate::cbor::{self, Misfit, Reader, Stop};
use crate::schema::whole;

use super::history::{Bytes, put};
use super::inbox;

/// The name of the schema of every flow's state.
pub const STATE: &str = "aos/Flow@1";

const OPTIONAL_BYTES: Type = Type::Option(&Type::Bytes);
const OPTIONAL_TEXT: Type = Type::Option(&Type::Text);
const SCHEMAS: Type =
    Type::Record(&[("input", &Type::Text), ("output", &OPTIONAL_TEXT), ("view", &OPTIONAL_TEXT)]);
/// The call by which another flow started this one.
pub const CALLER: Type = Type::Record(&[
    ("schema", &Type::Text),
    ("key", &Type::Bytes),
    ("path", &Type::Text),
    ("attempt", &Type::Nat),
]);
const DEFINITION: Definition = Definition {
    name: STATE,
    of: Type::Record(&[
        ("ops", &Type::Bytes),
        ("view", &OPTIONAL_BYTES),
        ("error", &OPTIONAL_BYTES),
        ("inbox", &Type::Bytes),
        ("input", &OPTIONAL_BYTES),
        ("output", &OPTIONAL_BYTES),
        ("schemas", &SCHEMAS),
        ("parent", &Type::Option(&CALLER)),
        ("refs", &Type::Set(&Type::Hash)),
        ("status", &Type::Text),
        ("started_ns", &Type::Nat),
    ]),
};

/// The `defschema` of the state, for `#[flow]`.
pub const NODE: Json = Json::Object(&[
    ("$kind", Json::Text("defschema")),
    ("name", Json::Text(STATE)),
    ("type", Json::Type(&DEFINITION.of)),
]);

/// Where a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// Only messages came so far.
    Pending,
    Running,
    /// It waits for times and messages only.
    Sleeping,
    RollingBack,
    Completed,
    Failed,
    Cancelled,
    /// A compensation failed in all its attempts.
    Stuck,
}

const STATUSES: [(Status, &str); 8] = [
    (Status::Pending, "pending"),
    (Status::Running, "running"),
    (Status::Sleeping, "sleeping"),
    (Status::RollingBack, "rolling_back"),
    (Status::Completed, "completed"),
    (Status::Failed, "failed"),
    (Status::Cancelled, "cancelled"),
    (Status::Stuck, "stuck"),
];

impl Status {
    pub fn word(self) -> &'static str {
        STATUSES[self as usize].1
    }

    pub fn has_ended(self) -> bool {
        matches!(self, Status::Completed | Status::Failed | Status::Cancelled)
    }

    /// The status that the kernel gets (FL-7).
    pub fn declared(self) -> crate::step::Status {
        match self {
            Status::Pending | Status::Completed | Status::Cancelled => {
                crate::step::Status::Completed
            }
            Status::Failed | Status::Stuck => crate::step::Status::Failed,
            Status::Running | Status::Sleeping | Status::RollingBack => {
                crate::step::Status::Running
            }
        }
    }
}

/// The flow that called this one, and the place of the result in it.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Parent {
    pub schema: &'static str,
    pub key: Bytes,
    pub path: &'static str,
    pub attempt: u64,
}

impl Parent {
    /// A record of four fields, as in a call's `reply`.
    pub fn read(from: &mut Reader<'static>) -> Result<Parent, Stop> {
        from.record(4)?;
        from.field(b"\x63key")?;
        let key = from.bytes()?;
        from.field(b"\x64path")?;
        let path = from.text()?;
        from.field(b"\x66schema")?;
        let schema = from.text()?;
        from.field(b"\x67attempt")?;
        Ok(Parent { schema, key, path, attempt: from.nat()? })
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        put(out, b"\xa4\x63key");
        cbor::write_bytes(self.key, out);
        put(out, b"\x64path");
        cbor::write_text(self.path, out);
        put(out, b"\x66schema");
        cbor::write_text(self.schema, out);
        put(out, b"\x67attempt");
        cbor::write_nat(self.attempt, out);
    }
}

/// The names of the schemas of a flow's values.
#[derive(Clone, Copy)]
pub(super) struct Schemas {
    pub input: &'static str,
    pub output: Option<&'static str>,
    pub view: Option<&'static str>,
}

/// A stored state. Its values are canonical CBOR.
pub(super) struct Stored {
    pub ops: Bytes,
    pub refs: Bytes,
    pub view: Option<Bytes>,
    pub error: Option<Bytes>,
    pub inbox: Bytes,
    pub input: Option<Bytes>,
    pub output: Option<Bytes>,
    pub parent: Option<Parent>,
    pub status: Status,
    pub schemas: Schemas,
    pub started: u64,
}

const NO_OPS: Bytes = b"\x83\x01\x80\x80";
const NO_REFS: Bytes = b"\x80";

impl Stored {
    pub fn new(schemas: Schemas) -> Stored {
        Stored {
            ops: NO_OPS,
            refs: NO_REFS,
            view: None,
            error: None,
            inbox: inbox::EMPTY,
            input: None,
            output: None,
            parent: None,
            status: Status::Pending,
            schemas,
            started: 0,
        }
    }

    pub fn read(bytes: Bytes) -> Result<Stored, Misfit> {
        whole(bytes, Stored::read_from)
    }

    fn read_from(from: &mut Reader<'static>) -> Result<Stored, Stop> {
        from.record(11)?;
        from.field(b"\x63ops")?;
        let ops = from.bytes()?;
        from.field(b"\x64refs")?;
        let refs = from.item()?;
        from.field(b"\x64view")?;
        let view = optional(from, Reader::bytes)?;
        from.field(b"\x65error")?;
        let error = optional(from, Reader::bytes)?;
        from.field(b"\x65inbox")?;
        let inbox = from.bytes()?;
        from.field(b"\x65input")?;
        let input = optional(from, Reader::bytes)?;
        from.field(b"\x66output")?;
        let output = optional(from, Reader::bytes)?;
        from.field(b"\x66parent")?;
        let parent = optional(from, Parent::read)?;
        from.field(b"\x66status")?;
        let word = from.text()?;
        let Some((status, _)) = STATUSES.iter().find(|(_, other)| *other == word) else {
            return Err(from.stop("the status of a flow before here"));
        };
        from.field(b"\x67schemas")?;
        from.record(3)?;
        from.field(b"\x64view")?;
        let view_schema = optional(from, Reader::text)?;
        from.field(b"\x65input")?;
        let input_schema = from.text()?;
        from.field(b"\x66output")?;
        let output_schema = optional(from, Reader::text)?;
        from.field(b"\x6astarted_ns")?;
        let started = from.nat()?;
        let schemas = Schemas { input: input_schema, output: output_schema, view: view_schema };
        let status = *status;
        Ok(Stored {
            ops,
            refs,
            view,
            error,
            inbox,
            input,
            output,
            parent,
            status,
            schemas,
            started,
        })
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.ops.len() + self.inbox.len() + 512);
        put(&mut out, b"\xab\x63ops");
        cbor::write_bytes(self.ops, &mut out);
        put(&mut out, b"\x64refs");
        put(&mut out, self.refs);
        put(&mut out, b"\x64view");
        write_bytes(self.view, &mut out);
        put(&mut out, b"\x65error");
        write_bytes(self.error, &mut out);
        put(&mut out, b"\x65inbox");
        cbor::write_bytes(self.inbox, &mut out);
        put(&mut out, b"\x65input");
        write_bytes(self.input, &mut out);
        put(&mut out, b"\x66output");
        write_bytes(self.output, &mut out);
        put(&mut out, b"\x66parent");
        match &self.parent {
            Some(parent) => parent.write(&mut out),
            None => cbor::write_null(&mut out),
        }
        put(&mut out, b"\x66status");
        cbor::write_text(self.status.word(), &mut out);
        put(&mut out, b"\x67schemas\xa3\x64view");
        write_text(self.schemas.view, &mut out);
        put(&mut out, b"\x65input");
        cbor::write_text(self.schemas.input, &mut out);
        put(&mut out, b"\x66output");
        write_text(self.schemas.output, &mut out);
        put(&mut out, b"\x6astarted_ns");
        cbor::write_nat(self.started, &mut out);
        out
    }
}

pub(super) fn optional<T>(
    from: &mut Reader<'static>,
    read: impl FnOnce(&mut Reader<'static>) -> Result<T, Stop>,
) -> Result<Option<T>, Stop> {
    match from.is_null() {
        true => Ok(None),
        false => read(from).map(Some),
    }
}

fn write_bytes(bytes: Option<Bytes>, out: &mut Vec<u8>) {
    match bytes {
        Some(bytes) => cbor::write_bytes(bytes, out),
        None => cbor::write_null(out),
    }
}

fn write_text(text: Option<&str>, out: &mut Vec<u8>) {
    match text {
        Some(text) => cbor::write_text(text, out),
        None => cbor::write_null(out),
    }
}
