//! `legacy`: typed results without an envelope.

use aos_sdk::prelude::*;
use aos_sdk::{BlobGetResult, BlobPutResult, TimerFired};

use crate::system::hash_of;

#[derive(Schema)]
pub enum What {
    Timer,
    Put,
    Get,
}

#[derive(Schema)]
#[schema("conformance/UseLegacy@1")]
pub struct UseLegacy {
    what: What,
}

#[derive(Event)]
#[schema("conformance/LegacyEvent@1")]
pub enum LegacyEvent {
    Use(UseLegacy),
    TimerFired(TimerFired),
    BlobPut(BlobPutResult),
    BlobGot(BlobGetResult),
}

#[derive(Schema, Default)]
#[schema("conformance/LegacyState@1")]
pub struct LegacyState {
    fired: Option<TimerFired>,
    put: Option<BlobPutResult>,
    got: Option<BlobGetResult>,
}

#[workflow(
    "conformance/legacy@1",
    module = "conformance/module@1",
    effects(timer::Set, blob::Put, blob::Get),
    routes(UseLegacy)
)]
fn legacy(state: &mut LegacyState, event: LegacyEvent, cx: &mut Context) -> Result<(), Fault> {
    match event {
        LegacyEvent::Use(UseLegacy { what: What::Timer }) => {
            cx.effect(timer::after(cx, Duration::from_ns(5)).key("tea")).forget();
        }
        LegacyEvent::Use(UseLegacy { what: What::Put }) => cx.effect(blob::put(*b"blob")).forget(),
        LegacyEvent::Use(UseLegacy { what: What::Get }) => {
            cx.effect(blob::get(hash_of("2")?)).forget();
        }
        LegacyEvent::TimerFired(fired) => state.fired = Some(fired),
        LegacyEvent::BlobPut(put) => state.put = Some(put),
        LegacyEvent::BlobGot(got) => state.got = Some(got),
    }
    Ok(())
}
