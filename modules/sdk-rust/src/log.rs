//! Log lines, which are the step's annotation, or nothing at all.

use alloc::string::String;
use alloc::vec::Vec;

use crate::air::{Definition, Json, Type};
use crate::cbor::{Reader, Stop};
use crate::schema::{Named, Schema};

/// Whether the feature `log` is on. Off, `log!` is no code.
pub const IS_ON: bool = cfg!(feature = "log");

/// `aos/Log@1`: the annotation of a workflow that has no other, when `log` is on.
pub struct Log {
    pub lines: Vec<String>,
}

impl Schema for Log {
    const TYPE: Type = Type::Ref(&Log::DEFINITION);

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\xa1\x65lines");
        self.lines.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Log, Stop> {
        from.record(1)?;
        from.field(b"\x65lines")?;
        Ok(Log { lines: Schema::read(from)? })
    }
}

impl Named for Log {
    const NAME: &'static str = "aos/Log@1";
    const DEFINITION: Definition = Definition {
        name: Log::NAME,
        of: Type::Record(&[("lines", &<Vec<String> as Schema>::TYPE)]),
    };
}

/// For `annotations` of a workflow that has none of its own.
pub const SCHEMA: Json = if IS_ON { Json::Text(Log::NAME) } else { Json::Absent };

/// The `defschema`, when `log` is on.
pub const NODE: Json = match IS_ON {
    true => Json::Object(&[
        ("$kind", Json::Text("defschema")),
        ("name", Json::Text(Log::NAME)),
        ("type", Json::Type(&Log::DEFINITION.of)),
    ]),
    false => Json::Absent,
};

pub(crate) fn annotation(lines: Vec<String>) -> Vec<u8> {
    crate::schema::encode(&Log { lines })
}

/// Write a line into the step's annotation, where `aos trace` shows it. It is formatted as
/// `format!` does.
///
/// It costs nothing, not even the formatting, unless the crate is built with the feature `log`:
///
/// ```toml
/// aos-sdk = { path = "sdk", features = ["log"] }
/// ```
///
/// The lines of a step are lost when it faults, and where a workflow has annotations of its own.
///
/// ```
/// # use aos_sdk::prelude::*;
/// fn paid(cx: &mut Context, cents: u64) {
///     log!(cx, "paid {cents} cents at {:?}", cx.now());
/// }
/// ```
#[macro_export]
macro_rules! log {
    ($cx:expr, $($words:tt)+) => {
        if $crate::log::IS_ON {
            let line = $crate::alloc::format!($($words)+);
            $cx.line(line);
        }
    };
}
