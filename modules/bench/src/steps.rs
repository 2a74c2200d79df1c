//! `bench/steps@1`: every run begins at once. The annotation of a run's last step is its number.

use alloc::vec::Vec;

use aos_abi::read::Record;
use aos_abi::{Fault, Input, Output, Status, Value};

use crate::run::Event;

pub fn step(input: Input) -> Result<Output, Fault> {
    let (mut open, mut done) = match &input.state {
        Some(state) => {
            let state = Record::new(state)?;
            (state.nat("open")?, state.nat("done")?)
        }
        None => (0, 0),
    };
    let (run, step) = match Event::read(&input.event.value)? {
        Event::Begun(run) => {
            open += 1;
            (run, 0)
        }
        Event::Answered { run, step } => (run, step),
    };
    let mut effects = Vec::new();
    let mut annotation = None;
    if step < run.steps {
        effects.push(run.ask(step + 1));
    } else {
        open -= 1;
        done += 1;
        annotation = Some(Value::from(run.number));
    }
    Ok(Output {
        state: Some(Value::record([("open", Value::from(open)), ("done", Value::from(done))])),
        effects,
        annotation,
        status: Some(if open == 0 { Status::Completed } else { Status::Running }),
        ..Output::default()
    })
}
