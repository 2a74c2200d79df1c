//! `emitter`, `status`, `annotated`, `logged`.

use aos_sdk::prelude::*;

use crate::effects::Work;
use crate::types::Number;

#[derive(Schema, Clone)]
#[schema("conformance/Name@1")]
pub struct Name(pub String);

#[derive(Schema)]
#[schema("conformance/Say@1")]
pub struct Say {
    from: Name,
    to: Vec<Name>,
    with_key: bool,
}

#[derive(Schema)]
#[schema("conformance/Said@1")]
pub struct Said {
    from: Name,
    to: Name,
}

#[derive(Event)]
#[schema("conformance/EmitterEvent@1")]
pub enum EmitterEvent {
    Say(Say),
    Said(Said),
}

#[derive(Schema, Default)]
#[schema("conformance/EmitterState@1")]
pub struct EmitterState {
    heard: Vec<Name>,
}

#[workflow(
    "conformance/emitter@1",
    module = "conformance/module@1",
    key = Name,
    routes(Say by "from", Said by "to")
)]
fn emitter(state: &mut EmitterState, event: EmitterEvent, cx: &mut Context) {
    match event {
        EmitterEvent::Said(said) => state.heard.push(said.from),
        EmitterEvent::Say(say) => say.to.into_iter().for_each(|to| {
            let (key, said) = (to.clone(), Said { from: say.from.clone(), to });
            match say.with_key {
                true => cx.emit_to(&key, said),
                false => cx.emit(said),
            }
        }),
    }
}

#[derive(Schema)]
pub enum What {
    Keep,
    Run,
    Complete,
    Fail,
    Delete,
    DeleteAndAsk,
    Fault { kind: String, message: String },
    FaultLate,
    Trap,
}

#[derive(Schema)]
#[schema("conformance/Act@1")]
pub struct Act {
    id: Number,
    act: What,
}

#[derive(Schema)]
#[schema("conformance/Acted@1")]
pub struct Acted {
    steps: u64,
}

#[derive(Event)]
#[schema("conformance/StatusEvent@1")]
pub enum StatusEvent {
    Act(Act),
    Receipt(Receipt),
}

#[derive(Schema, Default)]
#[schema("conformance/StatusState@1")]
pub struct StatusState {
    steps: u64,
}

#[workflow(
    "conformance/status@1",
    module = "conformance/module@1",
    key = Number,
    effects(Work),
    routes(Act by "id")
)]
fn status(state: &mut StatusState, event: StatusEvent, cx: &mut Context) -> Result<(), Fault> {
    let StatusEvent::Act(Act { act, .. }) = event else { return Ok(()) };
    state.steps += 1;
    match act {
        What::Keep => {}
        What::Run => cx.status(Status::Running),
        What::Complete => cx.status(Status::Completed),
        What::Fail => cx.status(Status::Failed),
        What::Delete => cx.delete(),
        What::DeleteAndAsk => {
            cx.delete();
            cx.effect(late()).forget();
        }
        What::Fault { kind, message } => return Err(Fault::new(kind, message)),
        What::FaultLate => {
            cx.emit(Acted { steps: state.steps });
            cx.effect(late()).forget();
            cx.status(Status::Completed);
            return Err(Fault::new("late", "after all"));
        }
        What::Trap => panic!("as asked"),
    }
    Ok(())
}

fn late() -> Work {
    Work { item: "late".into(), weight: 0 }
}

#[derive(Schema)]
#[schema("conformance/Note@1")]
pub struct Note {
    steps: u64,
    text: Option<String>,
}

#[derive(Schema)]
#[schema("conformance/Annotate@1")]
pub struct Annotate {
    texts: Vec<String>,
}

#[derive(Schema, Default)]
#[schema("conformance/Steps@1")]
pub struct Steps {
    steps: u64,
}

#[workflow(
    "conformance/annotated@1",
    module = "conformance/module@1",
    annotations = Note,
    routes(Annotate)
)]
fn annotated(state: &mut Steps, event: Annotate, cx: &mut Context) {
    state.steps += 1;
    for text in event.texts {
        cx.annotate(Note { steps: state.steps, text: Some(text) });
    }
}

#[derive(Schema)]
#[schema("conformance/Write@1")]
pub struct Write {
    lines: Vec<String>,
}

#[workflow("conformance/logged@1", module = "conformance/module@1", routes(Write))]
fn logged(state: &mut Steps, event: Write, cx: &mut Context) {
    state.steps += 1;
    for line in event.lines {
        log!(cx, "{line}");
    }
}
