//! A crate on top of the SDK with its own dispatcher: it reads events and states itself, requests effects
//! by name, and declares its schemas as the SDK does.

#![no_std]
#![deny(warnings)]

use aos_sdk::air::{Definition, Json, Type};
use aos_sdk::cbor::Reader;
use aos_sdk::prelude::*;
use aos_sdk::step::{Input, Output, Reducer};

/// Keeps the operations of before as the bytes that they are.
pub struct Flow;

impl Reducer for Flow {
    fn reduce(input: &Input<'_>, output: &mut Output) -> Result<(), Fault> {
        let mut event = Reader::new(input.event);
        let (tag, is_valued) = event.arm().map_err(|_| Fault::new("flow", "no arm"))?;
        let inside = match is_valued {
            true => event.item().map_err(|_| Fault::new("flow", "no value"))?,
            false => &[],
        };
        let mut cx = aos_sdk::Context::new(input, output);
        let (now, key) = (cx.now(), cx.uuid());
        let params = encode(&timer::at(now + Duration::seconds(1)));
        cx.output().effect("sys/timer.set@1", &params, None, Some(tag));
        cx.output().event("flow/Seen@1", inside, Some(&encode(&key)));
        cx.output().state = Some([input.state.unwrap_or(&[]), inside].concat());
        Ok(())
    }
}

aos_sdk::export!(flow: Flow);

const STATE: Definition =
    Definition { name: "flow/State@1", of: Type::Record(&[("ops", &Type::Bytes)]) };

aos_sdk::air_node!(Json::Object(&[
    ("$kind", Json::Text("defschema")),
    ("name", Json::Text(STATE.name)),
    ("type", Json::Type(&STATE.of)),
]));
