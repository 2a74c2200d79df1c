//! States of an earlier version of a workflow (`spec/kernel.md`, K-76, K-77).

use alloc::vec::Vec;

use crate::cbor::{Reader, Stop};
use crate::fault::Fault;
use crate::schema::{Named, decode, encode, whole};
use crate::step::Output;

/// How the states of an earlier version become states of this one.
///
/// `migrate(from = OldState, by = function)` in `#[workflow]` writes this for a function
/// `fn(OldState) -> Result<State, Fault>`. A fault refuses the whole manifest.
pub trait Migration {
    type From: Named;
    type To: Named;

    fn migrate(state: Self::From) -> Result<Self::To, Fault>;
}

/// Read the kernel's question, migrate, write the answer.
#[doc(hidden)]
pub fn run<M: Migration>(bytes: &[u8]) -> Vec<u8> {
    let mut output = Output::default();
    match migrate::<M>(bytes) {
        Ok(state) => {
            output.state = Some(state);
            output.into_bytes()
        }
        Err(fault) => fault.into_bytes(),
    }
}

/// `{to, key?, from, state, version: 1}`: the names of both schemas are what the module was built
/// for.
fn migrate<M: Migration>(bytes: &[u8]) -> Result<Vec<u8>, Fault> {
    let state = whole(bytes, state_of).map_err(|misfit| Fault::input("input", misfit))?;
    let state = decode(state).map_err(|misfit| Fault::input("state", misfit))?;
    Ok(encode(&M::migrate(state)?))
}

fn state_of<'a>(from: &mut Reader<'a>) -> Result<&'a [u8], Stop> {
    let entries = from.map()?;
    from.field(b"\x62to")?;
    from.item()?;
    if entries == 5 {
        from.field(b"\x63key")?;
        from.item()?;
    }
    from.field(b"\x64from")?;
    from.item()?;
    from.field(b"\x65state")?;
    let state = from.bytes()?;
    from.field(b"\x67version\x01")?;
    Ok(state)
}

/// Export a [`Migration`] as an entrypoint of the module.
#[doc(hidden)]
#[macro_export]
macro_rules! export_migration {
    ($name:ident : $migration:ty) => {
        const _: () = {
            #[cfg(target_arch = "wasm32")]
            #[unsafe(export_name = stringify!($name))]
            extern "C" fn entrypoint(pointer: u32, length: u32) -> u64 {
                $crate::memory::call(pointer, length, $crate::migrate::<$migration>)
            }
        };
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cbor::{write_bytes, write_map, write_null, write_text};
    use crate::prelude::*;

    #[derive(Schema)]
    #[schema("t/State@1")]
    struct Old {
        total: u64,
    }

    #[derive(Schema)]
    #[schema("t/State@2")]
    struct New {
        total: String,
    }

    struct Renew;

    impl Migration for Renew {
        type From = Old;
        type To = New;

        fn migrate(old: Old) -> Result<New, Fault> {
            match old.total {
                0 => Err(Fault::new("empty", "there is nothing to take over")),
                total => Ok(New { total: total.to_string() }),
            }
        }
    }

    fn asked(state: &[u8], key: Option<&[u8]>) -> Vec<u8> {
        let mut out = Vec::new();
        let schema = |name: &str, out: &mut Vec<u8>| {
            write_map(2, out);
            write_text("hash", out);
            write_null(out);
            write_text("schema", out);
            write_text(name, out);
        };
        write_map(4 + key.is_some() as usize, &mut out);
        write_text("to", &mut out);
        schema(New::NAME, &mut out);
        if let Some(key) = key {
            write_text("key", &mut out);
            write_bytes(key, &mut out);
        }
        write_text("from", &mut out);
        schema(Old::NAME, &mut out);
        write_text("state", &mut out);
        write_bytes(state, &mut out);
        out.extend_from_slice(b"\x67version\x01");
        out
    }

    #[test]
    fn a_state_is_taken_over_with_a_key_and_without() {
        let state = encode(&New { total: "7".into() });
        let mut expected = Vec::from(b"\xa1\x65state");
        write_bytes(&state, &mut expected);

        for key in [None, Some(&[1][..])] {
            assert_eq!(run::<Renew>(&asked(&encode(&Old { total: 7 }), key)), expected);
        }
    }

    #[test]
    fn a_state_that_cannot_be_taken_over_is_a_fault() {
        let answer = run::<Renew>(&asked(&encode(&Old { total: 0 }), None));
        assert!(answer.starts_with(b"\xa1\x65fault\xa2\x64kind\x65empty"));

        let answer = run::<Renew>(&asked(b"\x01", None));
        assert!(answer.starts_with(b"\xa1\x65fault\xa2\x64kind\x69sdk_input"));
    }
}
