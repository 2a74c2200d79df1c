//! `bench/line@1`: one run at a time, first come, first served. The annotation of a run's last step
//! is its number.

use alloc::vec::Vec;

use aos_abi::read::Record;
use aos_abi::{Fault, Input, Output, Status, Value};

use crate::run::{Event, Run};

pub fn step(input: Input) -> Result<Output, Fault> {
    let mut line = read(input.state.as_ref())?;
    let mut effects = Vec::new();
    let mut annotation = None;
    match Event::read(&input.event.value)? {
        Event::Begun(run) => {
            if run.steps == 0 {
                return Err(Fault::new("bench", "a run that stands in line has a step to take"));
            }
            line.push(run);
            if line.len() == 1 {
                effects.push(run.ask(1));
            }
        }
        Event::Answered { run, step } if step < run.steps => effects.push(run.ask(step + 1)),
        Event::Answered { run, .. } => {
            annotation = Some(Value::from(run.number));
            line.remove(0);
            effects.extend(line.first().map(|next| next.ask(1)));
        }
    }
    Ok(Output {
        state: Some(value(&line)),
        effects,
        annotation,
        status: Some(if line.is_empty() { Status::Completed } else { Status::Running }),
        ..Output::default()
    })
}

fn read(state: Option<&Value>) -> Result<Vec<Run>, Fault> {
    let Some(state) = state else { return Ok(Vec::new()) };
    Record::new(state)?.list("line")?.iter().map(Run::read).collect()
}

fn value(line: &[Run]) -> Value {
    Value::record([("line", Value::List(line.iter().map(|run| run.value()).collect()))])
}
