//! `context`: all that a step knows, and its chance.

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("conformance/Signed@1")]
pub struct Signed(i64);

#[derive(Schema)]
#[schema("conformance/Look@1")]
pub struct Look {
    id: Signed,
    below: Vec<u64>,
    bytes: u64,
}

#[derive(Schema, Default)]
#[schema("conformance/View@1")]
pub struct View {
    now_ns: u64,
    logical_now_ns: u64,
    journal_height: u64,
    entropy: Vec<u8>,
    event_hash: Hash,
    manifest_hash: Hash,
    workflow: String,
    workflow_hash: Option<Hash>,
    key: Option<Signed>,
    cell_mode: bool,
    random: Vec<u64>,
    below: Vec<u64>,
    bytes: Vec<u8>,
    uuid: Uuid,
}

#[workflow(
    "conformance/context@1",
    module = "conformance/module@1",
    key = Signed,
    routes(Look by "id")
)]
fn context(state: &mut View, event: Look, cx: &mut Context) -> Result<(), Fault> {
    *state = View {
        now_ns: cx.now().nat_ns(),
        logical_now_ns: cx.journal_now().nat_ns(),
        journal_height: cx.journal_height(),
        entropy: cx.entropy().to_vec(),
        event_hash: cx.event_hash(),
        manifest_hash: cx.manifest_hash(),
        workflow: cx.workflow().into(),
        workflow_hash: cx.workflow_hash(),
        key: Some(cx.key()?),
        cell_mode: cx.is_cell(),
        random: (0..3).map(|_| cx.random()).collect(),
        below: event.below.into_iter().map(|bound| cx.random_below(bound)).collect(),
        bytes: cx.random_bytes(event.bytes as usize),
        uuid: cx.uuid(),
    };
    Ok(())
}
